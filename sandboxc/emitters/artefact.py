"""What every emitter takes and returns."""

from collections.abc import Mapping

from sandboxc.losses import Loss
from sandboxc.policy import Waiver
from sandboxc.records import NamedTuple


class Options(NamedTuple):
    """What a policy says besides its layers, as far as an emitter asks.

    ``digest`` is the policy's digest, for headers. ``waivers`` are needed by emitters that lower differently where
    a loss is accepted.
    """

    name: str = ""
    digest: str = ""
    macos_base: str = "closed"
    macos_services: tuple[str, ...] = ()
    windows_reads: str = "standard"
    waivers: tuple[Waiver, ...] = ()


class Artefact(NamedTuple):
    """One target's artefact: the files of the profile directory, the native text, the losses.

    ``native`` is what ``compile`` prints for one target. ``files`` maps file names to bytes. ``constraints`` are
    conditions on parameter values that binding must check, as words for the manifest.
    """

    target: str
    native: str
    files: Mapping[str, bytes]
    losses: tuple[Loss, ...]
    constraints: tuple[str, ...] = ()
