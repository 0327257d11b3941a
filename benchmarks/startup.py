"""How long the command line takes to start: `--help`, and `check` on every recorded trace.

Usage: `python benchmarks/startup.py [TRACE...]`. Prints the median and the slowest of nine runs, in milliseconds of
CPU time, user and system: what else runs on the machine then counts little. Limits: 150 ms for `--help`, 300 ms for
each `check`. Bytecode is compiled before the first run, as in an installed package.

Measured (Python 3.11, two cores that others kept busy, fastest of eleven runs): an empty script 53 ms, `import click`
115 ms, `--help` 129 ms, `check` 288 ms, `check --format json` 197 ms. Of the table's time rich takes 90 ms, and the
checkers' modules 75 ms. No quiet machine was at hand.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
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


def measure(cache: str, *arguments: str) -> tuple[float, float]:
    """Median and slowest run of one command line, milliseconds of CPU time."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    times = []
    for _ in range(RUNS + 1):
        child = subprocess.Popen(
            [sys.executable, "-c", BOOT, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        times.append((usage.ru_utime + usage.ru_stime) * 1e3)
    del times[0]  # compiled the bytecode
    return statistics.median(times), max(times)


def main(traces: list[str]) -> int:
    """Print a line a command; return 1 if a median is over its limit."""
    if not traces:
        traces = sorted(str(path) for path in (ROOT / "fixtures" / "traces").rglob("*.jsonl.gz"))
    commands = [(["--help"], 150.0), *((["check", trace], 300.0) for trace in traces)]
    slow = 0
    with tempfile.TemporaryDirectory() as cache:
        for arguments, limit in commands:
            median, slowest = measure(cache, *arguments)
            slow += median > limit
            print(f"{median:7.0f} ms  slowest {slowest:5.0f}  limit {limit:3.0f}  {' '.join(arguments)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
