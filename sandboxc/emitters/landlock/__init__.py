"""The Landlock target: a symbolic plan at compile time, a bound rule set once the host is known."""

from sandboxc.emitters.landlock.capability import table
from sandboxc.emitters.landlock.export import landlockconfig
from sandboxc.emitters.landlock.finalise import LandlockPlan, Rule, finalise
from sandboxc.emitters.landlock.plan import emit

__all__ = ["LandlockPlan", "Rule", "emit", "finalise", "landlockconfig", "table"]
