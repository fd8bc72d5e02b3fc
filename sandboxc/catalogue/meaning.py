"""Codes 3xx: what has the form of a policy and no sound meaning."""

from sandboxc.catalogue import CodeInfo

ROWS: tuple[CodeInfo, ...] = (
    CodeInfo(
        code="SBX301",
        title="an entry beside full access",
        why=(
            "`danger-full-access` means no confinement, so the entry would be dropped. Dropping "
            "entries is never allowed."
        ),
        bad=("sandboxc: 1\nmode: danger-full-access\nentries:\n  - {path: ~/keys, access: deny}\n"),
        good=(
            "sandboxc: 1\n"
            "mode: workspace-write\n"
            "network: allow-all\n"
            "targets: [bwrap]\n"
            "entries:\n"
            "  - {path: /, access: write}\n"
            "  - {path: ~/keys, access: deny}\n"
        ),
        fix="Write `mode: workspace-write` with a `write` entry on `/`.",
    ),
    CodeInfo(
        code="SBX302",
        title="a network limit beside full access",
        why="Without confinement nothing limits the network.",
        bad=("sandboxc: 1\nmode: danger-full-access\nnetwork: deny\n"),
        good=("sandboxc: 1\nmode: danger-full-access\nnetwork: allow-all\n"),
        fix=("Write `mode: workspace-write` with a `write` entry on `/` and the network that you want."),
    ),
    CodeInfo(
        code="SBX303",
        title="a restriction beside full access",
        why="Without confinement nothing holds it.",
        bad=("sandboxc: 1\nmode: danger-full-access\nhidden: standard\n"),
        good=("sandboxc: 1\nmode: danger-full-access\n"),
        fix="Remove the key, or write `mode: workspace-write` with a `write` entry on `/`.",
    ),
    CodeInfo(
        code="SBX310",
        title="an empty path",
        why="It names nothing; some tools take it for the current directory.",
        bad=('sandboxc: 1\nmode: read-only\nentries:\n  - {path: "", access: deny}\n'),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/.ssh, access: deny}\n"),
        fix="Write the path, or remove the entry.",
    ),
    CodeInfo(
        code="SBX311",
        title="a NUL in a path",
        why="No file name holds it, and the system stops reading at it.",
        bad=('sandboxc: 1\nmode: read-only\nentries:\n  - {path: "~/a\\0b", access: deny}\n'),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/ab, access: deny}\n"),
        fix="Remove it.",
    ),
    CodeInfo(
        code="SBX312",
        title="a control character in a path",
        why="It cannot be seen in a review, and profile languages read line breaks as their own.",
        bad=('sandboxc: 1\nmode: read-only\nentries:\n  - {path: "~/a\\nb", access: deny}\n'),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/ab, access: deny}\n"),
        fix="Remove it.",
    ),
    CodeInfo(
        code="SBX313",
        title="a relative path",
        why="It would depend on the directory from which a command happens to start.",
        bad=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: vendor, access: read}\n"),
        good=('sandboxc: 1\nmode: read-only\nentries:\n  - {path: "${workspace}/vendor", access: read}\n'),
        fix="Start it at a root, or set `relative-to`.",
    ),
    CodeInfo(
        code="SBX314",
        title="another user's home",
        why="Who that is depends on the host.",
        bad=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~root/x, access: deny}\n"),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/x, access: deny}\n"),
        fix="Write the absolute path, or `~/` for the user's own home.",
    ),
    CodeInfo(
        code="SBX315",
        title="an unknown parameter",
        why="A path that cannot be bound would hold nowhere.",
        bad=('sandboxc: 1\nmode: read-only\nentries:\n  - {path: "${wrokspace}/x", access: deny}\n'),
        good=('sandboxc: 1\nmode: read-only\nentries:\n  - {path: "${workspace}/x", access: deny}\n'),
        fix="Correct the name, or declare it under `parameters`.",
    ),
    CodeInfo(
        code="SBX316",
        title="a `$` without braces",
        why="Shell variables are not read; a path with one would match nothing.",
        bad=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: $HOME/x, access: deny}\n"),
        good=('sandboxc: 1\nmode: read-only\nentries:\n  - {path: "${home}/x", access: deny}\n'),
        fix="Write `${name}`, or `$$` for a dollar sign.",
    ),
    CodeInfo(
        code="SBX317",
        title="a parameter inside a path",
        why=("A parameter is a whole root; in the middle of a path it could change how deep a rule lies."),
        bad=('sandboxc: 1\nmode: read-only\nentries:\n  - {path: "~/${workspace}", access: deny}\n'),
        good=('sandboxc: 1\nmode: read-only\nentries:\n  - {path: "${workspace}", access: deny}\n'),
        fix="Start the path with the parameter, followed by `/`.",
    ),
    CodeInfo(
        code="SBX318",
        title="a Windows path for Linux or macOS",
        why="There it would be a relative name.",
        bad=("sandboxc: 1\nmode: read-only\ntargets: [bwrap]\nentries:\n  - {path: 'C:/keys', access: deny}\n"),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: 'C:/keys', access: deny, when: {os: windows}}\n"),
        fix="Add `when: {os: windows}`.",
    ),
    CodeInfo(
        code="SBX319",
        title="a path without a drive for Windows",
        why="Which drive it means would depend on where a command starts.",
        bad=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: /etc/keys, access: deny}\n"),
        good=(
            "sandboxc: 1\nmode: read-only\nentries:\n  - {path: /etc/keys, access: deny, when: {os: [linux, macos]}}\n"
        ),
        fix="Add `when: {os: [linux, macos]}`, or limit `targets`.",
    ),
    CodeInfo(
        code="SBX320",
        title="a Windows device path or an incomplete share",
        why="Device paths pass by the checks that files have.",
        bad=(
            "sandboxc: 1\nmode: read-only\ntargets: [windows]\nentries:\n  - {path: '\\\\.\\pipe\\x', access: deny}\n"
        ),
        good=("sandboxc: 1\nmode: read-only\ntargets: [windows]\nentries:\n  - {path: 'C:/keys', access: deny}\n"),
        fix="Write `C:/...` or `\\\\server\\share\\...`.",
    ),
    CodeInfo(
        code="SBX321",
        title="`..` that leaves its root",
        why="The path would end elsewhere than it starts, whatever the root is bound to.",
        bad=('sandboxc: 1\nmode: read-only\nentries:\n  - {path: "${workspace}/../x", access: deny}\n'),
        good=('sandboxc: 1\nmode: read-only\nentries:\n  - {path: "${workspace}/x", access: deny}\n'),
        fix="Write the path that it means.",
    ),
    CodeInfo(
        code="SBX322",
        title="a path or name that is too long",
        why="No file can have it: names end at 255 bytes, paths at 4096.",
        bad="sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/" + "x" * 256 + ", access: deny}\n",
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/x, access: deny}\n"),
        fix="Shorten it, or split a pattern.",
    ),
    CodeInfo(
        code="SBX323",
        title="a name that Windows cannot hold",
        why="Windows drops or redirects it, so the rule would hold elsewhere.",
        bad=("sandboxc: 1\nmode: read-only\ntargets: [windows]\nentries:\n  - {path: 'C:/keys/con', access: deny}\n"),
        good=("sandboxc: 1\nmode: read-only\ntargets: [windows]\nentries:\n  - {path: 'C:/keys', access: deny}\n"),
        fix="Choose another name, or add `when: {os: [linux, macos]}`.",
    ),
    CodeInfo(
        code="SBX330",
        title="a pattern with a mistake",
        why="An unclosed set or brace has no definite meaning.",
        bad=('sandboxc: 1\nmode: read-only\nentries:\n  - {glob: "~/[ab", access: deny}\n'),
        good=('sandboxc: 1\nmode: read-only\nentries:\n  - {glob: "~/[ab]", access: deny}\n'),
        fix="Close the bracket, or use `path:` for a literal name.",
    ),
    CodeInfo(
        code="SBX331",
        title="a floating pattern without `within`",
        why="`**/x` can hold below the writable roots or everywhere, at very different costs.",
        bad=('sandboxc: 1\nmode: read-only\nentries:\n  - {glob: "**/.env", access: deny}\n'),
        good=('sandboxc: 1\nmode: read-only\nentries:\n  - {glob: "**/.env", access: deny, within: writable}\n'),
        fix="Add `within: writable` or `within: everywhere`.",
    ),
    CodeInfo(
        code="SBX332",
        title="`within` on an anchored pattern",
        why="The pattern says itself where it holds.",
        bad=('sandboxc: 1\nmode: read-only\nentries:\n  - {glob: "~/*.key", access: deny, within: writable}\n'),
        good=('sandboxc: 1\nmode: read-only\nentries:\n  - {glob: "~/*.key", access: deny}\n'),
        fix="Remove `within`.",
    ),
    CodeInfo(
        code="SBX333",
        title="a pattern without a root, or a root without a pattern",
        why="A relative pattern would depend on where a command starts.",
        bad=('sandboxc: 1\nmode: read-only\nentries:\n  - {glob: "*.key", access: deny}\n'),
        good=('sandboxc: 1\nmode: read-only\nentries:\n  - {glob: "**/*.key", access: deny, within: writable}\n'),
        fix="Start it at a root or with `**/`.",
    ),
    CodeInfo(
        code="SBX334",
        title="too many alternatives",
        why=(
            "A pattern with more than 64 alternatives, or a policy whose patterns have more than "
            "50000 names, cannot be reviewed."
        ),
        bad=(
            'sandboxc: 1\nmode: read-only\nentries:\n  - {glob: "~/{a,b,c,d,e}{a,b,c,d,e}{a,b,c,d,e}", access: deny}\n'
        ),
        good=('sandboxc: 1\nmode: read-only\nentries:\n  - {glob: "~/[a-e][a-e][a-e]", access: deny}\n'),
        fix="Use sets, or split the entry.",
    ),
    CodeInfo(
        code="SBX335",
        title="an exception with a root",
        why="Exceptions hold wherever their glob holds.",
        bad=(
            "sandboxc: 1\n"
            "mode: read-only\n"
            "entries:\n"
            '  - {glob: "**/.env*", access: deny, within: writable, except: [~/x]}\n'
        ),
        good=(
            "sandboxc: 1\n"
            "mode: read-only\n"
            "entries:\n"
            '  - {glob: "**/.env*", access: deny, within: writable, except: [.env.example]}\n'
        ),
        fix="Start the exception with a name or with `**/`.",
    ),
    CodeInfo(
        code="SBX340",
        title="two accesses for one place",
        why="Which of the two lines holds must not depend on their order.",
        bad=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/x, access: deny}\n  - {path: ~/x, access: read}\n"),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/x, access: deny}\n"),
        fix="Keep one of the two lines.",
    ),
    CodeInfo(
        code="SBX341",
        title="not a protected name",
        why="A name that is not in the preset cannot be removed from it.",
        bad=("sandboxc: 1\nmode: read-only\nprotected: {remove: [.gti], reason: x}\n"),
        good=("sandboxc: 1\nmode: read-only\nprotected: {remove: [.vscode], reason: editors write it}\n"),
        fix="Correct the name; `sandboxc protected` lists them.",
    ),
    CodeInfo(
        code="SBX342",
        title="not a name below a root",
        why=("Protected names hold below every writable root, so they have no root and no pattern of their own."),
        bad=("sandboxc: 1\nmode: read-only\nprotected: {add: [/etc/x]}\n"),
        good=("sandboxc: 1\nmode: read-only\nprotected: {add: [.envrc.local]}\n"),
        fix="Write a name, or a relative path; use an entry for a place.",
    ),
    CodeInfo(
        code="SBX343",
        title="not a hidden path",
        why="A path that is not in the preset cannot be removed from it.",
        bad=("sandboxc: 1\nmode: read-only\nhidden: {remove: [~/.shs], reason: x}\n"),
        good=("sandboxc: 1\nmode: read-only\nhidden: {remove: [~/.ssh], reason: deploys}\n"),
        fix="Correct the path; `sandboxc protected --hidden` lists them.",
    ),
    CodeInfo(
        code="SBX344",
        title="a default that refers to itself",
        why="It has no value.",
        bad=('sandboxc: 1\nmode: read-only\nparameters: {cache: {type: path, default: "${cache}/x"}}\n'),
        good=("sandboxc: 1\nmode: read-only\nparameters: {cache: {type: path, default: ~/.cache/x}}\n"),
        fix="Name another parameter, or a path.",
    ),
    CodeInfo(
        code="SBX345",
        title="something wider below a lock",
        why="A locked entry is a ceiling: nothing at or below it may be wider.",
        bad=(
            "sandboxc: 1\n"
            "mode: read-only\n"
            "entries:\n"
            "  - {path: ~/x, access: deny, locked: true}\n"
            "  - {path: ~/x/y, access: read}\n"
        ),
        good=("sandboxc: 1\nmode: read-only\nentries:\n  - {path: ~/x, access: deny, locked: true}\n"),
        fix="Remove the wider line, or the lock.",
    ),
)
