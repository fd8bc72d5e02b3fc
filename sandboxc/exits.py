"""Exit codes."""

CLEAN = 0
FINDINGS = 1  # an invalid policy, a stale profile, a gate that tripped
CANNOT = 2  # usage, input and output
BUG = 3
NOT_STARTED = 125  # `run`: the command never started
