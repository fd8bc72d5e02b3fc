"""The bubblewrap emitter.

``emit(stack, facts, options) -> Artefact`` is the symbolic plan, ``table(facts)`` what bubblewrap can express,
``finalise(resolved, facts, options, host) -> BwrapPlan`` the plan of one run, and ``to_create(resolved)`` the
directories that must be made before the survey which ``finalise`` reads.
"""

from sandboxc.emitters.bwrap.capability import table
from sandboxc.emitters.bwrap.finalise import Host, finalise, to_create
from sandboxc.emitters.bwrap.plan import BwrapPlan
from sandboxc.emitters.bwrap.symbolic import by_path_words, emit

__all__ = ["BwrapPlan", "Host", "by_path_words", "emit", "finalise", "table", "to_create"]
