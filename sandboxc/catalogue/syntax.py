"""Codes 1xx: what the text of a policy may not hold."""

from sandboxc.catalogue import CodeInfo

ROWS: tuple[CodeInfo, ...] = (
    CodeInfo(
        code="SBX101",
        title="the text is not YAML",
        why="A policy that cannot be read cannot hold anything; nothing is guessed.",
        bad=("sandboxc: 1\nmode: [read-only\n"),
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Mend the line under the caret; often a quote or bracket above it is still open.",
    ),
    CodeInfo(
        code="SBX102",
        title="a key is written twice",
        why=(
            "YAML readers disagree about which of the two counts, so a reviewer and the compiler "
            "could see different policies."
        ),
        bad=("sandboxc: 1\nmode: read-only\nmode: workspace-write\n"),
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Keep one of the two lines.",
    ),
    CodeInfo(
        code="SBX103",
        title="a tag",
        why=(
            "A tag changes what type a value has. The key says that already, and some tags run code in other readers."
        ),
        bad=("sandboxc: 1\nmode: !!str read-only\n"),
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Remove the tag; put text between quotes.",
    ),
    CodeInfo(
        code="SBX104",
        title="an anchor or an alias",
        why=(
            "An alias copies a value from elsewhere, so the line that is reviewed is not the line "
            "that holds; nested aliases also grow without bound."
        ),
        bad=(
            "sandboxc: 1\n"
            "mode: read-only\n"
            "entries:\n"
            "  - {path: &keys ~/.ssh, access: deny}\n"
            "  - {path: *keys, access: deny}\n"
        ),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/.ssh, access: deny}\n"),
        fix="Write the value out.",
    ),
    CodeInfo(
        code="SBX105",
        title="a merge key",
        why=("`<<` mixes in the keys of another mapping, which a reader does not see where they hold."),
        bad=("sandboxc: 1\nmode: read-only\nentries:\n  - {<<: {access: deny}, path: ~/.ssh}\n"),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/.ssh, access: deny}\n"),
        fix="Write the keys out.",
    ),
    CodeInfo(
        code="SBX106",
        title="a document over 1 MiB",
        why="A policy is read by people; a larger text is a mistake or an attack on the reader.",
        bad="",
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Split the policy, or use globs in place of long lists of paths.",
    ),
    CodeInfo(
        code="SBX107",
        title="nesting deeper than 32",
        why="No key of a policy needs it, and deep nesting is used to exhaust readers.",
        bad="a: " + "[" * 40 + "]" * 40 + "\n",
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Remove the needless brackets.",
    ),
    CodeInfo(
        code="SBX108",
        title="more than one document",
        why="Only one policy stands in a file; a second document would be ignored by some readers.",
        bad=("sandboxc: 1\nmode: read-only\n---\nsandboxc: 1\n"),
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Move the second document to a file of its own.",
    ),
    CodeInfo(
        code="SBX109",
        title="an empty document",
        why="An empty policy says nothing, and nothing must not be taken for permission.",
        bad="# to do\n",
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Write `sandboxc: 1` and a `mode`.",
    ),
    CodeInfo(
        code="SBX110",
        title="a NUL character",
        why="File names cannot hold it, and programs that stop at it would see another text.",
        bad=("sandboxc: 1\nname: a\u0000b\nmode: read-only\n"),
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Remove the character.",
    ),
    CodeInfo(
        code="SBX111",
        title="a control character",
        why=("It cannot be seen in a review, and some of them end a line for one reader and not for another."),
        bad=("sandboxc: 1\nname: a\u0007b\nmode: read-only\n"),
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Remove the character; indent with blanks.",
    ),
    CodeInfo(
        code="SBX112",
        title="bytes that are not UTF-8",
        why="A name in an unknown encoding cannot be compared with the names on a disk.",
        bad="",
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Save the file as UTF-8.",
    ),
    CodeInfo(
        code="SBX113",
        title="a key that is not a word",
        why="Keys of a policy are words; a list or mapping as a key means nothing.",
        bad="[a, b]: c\n",
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Write `key: value`.",
    ),
    CodeInfo(
        code="SBX114",
        title="a text-direction character",
        why=("It can show a line in another order than it is read, so that a reviewer approves something else."),
        bad=("sandboxc: 1\nname: a\u202eb\nmode: read-only\n"),
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Remove it, or write its escape between double quotes.",
    ),
    CodeInfo(
        code="SBX115",
        title="a document that is too large to review",
        why=("Lines of 16384 characters, 50000 lines, 150000 words or 20000 values are past what a policy needs."),
        bad="sandboxc: 1\nmode: read-only\n# " + "x" * 16400 + "\n",
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Break the line, or split the policy.",
    ),
    CodeInfo(
        code="SBX116",
        title="not a regular file",
        why="Reading a directory, a fifo or a device would fail, wait for ever or never end.",
        bad="",
        good="",
        fix="Name a policy file, or `-` for standard input.",
    ),
    CodeInfo(
        code="SBX117",
        title="a file that cannot be read",
        why="The file does not exist, or this user may not read it.",
        bad="",
        good="",
        fix="Check the path and its permissions.",
    ),
    CodeInfo(
        code="SBX118",
        title="a YAML directive",
        why="`%YAML 1.1` and `%TAG` change how the rest of the text is read.",
        bad=("%YAML 1.1\n---\nsandboxc: 1\nmode: read-only\n"),
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Remove the directive.",
    ),
)
