"""Codes 41x and 42x: what Seatbelt cannot hold, and what stops a profile from being made."""

from sandboxc.catalogue import CodeInfo

SEATBELT_ROWS: tuple[CodeInfo, ...] = (
    CodeInfo(
        "SBX410",
        "services outside the sandbox act for it",
        "Under `macos: {base: open}` every Mach service answers, and some of them read, write or start programs with "
        "all rights of the user. The named services `open-urls`, `process-tools` and `terminal` do the same in part.",
        "macos: {base: open}\n",
        "macos: {services: [keychain]}\n",
        "keep the closed base and name the services that are needed, or waive the loss at `macos.base`, or at "
        "`macos.services.NAME` for one service",
    ),
    CodeInfo(
        "SBX411",
        "the loopback is the machine's own",
        "Seatbelt has no private network. With `network: loopback` every server on this machine is in reach, and what "
        "listens inside can be reached from the machine's networks.",
        "network: loopback\n",
        "network: deny\n",
        "deny the network, or waive the loss at `network`",
    ),
    CodeInfo(
        "SBX412",
        "IPv4-mapped loopback is refused",
        "The filter word `localhost` does not cover `::ffff:127.0.0.1`, so programs that write it are refused.",
        "",
        "",
        "let the program connect to `127.0.0.1` or `::1`",
    ),
    CodeInfo(
        "SBX413",
        "sockets of outside processes in a writable root",
        "A rule names paths, and a profile cannot tell a socket that was there before from one that the run made. "
        "Occurs only where binding finds such a socket.",
        "",
        'entries:\n  - {socket: "${workspace}/run/agent.sock", access: deny}\n',
        "deny the socket by a `socket:` entry, or keep it outside the writable roots",
    ),
    CodeInfo(
        "SBX414",
        "a later repository can be changed elsewhere",
        "Repositories made during a run are protected where they are. Directories move freely, though, and the private "
        "temp directory has no protected names: a repository can be moved there, changed, and moved back. Those that "
        "exist at the root of a writable root cannot be moved.",
        "",
        "",
        "review hooks of repositories that a run made before using them outside",
    ),
    CodeInfo(
        "SBX415",
        "directories above a stricter layer cannot be made",
        "While such a directory is absent, making it is refused: the system asks the same for mkdir and for a rename "
        "that would bring a prepared directory.",
        "",
        "",
        "make the directory before the run",
    ),
    CodeInfo(
        "SBX416",
        "other names of a held file",
        "Seatbelt compares paths. A denied or protected file that has a second name inside a writable root can be read "
        "and written through that name. Occurs only where binding finds one.",
        "",
        "",
        "remove the other name, or deny it by an entry",
    ),
    CodeInfo(
        "SBX417",
        "hard links to files outside a writable root",
        "Seatbelt compares paths. A hard link in a writable root to a file elsewhere is written through.",
        "",
        "",
        "keep such links out of writable roots",
    ),
    CodeInfo(
        "SBX418",
        "whether a denied path exists can be told",
        "A denied path answers otherwise than an absent one, and directories above what may be read can be looked at.",
        "",
        "",
        "keep secrets out of names",
    ),
    CodeInfo(
        "SBX419",
        "`/dev/tty` is refused",
        "Whoever may use the terminal can push keystrokes into it, so only the `terminal` service opens it.",
        "",
        "macos: {services: [terminal]}\n",
        "name the `terminal` service and waive SBX410 at `macos.services.terminal`, or use the standard descriptors",
    ),
    CodeInfo(
        "SBX420",
        "patterns that meet take the stricter access",
        "Where a pattern may match below a match of a stricter pattern, or an exception below a match of its own "
        "pattern, one regular expression cannot alternate between them: the stricter access holds.",
        'entries:\n  - {glob: "${workspace}/**/keys/**", access: deny}\n'
        '  - {glob: "${workspace}/**/*.pub", access: read}\n',
        "",
        "write literal paths for what is to stay open",
    ),
    CodeInfo(
        "SBX421",
        "what git's configuration names is not looked up",
        "Git takes hooks and more configuration from wherever `core.hooksPath`, `include.path` and `includeIf` point. "
        "A profile is text that is made without looking at a host, so such a place below a writable root is as "
        "writable as the root. `.git/hooks` and the configuration files themselves are held.",
        "",
        'entries:\n  - {path: "${workspace}/.githooks", access: read}\n',
        "write a read entry for the place that the configuration names",
    ),
    CodeInfo(
        "SBX427",
        "an unknown macOS service",
        "The name stands in no row of the packaged list of services.",
        "macos: {services: [keychains]}\n",
        "macos: {services: [keychain]}\n",
        "use a name from the help line",
    ),
    CodeInfo(
        "SBX428",
        "a profile that is too large",
        "The profile compilers of macOS are known to fail on very many path rules, and a profile that does not load "
        "runs nothing. The limit is 3000 path filters in one rule, or 900,000 bytes of text.",
        "",
        "",
        "name fewer places, for example one directory above them",
    ),
    CodeInfo(
        "SBX429",
        "a service against a lock",
        "A named service opens a place that lies at or below an entry with `locked: true`, and nothing may do that.",
        "macos: {services: [keychain]}\nentries:\n  - {path: ~/Library/Keychains, access: deny, locked: true}\n",
        "",
        "remove the service, or the lock",
    ),
)
