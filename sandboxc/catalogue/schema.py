"""Codes 2xx: what does not have the form of a policy."""

from sandboxc.catalogue import CodeInfo

ROWS: tuple[CodeInfo, ...] = (
    CodeInfo(
        code="SBX201",
        title="an unknown key",
        why="A key that nobody reads would be a rule that nobody enforces.",
        bad=("sandboxc: 1\nmode: read-only\nnetwrk: deny\n"),
        good=("sandboxc: 1\nmode: read-only\nnetwork: deny\n"),
        fix="Correct the spelling, or remove the key.",
    ),
    CodeInfo(
        code="SBX202",
        title="a value of the wrong type",
        why="Guessing what was meant could loosen the policy.",
        bad=("sandboxc: 1\nmode: read-only\nentries: ~/.ssh\n"),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/.ssh, access: deny}\n"),
        fix=("Write the type that the message names; put text that looks like a number or a boolean between quotes."),
    ),
    CodeInfo(
        code="SBX203",
        title="an unknown word",
        why="The words are few and fixed, so that one word never means two things.",
        bad=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/.ssh, access: none}\n"),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/.ssh, access: deny}\n"),
        fix="Use the word in the help.",
    ),
    CodeInfo(
        code="SBX204",
        title="a missing key",
        why="Without it the policy, or the line, has no definite meaning.",
        bad="sandboxc: 1\n",
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Add the key.",
    ),
    CodeInfo(
        code="SBX205",
        title="an unsupported schema version",
        why="A later version may give the same words another meaning.",
        bad=("sandboxc: 2\nmode: read-only\n"),
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Write `sandboxc: 1`, or use a compiler that knows the version.",
    ),
    CodeInfo(
        code="SBX206",
        title="`extends` is not supported yet",
        why="Ignoring it would drop the rules of the base.",
        bad=("sandboxc: 1\nmode: read-only\nextends: [base.yaml]\n"),
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Write the entries of the base into this policy.",
    ),
    CodeInfo(
        code="SBX207",
        title="`groups` is not supported yet",
        why="Ignoring it would drop the rules of the group.",
        bad=("sandboxc: 1\nmode: read-only\ngroups: {}\n"),
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Write the entries of the group out.",
    ),
    CodeInfo(
        code="SBX208",
        title="a key of an entry that is not supported yet",
        why="Ignoring it would drop or widen the entry.",
        bad=("sandboxc: 1\nmode: read-only\nentries:\n  - {use: keys, path: ~/.ssh, access: deny}\n"),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/.ssh, access: deny}\n"),
        fix="Write the entry out.",
    ),
    CodeInfo(
        code="SBX209",
        title="a condition or parameter type that is not supported yet",
        why="An unread condition would make the line hold everywhere.",
        bad=(
            "sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/.ssh, access: deny, when: {os: linux, arch: arm64}}\n"
        ),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/.ssh, access: deny, when: {os: linux}}\n"),
        fix="Ask for `os` only.",
    ),
    CodeInfo(
        code="SBX210",
        title="not exactly one place",
        why="An entry speaks of one path, one glob or one socket.",
        bad=("sandboxc: 1\nmode: read-only\nentries:\n  - {access: deny}\n"),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/.ssh, access: deny}\n"),
        fix="Write one of `path`, `glob` and `socket`; write two entries for two places.",
    ),
    CodeInfo(
        code="SBX211",
        title="a key that means nothing here",
        why="It would be dropped without a word.",
        bad=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/.ssh, access: deny, within: writable}\n"),
        good=('sandboxc: 1\nmode: read-only\nentries:\n  - {glob: "**/.ssh", access: deny, within: writable}\n'),
        fix="Remove the key, or change the one that it depends on.",
    ),
    CodeInfo(
        code="SBX212",
        title="a missing reason",
        why="Turning a protection off is reviewed by its reason.",
        bad=("sandboxc: 1\nmode: read-only\nhidden: none\n"),
        good=("sandboxc: 1\nmode: read-only\nhidden: {preset: none, reason: the host is a throw-away container}\n"),
        fix="Add `reason: ...`.",
    ),
    CodeInfo(
        code="SBX213",
        title="not a port",
        why="Ports are 1 to 65535.",
        bad=("sandboxc: 1\nmode: read-only\nnetwork: {mode: loopback, ports: [0]}\n"),
        good=("sandboxc: 1\nmode: read-only\nnetwork: {mode: loopback, ports: [3128]}\n"),
        fix="Correct the number.",
    ),
    CodeInfo(
        code="SBX214",
        title="not a parameter name",
        why=("Parameter names are lower-case words joined by `-`, at most 64 characters, at most 64 of them."),
        bad=("sandboxc: 1\nmode: read-only\nparameters: {Cache: {type: path}}\n"),
        good=("sandboxc: 1\nmode: read-only\nparameters: {cache: {type: path}}\n"),
        fix="Rename the parameter.",
    ),
    CodeInfo(
        code="SBX215",
        title="a parameter that exists already",
        why=("A built-in parameter with another value would change the meaning of every line that uses it."),
        bad=("sandboxc: 1\nmode: read-only\nparameters: {home: {type: path}}\n"),
        good=("sandboxc: 1\nmode: read-only\nparameters: {tool-home: {type: path}}\n"),
        fix="Choose another name.",
    ),
    CodeInfo(
        code="SBX216",
        title="a text that is empty or holds control characters",
        why="It cannot be reviewed.",
        bad=('sandboxc: 1\nmode: read-only\nname: ""\n'),
        good=("sandboxc: 1\nmode: read-only\nname: agent\n"),
        fix="Write a text, or remove the key.",
    ),
    CodeInfo(
        code="SBX217",
        title="listed twice",
        why="A repetition is a slip; perhaps another word was meant.",
        bad=("sandboxc: 1\nmode: read-only\ntargets: [bwrap, bwrap]\n"),
        good=("sandboxc: 1\nmode: read-only\ntargets: [bwrap, landlock]\n"),
        fix="Remove one of the two.",
    ),
    CodeInfo(
        code="SBX218",
        title="an empty list",
        why="It would mean nothing, or nobody; the key is left out for that.",
        bad=("sandboxc: 1\nmode: read-only\ntargets: []\n"),
        good=("sandboxc: 1\nmode: read-only\ntargets: [bwrap]\n"),
        fix="Name something, or remove the key.",
    ),
    CodeInfo(
        code="SBX219",
        title="`relative-to` is not a root",
        why=("Relative paths hang from one parameter or one absolute path, so that `..` cannot leave it."),
        bad=("sandboxc: 1\nmode: read-only\nrelative-to: ${workspace}/sub\n"),
        good=("sandboxc: 1\nmode: read-only\nrelative-to: ${workspace}\n"),
        fix="Write a single `${name}` or an absolute path.",
    ),
    CodeInfo(
        code="SBX220",
        title="not the code of a loss",
        why="A waiver accepts one loss; other errors cannot be waived.",
        bad=("sandboxc: 1\nmode: read-only\nwaive:\n  - {loss: SBX203, target: bwrap, at: ~/x, reason: none needed}\n"),
        good=(
            "sandboxc: 1\nmode: read-only\nwaive:\n  - {loss: SBX431, target: bwrap, at: ~/x, reason: none needed}\n"
        ),
        fix="Write the code that the compiler printed for the loss.",
    ),
    CodeInfo(
        code="SBX221",
        title="a waiver for a target that the policy is not for",
        why="It can never match, so it is a slip.",
        bad=(
            "sandboxc: 1\n"
            "mode: read-only\n"
            "targets: [bwrap]\n"
            "waive:\n"
            "  - {loss: SBX431, target: windows, at: ~/x, reason: old}\n"
        ),
        good=("sandboxc: 1\nmode: read-only\ntargets: [bwrap]\n"),
        fix="Remove the waiver, or add the target.",
    ),
    CodeInfo(
        code="SBX290",
        title="too many errors",
        why="After 100 errors the rest is left unread; it is most likely the same mistake.",
        bad="",
        good=("sandboxc: 1\nmode: read-only\n"),
        fix="Mend what is reported and run again.",
    ),
)
