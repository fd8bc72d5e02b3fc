"""Codes 45x and 46x: what Landlock cannot hold."""

from sandboxc.catalogue import CodeInfo

LANDLOCK_ROWS: tuple[CodeInfo, ...] = (
    CodeInfo(
        "SBX450",
        "no Landlock",
        "The target facts say that the kernel has no Landlock (ABI 0), so nothing of the policy would be enforced.",
        "",
        "",
        "compile for a kernel with Landlock, or for another target",
    ),
    CodeInfo(
        "SBX451",
        "rights withheld above a carve-out",
        "Landlock's rules only add rights on the way down. A directory above a stricter place therefore gets no "
        "right to make, remove or rename names of its own; what is in it is granted name by name, and what is made "
        "there later from outside gets nothing.",
        "",
        "",
        "carve out a place that has a directory of its own, or, for protected names, waive SBX453 at the root",
    ),
    CodeInfo(
        "SBX452",
        "no listing above a denied place",
        "The right to list would hold for the denied directory too, so the directories above it cannot be listed, and "
        "what is made in them later cannot be read. Their contents are reached by name.",
        "",
        "",
        "name the paths that are needed, or waive SBX454 at the entry (at `hidden` for hidden paths)",
    ),
    CodeInfo(
        "SBX453",
        "protected names are writable",
        "Occurs only where the policy waives it: the protected names below the root are not carved out, and the root "
        "keeps the right to make, remove and rename names at its top and in `.git`.",
        "",
        'waive:\n  - {loss: SBX453, target: landlock, at: "${workspace}", reason: commits must work}\n',
        "remove the waiver to have the names held by withholding rights (SBX451)",
    ),
    CodeInfo(
        "SBX454",
        "denied directories can be listed",
        "Occurs only where the policy waives it: the directories above the denied one can be listed, and so can the "
        "names in the denied directory. Contents stay unreadable.",
        "",
        "waive:\n  - {loss: SBX454, target: landlock, at: hidden, reason: the shell completes paths in the home}\n",
        "remove the waiver to have listing withheld (SBX452)",
    ),
    CodeInfo(
        "SBX455",
        "a write entry on an absent path",
        "A rule needs a node. Until the path of a write entry exists, and until the next binding, it opens nothing.",
        "entries:\n  - {path: ~/.cache/tool, access: write}\n",
        "entries:\n  - {path: ~/.cache/tool, access: write, absent: create}\n",
        "write `absent: create`, or make the path before the run",
    ),
    CodeInfo(
        "SBX456",
        "a pattern is a snapshot",
        "Landlock knows no patterns. The names that match at binding are held; one that is made during the run is not.",
        'entries:\n  - {glob: "**/.env", access: deny, within: writable}\n',
        'entries:\n  - {path: "${workspace}/.env", access: deny}\n',
        "name the paths, or waive the loss where it is acceptable",
    ),
    CodeInfo(
        "SBX457",
        "a preset's pattern is a snapshot",
        "Patterns of the hidden and protected presets hold for what exists at binding; repositories made during the "
        "run have no protected names.",
        "",
        "",
        "nothing needs doing unless the policy says `require: full`",
    ),
    CodeInfo(
        "SBX458",
        "no new pseudo-terminals",
        "A rule on /dev/pts would reach every terminal of the user, those outside of the sandbox included. The "
        "terminal that the command was started on works, through its descriptors and /dev/tty.",
        "",
        "entries:\n  - {path: /dev/pts, access: write, reason: the test suite opens terminals}\n",
        "use bubblewrap, or accept the reach with a write entry on /dev/pts",
    ),
    CodeInfo(
        "SBX459",
        "no rename or link between directories",
        "Below ABI 2 (Linux 5.19) Landlock refuses every rename and link from one directory to another.",
        "",
        "",
        "use a newer kernel or another target",
    ),
    CodeInfo(
        "SBX460",
        "metadata and stat are not controlled",
        "Landlock does not look at chmod, chown, utime, extended attributes, stat, access, readlink, chdir, inotify. "
        "They work wherever the host's own permissions allow it, so modes can be changed and existence can be told.",
        "",
        "",
        "use another target where this matters",
    ),
    CodeInfo(
        "SBX461",
        "changes from outside",
        "Rules name the nodes of one moment. What an outside process makes below a granted directory is granted, even "
        "at a hidden path; what it makes or replaces in a directory above a carve-out is not, until the next run.",
        "",
        "",
        "start another run after such changes",
    ),
    CodeInfo(
        "SBX462",
        "truncation is not controlled",
        "Below ABI 3 (Linux 6.2) truncate(2) empties any file that the host's own permissions let the user write.",
        "",
        "",
        "use a newer kernel or another target",
    ),
    CodeInfo(
        "SBX463",
        "sockets of outside processes",
        "Below ABI 9 (Linux 7.1) Landlock does not control who connects to a pathname socket. Under `network: deny` "
        "and `loopback` the seccomp companion makes no Unix socket at all; under `allow-all` nothing holds.",
        "network: allow-all\nentries:\n  - {socket: /run/docker.sock, access: deny}\n",
        "network: deny\n",
        "use a newer kernel, bubblewrap, or `network: deny`",
    ),
    CodeInfo(
        "SBX464",
        "signals and abstract sockets",
        "Below ABI 6 (Linux 6.12) Landlock has no scopes: processes of the same user outside of the sandbox can be "
        "signalled, and under `network: allow-all` their abstract sockets can be connected to.",
        "",
        "",
        "use a newer kernel or another target",
    ),
    CodeInfo(
        "SBX465",
        "objects shared with the host",
        "Landlock makes no name spaces: System V and POSIX message queues, semaphores and shared memory of the user "
        "are the host's, and /proc shows the command lines of other processes. /dev/shm is withheld.",
        "",
        "entries:\n  - {path: /dev/shm, access: write, reason: multiprocessing locks}\n",
        "use bubblewrap, or accept the host's /dev/shm with a write entry",
    ),
    CodeInfo(
        "SBX466",
        "no Unix sockets",
        "Below ABI 9 the seccomp companion that closes the network also refuses every socket of AF_UNIX but connected "
        "pairs, because Landlock would let it reach sockets of outside processes.",
        "",
        "",
        "use a newer kernel or bubblewrap where programs need Unix sockets of their own",
    ),
    CodeInfo(
        "SBX467",
        "no loopback",
        "Landlock's network rules know ports and no addresses, so a rule that opens the loopback opens every host. The "
        "sandbox gets no network in place of its own loopback, and ports that the policy names cannot be reached.",
        "network: loopback\n",
        "network: deny\n",
        "use bubblewrap, or for single ports waive SBX468 at `network`",
    ),
    CodeInfo(
        "SBX468",
        "ports are open at every address",
        "Occurs only where the policy waives it: TCP connections to the named ports are allowed, at any host. UDP, raw "
        "and multipath sockets stay closed.",
        "",
        "network: {mode: loopback, ports: [3128]}\n"
        "waive:\n  - {loss: SBX468, target: landlock, at: network, reason: the proxy is the only listener}\n",
        "remove the waiver to have the ports closed (SBX467)",
    ),
    CodeInfo(
        "SBX469",
        "hard links that only the baseline covers",
        "A file in a writable root can be another name of a file that no entry and no preset protects; writing it "
        "writes the other.",
        "",
        "",
        "protect the file by an entry, or remove the link",
    ),
)
