"""Codes 47x and 48x: what access control lists and a restricted token cannot hold."""

from sandboxc.catalogue import CodeInfo

WINDOWS_ROWS: tuple[CodeInfo, ...] = (
    CodeInfo(
        "SBX470",
        "reads are not held",
        "The token is write-restricted: Windows checks it a second time for writes only, and reads follow the user's "
        "own rights. So a denied place can be read, another run's private temp directory too; writing below a "
        "deny is refused. A standing limit.",
        "",
        "sandboxc: 1\nmode: workspace-write\nwindows: {reads: strict}\n",
        "keep secrets away from the account, or write `windows: {reads: strict}`, under which many programs need "
        "more read entries",
    ),
    CodeInfo(
        "SBX471",
        "what everybody may write stays open",
        "A program cannot start unless Everyone and its logon session are among the restricting SIDs (under strict "
        "reads Users too). What those may write, such as a folder shared by all users, the run may write. A standing "
        "limit.",
        "",
        "",
        "take the rights of Everyone away from such folders",
    ),
    CodeInfo(
        "SBX472",
        "protected names that are not there yet",
        "An entry needs an object to stand on. A protected or hidden name that does not exist, that a pattern of a "
        "preset would match later, or that belongs to a repository made during the run, can be made by the run.",
        "",
        "",
        "write an entry for the name: an entry has its name occupied for the run",
    ),
    CodeInfo(
        "SBX473",
        "a pattern is a snapshot",
        "Entries stand on objects, so a pattern holds for the names that exist at binding.",
        "sandboxc: 1\nmode: workspace-write\nnetwork: allow-all\nentries:\n"
        '  - {glob: "**/.env", access: read, within: writable}\n',
        "sandboxc: 1\nmode: workspace-write\nnetwork: allow-all\nentries:\n"
        '  - {glob: "**/.env", access: read, within: writable}\nwaive:\n'
        '  - {loss: SBX473, target: windows, at: "**/.env", reason: nothing makes such files}\n',
        "name the paths, or waive the loss at the pattern",
    ),
    CodeInfo(
        "SBX474",
        "a denied baseline is not held",
        "`baseline: deny` is about reads, and under a write-restricted token reads follow the user's own rights.",
        "sandboxc: 1\nmode: read-only\nbaseline: deny\nnetwork: allow-all\n",
        "sandboxc: 1\nmode: read-only\nbaseline: deny\nnetwork: allow-all\nwindows: {reads: strict}\n",
        "write `windows: {reads: strict}`, or waive the loss at `baseline`",
    ),
    CodeInfo(
        "SBX475",
        "the network is not filtered",
        "A token says nothing about the network, so `deny` and `loopback` are not enforced by the plan.",
        "sandboxc: 1\nmode: read-only\nnetwork: deny\n",
        "sandboxc: 1\nmode: read-only\nnetwork: deny\nwaive:\n"
        "  - {loss: SBX475, target: windows, at: network, reason: the firewall of the machine does it}\n",
        "waive the loss at `network`, or leave Windows out of `targets`",
    ),
    CodeInfo(
        "SBX476",
        "a path that is not there yet is not held",
        "An entry needs an object to stand on. The policy says `absent: report`, so nothing occupies the name, and the "
        "run can make it.",
        "",
        "",
        "leave out `absent: report`, so that the name is occupied for the run",
    ),
    CodeInfo(
        "SBX477",
        "named pipes and sockets",
        "Named pipes have access control lists of their own, and whoever made a pipe decides who may open it. A "
        "standing limit.",
        "",
        "",
        "stop the service, or run as another account",
    ),
    CodeInfo(
        "SBX478",
        "other processes and services",
        "A restricted token does not keep a process from reading the memory of others of the same user, from "
        "typing into a console that it shares, or from asking services and file servers to act with the user's whole "
        "rights. A standing limit.",
        "",
        "",
        "give the run a console, a job and, where it matters, an account of its own",
    ),
    CodeInfo(
        "SBX479",
        "a writable path that is not there yet stays closed",
        "An entry needs an object to stand on, so a write entry on an absent path opens nothing until the plan is made "
        "again.",
        "",
        "sandboxc: 1\nmode: workspace-write\nentries:\n  - {path: ~/.cache/tool, access: write, absent: create}\n",
        "make the directory before the run, or write `absent: create`",
    ),
    CodeInfo(
        "SBX480",
        "a place that no list of this machine reaches",
        "Entries stand on objects of local NTFS volumes. A share answers to its server, which sees the user and not "
        "the restricted token, and nothing stands above all drives at once.",
        "sandboxc: 1\nmode: workspace-write\ntargets: [windows]\nentries:\n"
        '  - {path: "\\\\\\\\srv\\\\share\\\\x", access: read}\n',
        "sandboxc: 1\nmode: workspace-write\ntargets: [windows]\nentries:\n  - {path: C:/x, access: read}\n",
        "name a path on a local drive, or add `when` to the entry",
    ),
    CodeInfo(
        "SBX481",
        "owners, lists and files that are moved in",
        "The plan never grants the right to change owners or access control lists, and what an outside program moves "
        "into a writable root from elsewhere on the volume keeps its list. A standing limit; it only narrows.",
        "",
        "",
        "copy files into the root instead of moving them",
    ),
    CodeInfo(
        "SBX482",
        "several names, and replaced files",
        "A file inherits from one of its names at a time, so a second name in a writable root can open it, and a file "
        "that an outside program replaces loses the entry that stood on it. A standing limit.",
        "",
        "",
        "keep hard links out of writable roots, and protect directories instead of single files",
    ),
    CodeInfo(
        "SBX483",
        "strict reads open less than a readable baseline",
        "Under `windows: {reads: strict}` a read needs an entry. The home directory gets one, system directories are "
        "open to all users; everything else that the baseline would let through stays closed.",
        "",
        "",
        "add a read entry for what the programs need",
    ),
    CodeInfo(
        "SBX484",
        "what git's configuration names is not looked up",
        "Git takes hooks and more configuration from wherever `core.hooksPath`, `include.path` and `includeIf` point. "
        "The plan is made without reading the configuration of any repository, so such a place below a writable root "
        "is as writable as the root. `.git/hooks` and the configuration files themselves are held where they exist.",
        "",
        'sandboxc: 1\nmode: workspace-write\nentries:\n  - {path: "${workspace}/.githooks", access: read}\n',
        "write a read entry for the place that the configuration names",
    ),
)
