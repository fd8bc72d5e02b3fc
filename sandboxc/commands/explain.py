"""``sandboxc explain``: the page of a code."""

from argparse import Namespace

from sandboxc import console
from sandboxc.commands._arguments import add, add_output
from sandboxc.exits import CLEAN
from sandboxc.records import Any


def add_parser(commands: Any) -> None:
    """Add the command to a parser."""
    parser = add(commands, "explain", "print the page of a diagnostic's code", "sandboxc explain SBX431")
    parser.add_argument("code", metavar="CODE", nargs="?", help="such as SBX431; without it every code is listed")
    add_output(parser)


def run(arguments: Namespace) -> int:
    """Return the exit code: 0, or 2 where there is no such code."""
    from sandboxc import catalogue
    from sandboxc.places import nearest_help

    if arguments.code is None:
        pages = [page for code in catalogue.all_codes() if (page := catalogue.info(code))]
        if arguments.format == "json":
            console.write_json([page._asdict() for page in pages])
        else:
            console.write("".join(f"{page.code}  {page.title}\n" for page in pages))
        return CLEAN
    found = catalogue.info(arguments.code)
    if found is None:
        advice = nearest_help(arguments.code.upper(), catalogue.all_codes()) or "`sandboxc explain` lists the codes"
        raise console.Usage(f"there is no code `{arguments.code}`", advice)
    if arguments.format == "json":
        console.write_json(found._asdict())
        return CLEAN
    parts = [f"{found.code}: {found.title}\n", found.why]
    for heading, body in (("for example", found.bad), ("write instead", found.good)):
        if body:
            parts.append(f"{heading}:\n\n" + "\n".join("    " + line for line in body.rstrip("\n").split("\n")))
    if found.fix:
        parts.append(f"how to fix it: {found.fix}")
    console.write("\n".join(part.rstrip("\n") + "\n" for part in parts))
    return CLEAN
