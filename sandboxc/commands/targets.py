"""``sandboxc targets``: the support matrix, from the capability tables of the emitters."""

from argparse import Namespace

from sandboxc import console
from sandboxc._version import REPORT_FORMAT
from sandboxc.commands._arguments import add, add_facts, add_output
from sandboxc.commands._inputs import facts
from sandboxc.exits import CLEAN
from sandboxc.records import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandboxc.capability import Row, Table

_EXAMPLE = """\
sandboxc targets
sandboxc targets --facts linux-6.1 --format markdown"""


def add_parser(commands: Any) -> None:
    """Add the command to a parser."""
    parser = add(commands, "targets", "print what each target can hold", _EXAMPLE)
    add_facts(parser)
    add_output(parser, ("text", "markdown", "json"))


def run(arguments: Namespace) -> int:
    """Return the exit code."""
    from sandboxc.emitters.registry import TARGETS, emitter

    assumed = facts(arguments.facts)
    tables = [emitter(target).table(assumed) for target in TARGETS]
    if arguments.format == "json":
        console.write_json(_objects(tables))
    elif arguments.format == "markdown":
        console.write(markdown(tables))
    else:
        console.write(_text(tables))
    return CLEAN


def _objects(tables: "list[Table]") -> dict[str, Any]:
    from sandboxc.capability import FEATURES

    def cell(row: "Row") -> dict[str, Any]:
        return {key: value for key, value in row._asdict().items() if key != "feature"}

    return {
        "format_version": REPORT_FORMAT,
        "features": [
            {
                "name": name,
                "promise": promise,
                "targets": {table.target: cell(table.row(name)) for table in tables},
            }
            for name, promise in FEATURES.items()
        ],
    }


def _word(row: "Row") -> str:
    """Return a cell: the status, with a mark where it is only a preset's, conditional or a published limit."""
    if row.status == "exact":
        return "exact"
    mark = "limit" if row.standing else "preset" if row.preset else "if met" if row.conditional else ""
    return f"{row.status} {row.code}" + (f" ({mark})" if mark else "")


def markdown(tables: "list[Table]") -> str:
    """Return the support matrix as a Markdown table, followed by the reason of each cell that is not exact."""
    return matrix(tables) + "\n" + reasons(tables)


def matrix(tables: "list[Table]") -> str:
    """Return the support matrix as a Markdown table: a row for each feature, a column for each target."""
    from sandboxc.capability import FEATURES

    lines = ["| promise | " + " | ".join(table.target for table in tables) + " |"]
    lines.append("| --- |" + " --- |" * len(tables))
    for name, promise in FEATURES.items():
        lines.append(f"| {promise} | " + " | ".join(_word(table.row(name)) for table in tables) + " |")
    return "\n".join(lines) + "\n"


def reasons(tables: "list[Table]") -> str:
    """Return the reason of each cell that is not exact as a Markdown list, by code."""
    found = {(row.code, table.target, row.reason) for table in tables for row in table.rows if row.code}
    return "".join(f"- **{code}** ({target}): {reason}\n" for code, target, reason in sorted(found))


def _text(tables: "list[Table]") -> str:
    from sandboxc.capability import FEATURES

    lines: list[str] = []
    for name, promise in FEATURES.items():
        lines.append(f"{name}: {promise}")
        for table in tables:
            row = table.row(name)
            reason = f"  {row.reason}" if row.status != "exact" else ""
            lines.append(f"  {table.target:<9} {_word(row)}{reason}")
    return "\n".join(lines) + "\n"
