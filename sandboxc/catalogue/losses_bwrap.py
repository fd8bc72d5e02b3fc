"""Codes 43x and 44x: what bubblewrap cannot hold, and what its planner says."""

from sandboxc.catalogue import CodeInfo

BWRAP_ROWS: tuple[CodeInfo, ...] = (
    CodeInfo(
        "SBX430",
        "renames across a pinned directory",
        "A directory between a writable root and a stricter place is bound onto itself, or it could be renamed "
        "away from "
        "under that place. The kernel does not rename or link across a mount, so between the two sides both give "
        "EXDEV; "
        "programs that fall back to copying (mv, install) go on, those that do not fail. The directory itself "
        "cannot be "
        "renamed or removed.",
        "",
        "",
        "nothing needs doing; keep stricter places near the top of a writable root, so that few directories are pinned",
    ),
    CodeInfo(
        "SBX431",
        "a pattern holds for existing names only",
        "bubblewrap mounts over names, so a name must be there when the run starts. What matches the pattern then is "
        "held; what the run makes later is not, and the next run holds it.",
        'sandboxc: 1\nmode: workspace-write\nentries:\n  - {glob: "**/.env", access: deny, within: writable}\n',
        "sandboxc: 1\nmode: workspace-write\n"
        "entries:\n"
        '  - {glob: "**/.env", access: deny, within: writable}\n'
        "waive:\n"
        '  - {loss: SBX431, target: bwrap, at: "**/.env", reason: secrets made during a run are its own}\n',
        "name the paths (absent ones are occupied), or accept the loss there with a reason",
    ),
    CodeInfo(
        "SBX432",
        "an absent preset name is not held",
        "A protected or hidden name that is absent when the run starts, in a directory that the run may write to, "
        "is not held when the run makes it. It is not occupied, because dozens of empty files would show in every "
        "listing; `commondir`, which sends git elsewhere, is.",
        "",
        "sandboxc: 1\nmode: workspace-write\nentries:\n  - {path: '${workspace}/.envrc', access: read}\n",
        "write an entry for a name that matters: an absent name of an entry is occupied for the run",
    ),
    CodeInfo(
        "SBX433",
        "an absent name is not held",
        "The entry says `absent: report` and its path is not there, in a directory that the run may write to.",
        "sandboxc: 1\nmode: workspace-write\nentries:\n  - {path: '${workspace}/.env', access: deny, absent: report}\n",
        "sandboxc: 1\nmode: workspace-write\nentries:\n  - {path: '${workspace}/.env', access: deny}\n",
        "remove `absent: report`: the name is then occupied for the run",
    ),
    CodeInfo(
        "SBX434",
        "a write entry on an absent path",
        "There is nothing to bind until the path exists, and until the next run it opens nothing.",
        "sandboxc: 1\nmode: workspace-write\nentries:\n  - {path: ~/.cache/tool, access: write}\n",
        "sandboxc: 1\nmode: workspace-write\nentries:\n  - {path: ~/.cache/tool, access: write, absent: create}\n",
        "write `absent: create`, or make the path before the run",
    ),
    CodeInfo(
        "SBX435",
        "a preset's pattern holds for existing names only",
        "As SBX431, for the patterns that the protected and hidden presets bring.",
        "",
        "",
        "write an entry for a path that matters",
    ),
    CodeInfo(
        "SBX436",
        "a new repository has no protected names",
        "The names of git directories are found when the run starts. A repository that the run makes has none "
        "until the "
        "next run, so treat what it holds as the run's own work.",
        "",
        "",
        "look at hooks and configuration of repositories that a run made before using them outside",
    ),
    CodeInfo(
        "SBX437",
        "a replaced name is no longer held",
        "A mount on a file or socket ends when a process outside the sandbox replaces or unlinks that name "
        "(editors do, "
        "and daemons that start anew). A mount on a directory does not.",
        "",
        "",
        "deny the directory that holds the file",
    ),
    CodeInfo(
        "SBX438",
        "what outside processes make later can be read",
        "The survey sees one moment. A secret that another process writes during the run into a readable tree is "
        "readable, unless it lies in a denied directory.",
        "",
        "",
        "deny the directory where it will appear, or use `baseline: deny`",
    ),
    CodeInfo(
        "SBX439",
        "a socket bound later can be connected to",
        "Sockets that exist when the run starts are masked. One that a process outside binds later, in a place "
        "that the "
        "run can read, is not.",
        "",
        "",
        "deny the directory where the socket will appear",
    ),
    CodeInfo(
        "SBX440",
        "another name of a file that only the baseline covers",
        "A hard link inside a writable root to a file elsewhere can be written through. Other names of denied and "
        "protected files are found and held; those of files that only the baseline covers are not looked for.",
        "",
        "",
        "keep hard links to files of other trees out of writable roots",
    ),
    CodeInfo(
        "SBX441",
        "host loopback ports are out of reach",
        "The sandbox has a network of its own, with a loopback of its own, and nothing relays the named ports to it.",
        "sandboxc: 1\nmode: workspace-write\nnetwork: {mode: loopback, ports: [3128]}\n",
        "sandboxc: 1\nmode: workspace-write\nnetwork: loopback\n",
        "start the server inside the run, or use `network: allow-all`",
    ),
    CodeInfo(
        "SBX442",
        "abstract sockets can be connected to",
        "With `network: allow-all` the run shares the host's network, and abstract sockets live there. Landlock "
        "closes "
        "them from ABI 6 (Linux 6.12) on; the target facts name an older one.",
        "sandboxc: 1\nmode: workspace-write\nnetwork: allow-all\n",
        "sandboxc: 1\nmode: workspace-write\nnetwork: loopback\n",
        "use a kernel with Landlock ABI 6, or a network of the sandbox's own",
    ),
    CodeInfo(
        "SBX443",
        "no terminal",
        "There is no system call filter for this architecture, so the command gets a session of its own, in which "
        "/dev/tty does not work: else it could type into the terminal that it was started from.",
        "",
        "",
        "nothing needs doing unless the command asks for a password or draws on /dev/tty",
    ),
    CodeInfo(
        "SBX444",
        "FIFOs in readable places can be written to",
        "A read-only mount does not stop writing to a FIFO. A process outside that reads one takes what the run "
        "writes.",
        "",
        "",
        "deny the FIFO, or the directory that holds it",
    ),
    CodeInfo(
        "SBX445",
        "existence of a denied path can be told",
        "A denied path is covered by an empty file or directory without permissions, so stat succeeds on it.",
        "",
        "",
        "deny a directory higher up where the name itself is a secret",
    ),
    CodeInfo(
        "SBX446",
        "too many words for bubblewrap",
        "bubblewrap takes 9000 words. Every stricter place costs three to five, and so does every directory above "
        "it in "
        "a writable root that nothing else pins.",
        "",
        "",
        "deny a directory in place of the many names in it, or split the run",
    ),
    CodeInfo(
        "SBX447",
        "a directory is held empty",
        "A name is absent together with a directory above it. That directory's own name is occupied for the run, "
        "by an "
        "empty directory that takes nothing, so that nothing prepared elsewhere can be moved there.",
        "sandboxc: 1\nmode: workspace-write\nentries:\n  - {path: '${workspace}/deploy/keys/id', access: deny}\n",
        "",
        "make the directory before the run, if the run has to write beside the held name",
    ),
    CodeInfo(
        "SBX448",
        "an entry in a view",
        "/proc and /dev are made anew for every sandbox and look the same under every policy; lines below them change "
        "nothing there, but denies below /proc. A line that asks for less than the view gives is an unenforced loss, "
        "one that asks for more a note.",
        "sandboxc: 1\ntargets: [bwrap]\nmode: workspace-write\nentries:\n  - {path: /dev/shm, access: deny}\n",
        "",
        "remove the entry",
    ),
)
