"""Losses: places where a target says something else than the layers, and the waivers that accept them."""

from collections.abc import Iterable

from sandboxc.diagnostics import Diagnostic, error, warning
from sandboxc.policy import Waiver
from sandboxc.records import NamedTuple
from sandboxc.source import Span

NARROWER = "narrower"
WIDER = "wider"
SNAPSHOT = "snapshot"
UNENFORCED = "unenforced"
KINDS = (NARROWER, WIDER, SNAPSHOT, UNENFORCED)


class Loss(NamedTuple):
    """One difference between a target and the layers.

    ``at`` is the place as a waiver names it: the text of the entry as written, the root whose protected names
    are meant, or a word such as ``network``. ``preset`` marks what only a preset asks beyond the target's reach;
    ``conditional`` what depends on what binding finds; ``standing`` a published limit of the target.
    """

    code: str
    kind: str
    target: str
    at: str
    message: str
    span: Span | None = None
    preset: bool = False
    conditional: bool = False
    standing: bool = False
    waived: str = ""  # the reason of the waiver that covers it

    @property
    def stops(self) -> bool:
        """Return whether the loss stops a compile (or, when it occurs at binding, the binding)."""
        return self.kind != NARROWER and not (self.waived or self.preset or self.standing)


class Waived(NamedTuple):
    """Losses after the waivers of a policy were applied, with what is wrong."""

    losses: tuple[Loss, ...]
    diagnostics: tuple[Diagnostic, ...]


def apply_waivers(losses: Iterable[Loss], waivers: Iterable[Waiver], target: str) -> Waived:
    """Return the losses of one target with those that the policy accepts marked, and the diagnostics.

    An unwaived loss that stops is an error, one that narrows a warning; a waiver of this target that matches
    no loss (conditional ones included) is an error.
    """
    mine = [waiver for waiver in waivers if waiver.target == target]
    used: set[Waiver] = set()
    found: list[Loss] = []
    for loss in losses:
        waiver = next((w for w in mine if w.loss == loss.code and w.at.value == loss.at), None)
        if waiver is not None:
            used.add(waiver)
            loss = loss._replace(waived=waiver.reason)
        found.append(loss)
    problems = [diagnostic for loss in found for diagnostic in _report(loss)]
    for waiver in mine:
        if waiver not in used:
            same = sorted({loss.at for loss in found if loss.code == waiver.loss})
            help_text = (
                f"`{waiver.loss}` occurs at: {', '.join(f'`{at}`' for at in same)}" if same else "remove the line"
            )
            problems.append(
                error(
                    "SBX402",
                    f"no loss `{waiver.loss}` on {target} at `{waiver.at.value}`",
                    waiver.span,
                    help_text,
                )
            )
    return Waived(tuple(sorted(found, key=_key)), tuple(problems))


def _report(loss: Loss) -> Iterable[Diagnostic]:
    if loss.waived or loss.standing or loss.preset or loss.conditional:
        return
    words = f"{loss.target}: {loss.message}"
    if loss.kind == NARROWER:
        yield warning(loss.code, f"{words} ({loss.kind})", loss.span)
        return
    line = f'waive:\n  - {{loss: {loss.code}, target: {loss.target}, at: "{loss.at}", reason: ...}}'
    yield error(loss.code, f"{words} ({loss.kind})", loss.span, f"change the policy, or accept it there with\n{line}")


def _key(loss: Loss) -> tuple[str, str, str, str]:
    return (loss.code, loss.at, loss.kind, loss.message)


def enforcement(losses: Iterable[Loss]) -> str:
    """Return ``full`` or ``partial`` (design section 4): conditional losses count only once they occur."""
    for loss in losses:
        if loss.conditional and not loss.standing:
            continue
        if loss.kind != NARROWER:
            return "partial"
    return "full"
