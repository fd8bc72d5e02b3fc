"""``sandboxc check``: what is wrong with a policy, or whether a profile is stale."""

from argparse import Namespace

from sandboxc import console
from sandboxc._version import REPORT_FORMAT
from sandboxc.commands._arguments import add, add_facts, add_output
from sandboxc.commands._inputs import TARGET_WORDS, facts, targets
from sandboxc.exits import CANNOT, CLEAN, FINDINGS
from sandboxc.records import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandboxc.diagnostics import Diagnostic
    from sandboxc.loader import LoadedPolicy

_EXAMPLE = """\
sandboxc check sandbox.yaml
sandboxc check --profile profiles/coding-agent policies/coding-agent.yaml"""


def add_parser(commands: Any) -> None:
    """Add the command to a parser."""
    parser = add(commands, "check", "report what is wrong with a policy, or that a profile is stale", _EXAMPLE)
    parser.add_argument("policy", metavar="POLICY", nargs="+", help="a policy file, or - for standard input")
    parser.add_argument(
        "--target", choices=TARGET_WORDS, default="all", help="check for one target (default: those of the policy)"
    )
    add_facts(parser)
    parser.add_argument(
        "--profile", metavar="DIR", help="also fail when this profile is not what the policy compiles to"
    )
    parser.add_argument(
        "--recompile", action="store_true", help="with --profile: compile and compare even where every digest is equal"
    )
    add_output(parser)


def run(arguments: Namespace) -> int:
    """Return the exit code: 0 clean, 1 findings, 2 could not run."""
    if arguments.profile and len(arguments.policy) > 1:
        raise console.Usage("`--profile` goes with one policy", "check the profiles one by one")
    assumed = facts(arguments.facts)
    worst = CLEAN
    rows: list[dict[str, Any]] = []
    for path in arguments.policy:
        row, code = _profile(path, arguments) if arguments.profile else _policy(path, assumed, arguments)
        rows.append(row)
        worst = max(worst, code)
    if arguments.format == "json":
        console.write_json({"format_version": REPORT_FORMAT, "ok": worst == CLEAN, "policies": rows})
    return worst


def _policy(path: str, assumed: Any, arguments: Namespace) -> tuple[dict[str, Any], int]:
    """Return the report of one policy, and the exit code that it calls for."""
    from sandboxc.compile import compile_policy
    from sandboxc.loader import load
    from sandboxc.losses import enforcement
    from sandboxc.profile.codec import encode_loss

    loaded = load(path)
    if loaded.policy is None:
        return _row(path, loaded, loaded.diagnostics, arguments), console.code(loaded.diagnostics)
    compiled = compile_policy(loaded.policy, targets(arguments.target, loaded.policy.targets), assumed)
    found = (*loaded.diagnostics, *compiled.diagnostics)
    row = _row(path, loaded, found, arguments)
    row["targets"] = {
        target: {
            "enforcement": enforcement(artefact.losses),
            "losses": [_without_span(encode_loss(loss._replace(span=None), ())) for loss in artefact.losses],
        }
        for target, artefact in compiled.artefacts.items()
    }
    return row, console.code(found)


def _without_span(row: dict[str, Any]) -> dict[str, Any]:
    row.pop("span", None)
    return row


def _profile(path: str, arguments: Namespace) -> tuple[dict[str, Any], int]:
    """Return the report of one policy and its profile, and the exit code that they call for."""
    from sandboxc.loader import read_source
    from sandboxc.profile.check import compare, looks_fresh
    from sandboxc.profile.load import load_profile

    profile = load_profile(arguments.profile)
    source = read_source(path)
    if source.source is None:
        console.report(source.diagnostics, (), arguments.color)
        return {"file": path, "ok": False}, CANNOT
    name = source.source.name.rpartition("/")[2]
    if not arguments.recompile and looks_fresh(profile, {name: source.digest}):
        return {
            "file": path,
            "ok": True,
            "profile": {"path": arguments.profile, "fresh": True},
            "diagnostics": [],
        }, CLEAN
    loaded = _decoded(source)
    found: tuple[Diagnostic, ...] = loaded.diagnostics
    fresh = False
    if loaded.policy is not None:
        result = compare(profile, loaded.policy)
        found, fresh = (*found, *result.diagnostics), result.fresh
    row = _row(path, loaded, found, arguments)
    row["ok"] = fresh
    row["profile"] = {"path": arguments.profile, "fresh": fresh}
    return row, CLEAN if fresh else max(FINDINGS, console.code(found))


def _decoded(source: Any) -> "LoadedPolicy":
    """Return the policy of a text that was read already (standard input can be read once only)."""
    from sandboxc.frontend.decode import decode
    from sandboxc.loader import LoadedPolicy

    if source.diagnostics:
        return LoadedPolicy(None, source.diagnostics, (source.source,))
    policy, found = decode(source.source, source.digest)
    return LoadedPolicy(policy, found, (source.source,))


def _row(path: str, loaded: "LoadedPolicy", found: "tuple[Diagnostic, ...]", arguments: Namespace) -> dict[str, Any]:
    from sandboxc.diagnostics import has_errors, ordered
    from sandboxc.render.json import diagnostic_object

    if arguments.format == "text":
        console.report(found, loaded.sources, arguments.color)
    return {
        "file": path,
        "ok": not has_errors(found),
        "diagnostics": [diagnostic_object(item) for item in ordered(found)],
    }
