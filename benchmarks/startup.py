"""How long the command line takes to start: `--help`, and `check` on every recorded trace.

Usage: `python benchmarks/startup.py [TRACE...]`. Prints the median and the slowest of nine runs, in milliseconds.
Limits: 150 ms for `--help`, 300 ms for each `check`, on an otherwise idle machine.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNS = 9

# In a process where these cannot be imported: the analyser must not need them.
BLOCKED = ("torch", "cuda", "numpy", "pynvml")
BOOT = f"""
import sys
for name in {BLOCKED!r}:
    sys.modules[name] = None
from cudagraph_doctor.cli.main import main
sys.exit(main())
"""


def measure(*arguments: str) -> tuple[float, float]:
    """Median and slowest run of one command line, milliseconds."""
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", BOOT, *arguments], stdout=subprocess.DEVNULL, check=False)
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times), max(times)


def main(traces: list[str]) -> int:
    """Print a line a command; return 1 if a median is over its limit."""
    if not traces:
        folder = ROOT / "fixtures" / "traces"
        traces = sorted(str(path) for path in folder.iterdir()) if folder.is_dir() else []
    commands = [(["--help"], 150.0), *((["check", trace], 300.0) for trace in traces)]
    slow = 0
    for arguments, limit in commands:
        median, slowest = measure(*arguments)
        slow += median > limit
        print(f"{median:7.0f} ms  slowest {slowest:5.0f}  limit {limit:3.0f}  {' '.join(arguments)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
