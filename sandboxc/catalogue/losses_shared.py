"""Codes 400 to 409: what every target has in common."""

from sandboxc.catalogue import CodeInfo

SHARED_ROWS: tuple[CodeInfo, ...] = (
    CodeInfo(
        code="SBX402",
        title="a waiver that matches no loss",
        why=(
            "The policy or the target changed, and what was accepted does not occur any more. A waiver that "
            "stays would accept it silently when it comes back."
        ),
        bad="",
        good="",
        fix="Remove the line, or correct its code or place.",
    ),
    CodeInfo(
        code="SBX403",
        title="a target that holds a policy in part only",
        why="The policy says `require: full`, and this target has a loss or a limit in reach of it.",
        bad="",
        good="",
        fix="Name other `targets`, change what is not held, or write `require: partial`.",
    ),
    CodeInfo(
        code="SBX404",
        title="a policy that asks for no confinement",
        why="`danger-full-access` means that nothing is confined, so there is nothing to compile.",
        bad="",
        good="",
        fix="Write `mode: workspace-write` with a `write` entry on `/` for a confined run that writes anywhere.",
    ),
    CodeInfo(
        code="SBX405",
        title="more rules than a rule set may take",
        why=(
            "Landlock grants what lies in a directory above a carve-out name by name. The directories above the "
            "carve-outs of this policy hold so many names on this host that the run is refused."
        ),
        bad="",
        good="",
        fix="Carve out a place that has a directory of its own, empty the crowded directory, or use bubblewrap.",
    ),
)
