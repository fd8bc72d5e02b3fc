"""The worlds in which shipped policies are run: one for each user and each Linux backend."""

from tests._run_world import backend, run_world, shelf, uid

__all__ = ["backend", "run_world", "shelf", "uid"]
