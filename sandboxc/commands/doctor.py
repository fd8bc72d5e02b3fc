"""``sandboxc doctor``: which backends work on this host, and cleaning up after runs that were killed."""

import os
import sys
from argparse import Namespace

from sandboxc import console
from sandboxc._version import REPORT_FORMAT
from sandboxc.commands._arguments import add, add_output
from sandboxc.exits import CLEAN, FINDINGS
from sandboxc.policy import NETWORK_MODES
from sandboxc.records import Any

_EXAMPLE = """\
sandboxc doctor
sandboxc doctor --clean"""


def add_parser(commands: Any) -> None:
    """Add the command to a parser."""
    summary = "say which backends work on this host, and clean up after killed runs"
    parser = add(commands, "doctor", summary, _EXAMPLE)
    parser.add_argument("--network", choices=NETWORK_MODES, default="deny", help="probe for this mode (default: deny)")
    parser.add_argument(
        "--clean", action="store_true", help="remove the placeholders and private directories that killed runs left"
    )
    add_output(parser)


def run(arguments: Namespace) -> int:
    """Return the exit code: 0 where a backend works (with --clean: nothing had to be left), else 1."""
    return _clean(arguments) if arguments.clean else _probe(arguments)


def _probe(arguments: Namespace) -> int:
    rows = _backends(arguments.network) if sys.platform == "linux" else []
    usable = next((row["backend"] for row in rows if row["usable"]), None)
    if arguments.format == "json":
        console.write_json(
            {
                "format_version": REPORT_FORMAT,
                "platform": sys.platform,
                "network": arguments.network,
                "chosen": usable,
                "backends": rows,
            }
        )
        return CLEAN if usable else FINDINGS
    out = []
    for row in rows:
        state = "works" if row["usable"] else f"does not work: {row['reason']}"
        detail = f" ({row['detail']})" if row["detail"] else ""
        out.append(f"{row['backend']}: {state}{detail}")
    if usable:
        out.append(f"`sandboxc run` takes {usable} for `network: {arguments.network}`")
    elif rows:
        out.append("no backend works here, so `sandboxc run` starts nothing (exit 125)")
    else:
        out.append(f"`sandboxc run` has no backend on {sys.platform}; compiled artefacts work without it")
    console.write("\n".join(out) + "\n")
    return CLEAN if usable else FINDINGS


def _backends(network: str) -> list[dict[str, Any]]:
    """Return a row for each backend, in the order in which ``run`` tries them."""
    from sandboxc.policy import Network
    from sandboxc.runtime import bwrap_runner, landlock

    rows: list[dict[str, Any]] = []
    try:
        runner = bwrap_runner.find_runner(os.environ.get("PATH", os.defpath), lambda _: "read", os.geteuid())
    except bwrap_runner.RunnerError as fault:
        rows.append({"backend": "bwrap", "usable": False, "reason": str(fault), "detail": ""})
    else:
        tried = bwrap_runner.probe(runner, network=Network(network))
        rows.append({"backend": "bwrap", "usable": tried.usable, "reason": tried.reason, "detail": runner.path})
    found = landlock.probe(network=network)
    detail = f"ABI {found.abi}" if found.abi else ""
    rows.append({"backend": "landlock", "usable": found.usable, "reason": found.reason, "detail": detail})
    return rows


def _clean(arguments: Namespace) -> int:
    if sys.platform != "linux":
        raise console.Usage(f"there are no runs to clean up after on {sys.platform}", "remove `--clean`")
    from sandboxc.diagnostics import PolicyError, error
    from sandboxc.runtime import host, occupants

    home = host.surroundings(os.environ, os.getcwd()).values["home"]
    try:
        done = occupants.clean(host.state_directory(home, os.environ))
    except host.BaseError as fault:
        raise PolicyError([error("SBX751", str(fault))]) from None
    if arguments.format == "json":
        kept = [{"path": path, "reason": reason} for path, reason in done.kept]
        console.write_json(
            {"format_version": REPORT_FORMAT, "removed": list(done.removed), "kept": kept, "live_runs": done.live}
        )
        return FINDINGS if done.kept else CLEAN
    out = [f"removed {path}" for path in done.removed]
    out += [f"left {path}: {reason}" for path, reason in done.kept]
    out.append(f"{len(done.removed)} removed, {len(done.kept)} left, {done.live} live runs")
    console.write("\n".join(out) + "\n")
    return FINDINGS if done.kept else CLEAN
