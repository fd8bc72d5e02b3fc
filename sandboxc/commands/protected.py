"""``sandboxc protected``: what the presets protect and hide, in general or for one policy."""

from argparse import Namespace

from sandboxc import console
from sandboxc._version import REPORT_FORMAT
from sandboxc.commands._arguments import add, add_output
from sandboxc.exits import CLEAN
from sandboxc.records import Any

_EXAMPLE = """\
sandboxc protected
sandboxc protected --hidden --os macos
sandboxc protected sandbox.yaml"""


def add_parser(commands: Any) -> None:
    """Add the command to a parser."""
    summary = "list the protected names and hidden paths of the presets"
    parser = add(commands, "protected", summary, _EXAMPLE)
    parser.add_argument("policy", metavar="POLICY", nargs="?", help="list what is in force in this policy")
    parser.add_argument("--hidden", action="store_true", help="list hidden paths instead of protected names")
    parser.add_argument("--preset", choices=("standard", "seed"), help="which preset (default: standard)")
    parser.add_argument("--os", choices=("linux", "macos", "windows"), help="for one system (default: linux)")
    add_output(parser)


def run(arguments: Namespace) -> int:
    """Return the exit code: 0, or that of a policy that cannot be loaded."""
    from sandboxc.api import host_system, load_policy
    from sandboxc.diagnostics import PolicyError
    from sandboxc.lower import hidden_items
    from sandboxc.policy import PresetChoice
    from sandboxc.presets import hidden_layers, protected_names

    if arguments.policy and arguments.preset:
        raise console.Usage("a policy says its preset itself", "remove `--preset`, or the policy")
    system = arguments.os or host_system()
    choice = PresetChoice(arguments.preset or "standard")
    policy = load_policy(arguments.policy) if arguments.policy else None
    if policy is not None:
        choice = policy.hidden if arguments.hidden else policy.protected
    reasons = _reasons(arguments.hidden, choice.preset)
    if arguments.hidden:
        items, problems = hidden_layers(choice, system) if policy is None else hidden_items(policy, system)
        paths = list(dict.fromkeys(item.name for item in items))
    else:
        names, problems = protected_names(choice, system)
        paths = ["/".join((".git", *item.path) if item.git else item.path) for item in names]
    if problems:
        raise PolicyError(problems)
    rows = [{"path": path, "why": reasons.get(path, "added by the policy")} for path in paths]
    if arguments.format == "json":
        kind = "hidden" if arguments.hidden else "protected"
        console.write_json({"format_version": REPORT_FORMAT, "os": system, "preset": choice.preset, kind: rows})
        return CLEAN
    width = min(max((len(row["path"]) for row in rows), default=0), 44)
    console.write("".join(f"{row['path']:<{width}}  {row['why']}\n" for row in rows))
    return CLEAN


def _reasons(hidden: bool, preset: str) -> dict[str, str]:
    """Return why each name of a preset is in it."""
    from sandboxc import packaged

    if preset == "none":
        return {}
    if hidden:
        items = packaged.data("hidden")["presets"][preset]["items"]
        return {item.get("path") or item["glob"]: item["why"] for item in items}
    found = packaged.data("protected")["presets"][preset]
    reasons = {item["name"]: item["why"] for item in found.get("direct", ())}
    reasons.update({".git/" + item["path"]: item["why"] for item in found.get("git", ())})
    return reasons
