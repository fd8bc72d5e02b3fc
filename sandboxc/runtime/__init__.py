"""The run-time half: what happens on one host when a profile is bound and a command confined."""
