"""The Seatbelt emitter: grant layers become a profile for ``sandbox-exec``."""

from sandboxc.emitters.seatbelt.capability import table
from sandboxc.emitters.seatbelt.emit import definitions, emit, parameters
from sandboxc.emitters.seatbelt.extras import with_repositories

__all__ = ["definitions", "emit", "parameters", "table", "with_repositories"]
