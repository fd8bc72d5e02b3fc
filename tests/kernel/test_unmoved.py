"""A denied place that changes between the survey and the start is noticed under Landlock too."""

import os
from pathlib import Path

import pytest

from sandboxc.runtime.backends import Landlock, Stale
from sandboxc.runtime.session import prepare
from sandboxc.runtime.subject import from_policy

POLICY = """\
sandboxc: 1
mode: workspace-write
targets: [landlock]
hidden: {preset: none, reason: the test's own places only}
protected: {preset: none, reason: the test's own places only}
entries:
  - {path: "${workspace}/secret", access: deny}
"""


@pytest.mark.parametrize("change", ["gone", "replaced"])
def test_a_moved_denied_place_is_stale(tmp_path: Path, change: str) -> None:
    """A run whose denied directory was moved away, or traded for another, surveys again before it starts."""
    project = tmp_path / "project"
    (project / "secret").mkdir(parents=True)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    subject, problems, _ = from_policy(str(policy))
    assert subject is not None, problems
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    session = prepare(subject, {}, environment, str(project), "r0123456789ab")
    backend = Landlock(session, environment)
    (project / "secret").rename(project / "moved")
    if change == "replaced":
        (project / "secret").mkdir()
    with pytest.raises(Stale, match=change):
        backend.run(["true"], environment)
