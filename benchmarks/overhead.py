"""What recording costs the target: one program, plainly, at each level of evidence, and under compute-sanitizer.

Usage: `python benchmarks/overhead.py [--rounds N] [--no-sanitizer]`, on a machine with a GPU. The variants take turns,
and medians over the rounds are compared, so that a drifting clock hits all of them alike. The first row is the eager
step before any capture, with nothing subscribed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET = Path(__file__).with_name("overhead_target.py")
LIMITS = {
    # row: (limit, goal) as a function of the plain value
    "eager step before": (lambda plain: plain * 1.02, lambda plain: plain),
    "capture, ms": (lambda plain: min(plain * 6, 40.0), lambda plain: plain * 2),
    "replay": (lambda plain: plain + 15, lambda plain: plain + 5),
    "eager step after": (lambda plain: plain * 1.10, lambda plain: plain * 1.05),
    "resident, MB": (lambda plain: plain + 150, lambda plain: plain + 50),
    "whole run, s": (lambda plain: plain + 0.3, lambda plain: plain + 0.1),
}


def commands(folder: Path, *, sanitizer: bool) -> dict[str, list[str]]:
    """Command line of each variant."""
    python = [sys.executable, str(TARGET)]
    doctor = [sys.executable, "-m", "cudagraph_doctor", "run", "--fail-on", "never", "--output", str(folder / "report")]
    found = {"plain": python}
    for level in ("python", "driver"):
        found[level] = [*doctor, "--format", "json", "--trace", str(folder / level), "--evidence", level, str(TARGET)]
    tool = shutil.which("compute-sanitizer")
    if sanitizer and tool:
        found["compute-sanitizer"] = [tool, *python]
    return found


def measure(command: list[str]) -> dict[str, float]:
    """One run: what the target printed, and how long it took.

    Raises:
        RuntimeError: the target printed no result.
    """
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            return {**json.loads(line), "whole run, s": took}
    raise RuntimeError(f"{' '.join(command)}: {(done.stderr or done.stdout)[-500:]}")


def main() -> int:
    """Print the table; return 1 if a limit is exceeded at `--evidence driver`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-sanitizer", action="store_true")
    options = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        variants = commands(Path(folder), sanitizer=not options.no_sanitizer)
        for _ in range(options.rounds):
            for name, command in variants.items():
                results.setdefault(name, []).append(measure(command))
    rows = list(results["plain"][0])
    medians = {
        name: {row: statistics.median(run[row] for run in runs) for row in rows} for name, runs in results.items()
    }
    print("".join(f"{title:>20}" for title in ("", *medians, "limit", "goal")))
    over = 0
    for row in rows:
        plain = medians["plain"][row]
        limit, goal = (rule(plain) for rule in LIMITS[row]) if row in LIMITS else (float("nan"), float("nan"))
        values = [medians[name][row] for name in medians]
        print(f"{row:>20}" + "".join(f"{value:20.2f}" for value in (*values, limit, goal)))
        over += medians["driver"][row] > limit
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
