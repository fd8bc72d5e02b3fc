"""Codes 7xx: what goes wrong at binding, with profiles, on the command line and at run time."""

from sandboxc.catalogue import CodeInfo

ROWS: tuple[CodeInfo, ...] = (
    CodeInfo(
        code="SBX701",
        title="target facts that cannot be used",
        why=(
            "Facts say what a target's host is like. A fact that is misspelled or of the wrong type would "
            "silently give another artefact."
        ),
        bad="",
        good="",
        fix="Use a named preset, or a JSON object with the keys that the message lists.",
    ),
    CodeInfo(
        code="SBX702",
        title="a value for a parameter that nobody declares",
        why=(
            "A value that goes nowhere is a misspelling more often than not, and the parameter that was meant"
            " would keep its default."
        ),
        bad="",
        good="",
        fix="Use a built-in parameter or one that the policy declares under `parameters:`.",
    ),
    CodeInfo(
        code="SBX703",
        title="a parameter without a value",
        why="A layer hangs from the parameter. Leaving the layer out could open what it denies.",
        bad="",
        good="",
        fix="Pass `--bind NAME=/absolute/path`, or give the parameter a default.",
    ),
    CodeInfo(
        code="SBX711",
        title="a loop of symbolic links",
        why="The place of an entry cannot be found, so nothing can be enforced there.",
        bad="",
        good="",
        fix="Remove one of the links, or name the place itself.",
    ),
    CodeInfo(
        code="SBX712",
        title="a grant through a link that the sandbox may replace",
        why=(
            "The link lies where the confined program writes. It could point the link at anything, and the "
            "next run would grant that."
        ),
        bad="",
        good="",
        fix="Name the place that the link leads to, or deny writing to the link.",
    ),
    CodeInfo(
        code="SBX713",
        title="a tree too large to look for a pattern in",
        why="A pattern is expanded to what exists. A look that stops half way would leave matches open.",
        bad="",
        good="",
        fix="Narrow the writable roots, or name the paths.",
    ),
    CodeInfo(
        code="SBX714",
        title="the workspace lies inside a hidden path",
        why="The workspace was asked for by name, so it stays reachable; what lies around it stays hidden.",
        bad="",
        good="",
        fix="Nothing, if this is what you want; else move the workspace.",
    ),
    CodeInfo(
        code="SBX721",
        title="HOME is not an absolute path",
        why="Hidden paths hang from the home directory, so a wrong one would hide the wrong places.",
        bad="",
        good="",
        fix="Set HOME, or pass `--bind home=/absolute/path`.",
    ),
    CodeInfo(
        code="SBX722",
        title="a writable root that holds the home directory",
        why="A run in the home directory would make start files and keys writable by default.",
        bad="",
        good="",
        fix="Run in a project directory, or write an entry for the tree that is meant.",
    ),
    CodeInfo(
        code="SBX723",
        title="the run's private directory cannot be used",
        why=(
            "Private temp directories and journals lie in directories that nobody else may enter. One that "
            "others own or may write to could be prepared by them."
        ),
        bad="",
        good="",
        fix="Remove the directory that the message names, or set XDG_RUNTIME_DIR to one of your own.",
    ),
    CodeInfo(
        code="SBX715",
        title="two entries that meet at one place",
        why=(
            "With the values of this host two entries stand at the same place, through a parameter or a link."
            " The stricter one holds."
        ),
        bad="",
        good="",
        fix="Nothing, if this is what you want; else remove one of the lines.",
    ),
    CodeInfo(
        code="SBX724",
        title="a policy that is not for this target",
        why=(
            "`targets:` says what a policy was written and reviewed for. On another target it may have losses"
            " that nobody accepted."
        ),
        bad="",
        good="",
        fix="Add the target to `targets`, look at what `sandboxc check` reports, or run with another `--target`.",
    ),
    CodeInfo(
        code="SBX725",
        title="a directory that a command cannot run in",
        why="The directory is not there, is no directory, or this user may not enter it.",
        bad="",
        good="",
        fix="Name another directory with `--cwd`.",
    ),
    CodeInfo(
        code="SBX726",
        title="no backend can hold the policy here",
        why=(
            "Every backend of this host was tried and refused; the message says why for each. A command is "
            "never run without its sandbox."
        ),
        bad="",
        good="",
        fix=(
            "`sandboxc doctor` shows what is missing: bubblewrap with `--bind-fd` and unprivileged user "
            "namespaces, or a kernel with Landlock."
        ),
    ),
    CodeInfo(
        code="SBX727",
        title="a directory that an entry asks for cannot be made",
        why="The entry says `absent: create`, and the operating system refused.",
        bad="",
        good="",
        fix="Make the directory, or remove `absent: create`.",
    ),
    CodeInfo(
        code="SBX728",
        title="the record of a run cannot be written",
        why="`--report` names a file that cannot be opened. Nothing was run.",
        bad="",
        good="",
        fix="Name another file.",
    ),
    CodeInfo(
        code="SBX730",
        title="a profile that cannot be read",
        why="The directory, or a file in it, is not there or not readable.",
        bad="",
        good="",
        fix="Name a directory that `sandboxc compile --target all -o DIR` wrote.",
    ),
    CodeInfo(
        code="SBX731",
        title="a profile of another format version",
        why="The form of profiles changes with the format version, and a guess could drop a rule.",
        bad="",
        good="",
        fix="Compile the policy again with this sandboxc, or use the sandboxc that wrote the profile.",
    ),
    CodeInfo(
        code="SBX732",
        title="a file of a profile is missing",
        why="The manifest names every file. Without one of them a rule may be missing.",
        bad="",
        good="",
        fix="Compile the policy again.",
    ),
    CodeInfo(
        code="SBX733",
        title="a file that is no part of the profile",
        why="What the manifest does not name was put there by somebody else, and no digest vouches for it.",
        bad="",
        good="",
        fix="Remove the file, or compile the policy again into a new directory.",
    ),
    CodeInfo(
        code="SBX734",
        title="a profile's file that is not a regular file",
        why=(
            "A link could be turned to another file after it was verified, and a fifo or device would hold up the run."
        ),
        bad="",
        good="",
        fix="Replace it by a plain file; compiling the policy again does that.",
    ),
    CodeInfo(
        code="SBX735",
        title="a profile's file that is too large",
        why="No compile writes files of this size.",
        bad="",
        good="",
        fix="Compile the policy again.",
    ),
    CodeInfo(
        code="SBX736",
        title="a profile's file was changed after it was compiled",
        why=(
            "Its digest is not the one in the manifest, so it is not what the policy was compiled to and what"
            " was reviewed."
        ),
        bad="",
        good="",
        fix="Compile the policy again, and change the policy instead of the artefact.",
    ),
    CodeInfo(
        code="SBX737",
        title="a malformed profile",
        why="A field has the wrong type or an unknown word. Nothing in a profile is guessed.",
        bad="",
        good="",
        fix="Compile the policy again.",
    ),
    CodeInfo(
        code="SBX738",
        title="a profile without what is asked of it",
        why="It was compiled for other targets.",
        bad="",
        good="",
        fix="Compile the policy again for the target that you need.",
    ),
    CodeInfo(
        code="SBX739",
        title="a stale profile",
        why=(
            "Compiling the policy now gives other bytes than the profile holds: the policy, a preset or the "
            "compiler changed since."
        ),
        bad="",
        good="",
        fix="Compile the policy again and check the result in.",
    ),
    CodeInfo(
        code="SBX742",
        title="a directory that a profile may not replace",
        why="The output directory holds files that no profile put there.",
        bad="",
        good="",
        fix="Name a new directory, or remove that one.",
    ),
    CodeInfo(
        code="SBX750",
        title="a command line that cannot be followed",
        why="An option or argument is unknown, missing or does not go with another one.",
        bad="",
        good="",
        fix="`sandboxc COMMAND --help` shows the options.",
    ),
    CodeInfo(
        code="SBX751",
        title="reading or writing failed",
        why="The operating system refused an operation on a file.",
        bad="",
        good="",
        fix="Look at the path and the reason in the message.",
    ),
    CodeInfo(
        code="SBX752",
        title="a described tree that cannot be used",
        why="`--tree` takes a JSON object that maps absolute paths to nodes.",
        bad="",
        good="",
        fix=('Write `{"/path": {"type": "directory"}}`; types are directory, file, link, socket, fifo and device.'),
    ),
    CodeInfo(
        code="SBX753",
        title="words that bind by path",
        why=(
            "bwrap follows a path when it mounts. Whoever may replace a component of it before that decides "
            "what is mounted."
        ),
        bad="",
        good="",
        fix=(
            "Use `sandboxc run`, which passes every source by descriptor; or start bwrap where nobody else may write."
        ),
    ),
    CodeInfo(
        code="SBX754",
        title="names that bwrap alone does not hold",
        why="A name that does not exist, and a symbolic link, cannot be held by a mount that bwrap makes.",
        bad="",
        good="",
        fix="Use `sandboxc run`, or make the names before bwrap starts.",
    ),
    CodeInfo(
        code="SBX799",
        title="an internal error",
        why="sandboxc met a case that its authors did not think of. Nothing was run.",
        bad="",
        good="",
        fix="Report it with the policy and the command line; `SANDBOXC_DEBUG=1` shows where it happened.",
    ),
)
