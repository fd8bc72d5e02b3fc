"""Measures sandboxc in one run on one machine, as ratios to the start of the bare interpreter.

Each figure is the median of interleaved runs, so that a machine whose speed drifts drifts for all of them.

    python bench/bench.py [--runs N] [--json]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def once(argv: list[str], cwd: str) -> float:
    """Return the wall time of one process, in milliseconds."""
    start = time.perf_counter()
    subprocess.run(argv, cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1000


def medians(commands: dict[str, list[str]], cwd: str, runs: int) -> dict[str, float]:
    """Return the median wall time of each command, the commands taken in turn."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 2):
        for name, argv in commands.items():
            took = once(argv, cwd)
            if turn >= 2:  # the first two turns warm the caches
                times[name].append(took)
    return {name: statistics.median(values) for name, values in times.items()}


def by_hand(bwrap: str, workspace: str) -> list[str]:
    """Return the bubblewrap command line that a careful person would write for the same purpose."""
    words = [bwrap, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--bind", workspace, workspace]
    words += ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup", "--unshare-net"]
    return [*words, "--cap-drop", "ALL", "--die-with-parent", "--chdir", workspace, "--", "true"]


def main() -> int:
    """Print the figures; return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=25, help="counted runs of each command")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    python = sys.executable
    sandboxc = [python, "-I", "-m", "sandboxc"]
    policy = str(ROOT / "policies" / "coding-agent.yaml")
    bwrap = shutil.which("bwrap")
    with tempfile.TemporaryDirectory() as scratch:
        workspace = os.path.join(scratch, "work")
        os.mkdir(workspace)
        profile = os.path.join(scratch, "profile")
        subprocess.run(
            [*sandboxc, "compile", policy, "--target", "all", "-o", profile], check=True, stderr=subprocess.DEVNULL
        )
        commands = {
            "bare": [python, "-I", "-c", "pass"],
            "version": [*sandboxc, "--version"],
            "help": [*sandboxc, "--help"],
            "compile": [*sandboxc, "compile", policy, "--target", "bwrap"],
            "compile-all": [*sandboxc, "compile", policy, "--target", "all", "-o", os.path.join(scratch, "again")],
        }
        if bwrap:
            commands["by-hand"] = by_hand(bwrap, workspace)
            commands["run"] = [*sandboxc, "run", profile, "--target", "bwrap", "--", "true"]
        commands["run-landlock"] = [*sandboxc, "run", profile, "--target", "landlock", "--", "true"]
        found = medians(commands, workspace, options.runs)
    bare = found["bare"]
    rows = {name: {"ms": round(value, 1), "bare starts": round(value / bare, 2)} for name, value in found.items()}
    if "run" in found:
        rows["run"]["bare starts beyond bubblewrap by hand"] = round((found["run"] - found["by-hand"]) / bare, 2)
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    aims = {"run": "2.5 beyond bubblewrap", "help": "4", "compile": "10"}
    for name, row in rows.items():
        more = "  ".join(f"{key} {value}" for key, value in row.items() if key not in ("ms", "bare starts"))
        aim = f"   (aim: at most {aims[name]})" if name in aims else ""
        print(f"{name:14} {row['ms']:8.1f} ms {row['bare starts']:6.2f} bare starts  {more}{aim}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
