"""``sandboxc init``: a commented policy to start from."""

from argparse import Namespace

from sandboxc import console
from sandboxc.commands._arguments import add, add_output
from sandboxc.exits import CLEAN
from sandboxc.records import Any

_EXAMPLE = """\
sandboxc init
sandboxc init --mode read-only review.sandbox.yaml"""

_STARTER = """\
# yaml-language-server: $schema={schema}
# (JetBrains editors read this line instead: $schema: {schema})
#
# What a command may do when it runs under this policy. The deepest line that contains a path decides;
# the order of the lines never matters. `sandboxc why PATH {file}` says what holds for a path and why.
sandboxc: 1
name: {name}

# read-only: nothing on disk is written.  workspace-write: the workspace and the temp roots are.
mode: {mode}

# read: the host can be read, but for hidden paths.  deny: only what is listed, and the system's own files.
baseline: read
{temp}
# deny | loopback | allow-all
network: deny

# Credentials (~/.ssh, ~/.aws, ...) cannot be read, and git hooks, shell start files, editor tasks and agent
# settings inside the workspace cannot be changed. `sandboxc protected` and `sandboxc protected --hidden` list them.
hidden: standard
protected: standard

entries:
  # Keep one folder of the workspace as it is:
  # - {{path: "${{workspace}}/vendor", access: read, reason: third-party code is updated by people}}

  # Let a tool keep its cache:
  # - {{path: ~/.cache/pip, access: write}}

  # Hide something more than the standard list does:
  - {{path: ~/secrets, access: deny, reason: not for tools}}

# What a target cannot hold stops the compile until a line accepts it, at that place and with a reason.
# `sandboxc explain CODE` tells what each is.
waive:
  - {{loss: SBX475, target: windows, at: network, reason: a firewall rule for the account has to close it}}
{write_waiver}
# What must hold; nothing else reads these lines yet.
tests:
{write_test}  - {{op: write, path: "${{workspace}}/.git/hooks/pre-commit", expect: deny}}
  - {{op: read, path: ~/.ssh/id_ed25519, expect: deny}}
"""

_WRITE_WAIVER = """\
  - loss: SBX453
    target: landlock
    at: "${workspace}"
    reason: with hooks held there, no file could be made at the top of the workspace and no commit
"""


def add_parser(commands: Any) -> None:
    """Add the command to a parser."""
    parser = add(commands, "init", "write a commented policy to start from", _EXAMPLE)
    parser.add_argument(
        "path", metavar="PATH", nargs="?", default="sandbox.yaml", help="where to (default: sandbox.yaml; - prints it)"
    )
    parser.add_argument("--name", help="name of the policy (default: from the path)")
    parser.add_argument(
        "--mode", choices=("read-only", "workspace-write"), default="workspace-write", help="default: workspace-write"
    )
    add_output(parser, ())


def run(arguments: Namespace) -> int:
    """Return the exit code: 0, or 2 where the file exists or cannot be written."""
    import json
    import os

    from sandboxc import packaged

    place = os.path.join(packaged.folder("schemas"), "policy.schema.json")
    with open(place, encoding="utf-8") as file:
        schema = json.load(file)["$id"]
    stem = "sandbox" if arguments.path == "-" else os.path.basename(arguments.path).split(".")[0]
    name = arguments.name or (stem if stem not in ("", "sandbox") else "my-sandbox")
    writes = arguments.mode == "workspace-write"
    text = _STARTER.format(
        schema=schema,
        file="sandbox.yaml" if arguments.path == "-" else arguments.path,
        name=json.dumps(name, ensure_ascii=False),
        mode=arguments.mode,
        temp="\n# A fresh directory for each run, with TMPDIR set to it.\ntemp: private\n" if writes else "",
        write_waiver=_WRITE_WAIVER if writes else "",
        write_test='  - {op: write, path: "${workspace}/README.md", expect: allow}\n' if writes else "",
    )
    if arguments.path == "-":
        console.write(text)
        return CLEAN
    try:
        with open(arguments.path, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise console.Usage(f"`{arguments.path}` exists and is left alone", "name another path") from None
    console.note(f"wrote {arguments.path}; try `sandboxc check {arguments.path}`")
    return CLEAN
