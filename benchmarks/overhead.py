"""What recording costs the target: DESIGN.md's table, measured on this machine's GPU, as Markdown.

Usage: `python benchmarks/overhead.py [--rounds N] [--no-sanitizer] [--output FILE]`. Some 40 s a round.

One program is run plainly and at each level of evidence, in turns; a cell is the median over the rounds of the paired
difference to the plain run of the same round, so that a drifting clock hits both. `subscribed` is a run without the
tool in which CUPTI is subscribed and no callback enabled: what driver evidence cannot cost less than.
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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = Path(__file__).with_name("overhead_target.py")


@dataclass(frozen=True)
class Row:
    """A row of the table: how it is shown, and what is allowed on top of the plain value."""

    key: str
    title: str
    unit: str
    limit: Callable[[float], float] | None = None
    goal: Callable[[float], float] | None = None


def plus(much: float) -> Callable[[float], float]:
    """So much, whatever the plain value."""
    return lambda plain: much + 0 * plain


def share(part: float) -> Callable[[float], float]:
    """A share of the plain value."""
    return lambda plain: plain * part


ROWS = (
    Row("replay", "replay: launch of a 300-node graph", "µs", plus(15), plus(5)),
    Row("replay and wait", "replay, and wait for it", "µs"),
    Row("eager step after", "eager decode step after the captures", "µs", share(0.10), share(0.05)),
    Row("eager step before", "eager decode step before any capture", "µs", share(0.02), plus(0)),
    Row("capture", "capture of 300 nodes", "ms", lambda plain: min(plain * 5, 40 - plain), share(1)),
    Row("first capture", "first capture of 300 nodes", "ms"),
    Row("start-up", "start-up: until torch is imported", "s", plus(0.3), plus(0.1)),
    Row("report", "from the target's last line to the end", "s"),
    Row("memory", "resident memory of the target", "MB", plus(150), plus(50)),
)


def commands(folder: Path, *, sanitizer: bool) -> dict[str, list[str]]:
    """Command line of each variant, the plain one first."""
    doctor = [sys.executable, "-m", "cudagraph_doctor", "run", "--fail-on", "never", "--format", "json"]
    python = [sys.executable, str(TARGET)]

    def recorded(name: str, *options: str) -> list[str]:
        where = ["--output", str(folder / f"{name}.json"), "--trace", str(folder / name)]
        return [*doctor, *where, *options, str(TARGET)]

    found = {
        "plain": python,
        "default": recorded("default"),
        "subscribed": [*python, "cupti"],
        "driver": recorded("driver", "--evidence", "driver"),
        "--deep": recorded("deep", "--evidence", "driver", "--deep"),
    }
    tool = shutil.which("compute-sanitizer")
    if sanitizer and tool:
        found["compute-sanitizer"] = [tool, *python, "quick"]
    return found


def measure(command: list[str]) -> dict[str, float]:
    """One run: what the target printed, and how long it took to come there and to end.

    Raises:
        RuntimeError: the target printed no result.
    """
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    ended = time.monotonic()
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found: dict[str, float] = json.loads(line)
            return {**found, "start-up": found["imported"] - began, "report": ended - found["ended"]}
    raise RuntimeError(f"{' '.join(command)}: {(done.stderr or done.stdout)[-500:]}")


def evidence(folder: Path, name: str) -> str:
    """The level that a recorded run really had: `python` where driver evidence could not be had."""
    try:
        report = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "no report"
    return str(report.get("device", {}).get("evidence", "?"))


def cell(row: Row, plain: list[float], other: list[float]) -> tuple[str, bool | None]:
    """Median paired difference, as a text with its verdict; whether the limit holds (None: there is none)."""
    base = statistics.median(plain)
    more = statistics.median(b - a for a, b in zip(plain, other, strict=False))
    text = f"{more:+.2f}" if abs(more) < 10 else f"{more:+.0f}"
    if base and (row.unit in ("µs", "ms") and abs(more) > base / 50):
        text += f" (×{(base + more) / base:.2f})"
    if row.limit is None or row.goal is None:
        return text, None
    if more <= row.goal(base):
        return f"{text} ✓✓", True
    met = more <= row.limit(base)
    return f"{text} {'✓' if met else '✗'}", met


def table(results: dict[str, list[dict[str, float]]]) -> tuple[str, list[str]]:
    """The table as Markdown, and what is over its limit in the default column."""
    names = list(results)
    lines = ["| | plain | " + " | ".join(names[1:]) + " | limit | goal |", "|---" * (len(names) + 3) + "|"]
    over = []
    for row in ROWS:
        plain = [run[row.key] for run in results["plain"]]
        base = statistics.median(plain)
        cells = [f"{base:.2f} {row.unit}"]
        for name in names[1:]:
            text, met = cell(row, plain, [run[row.key] for run in results[name]])
            cells.append(text)
            if met is False:
                over.append(f"{name}: {row.title}")
        bounds = [f"+{rule(base):.2f}" if rule is not None else "" for rule in (row.limit, row.goal)]
        lines.append(f"| {row.title} | " + " | ".join([*cells, *bounds]) + " |")
    return "\n".join(lines), over


def main() -> int:
    """Print the table; return 1 if the default run is over a limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-sanitizer", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        variants = commands(folder, sanitizer=not options.no_sanitizer)
        subprocess.run([sys.executable, "-c", "import torch"], check=True)  # warms the file cache
        for number in range(options.rounds):
            for variant, command in variants.items():
                shutil.rmtree(folder / variant.strip("-"), ignore_errors=True)  # the trace of the last round
                if variant in failed or (variant == "compute-sanitizer" and number):
                    continue
                try:
                    results.setdefault(variant, []).append(measure(command))
                except RuntimeError as error:
                    if variant == "plain":
                        raise
                    failed[variant] = str(error)
                    results.pop(variant, None)
        levels = {variant: evidence(folder, variant.strip("-")) for variant in ("default", "driver", "--deep")}
    text, over = table(results)
    told = ", ".join(f"{variant}: {level} evidence" for variant, level in levels.items())
    sure = "✓✓ goal met, ✓ limit met, ✗ over the limit; each cell is the paired median difference to the plain run."
    whole = f"{text}\n\n{options.rounds} rounds; {told}. {sure}\n"
    print("".join(f"{variant} failed: {why}\n" for variant, why in failed.items()), end="")
    print(whole + "".join(f"over the limit: {one}\n" for one in over))
    if options.output is not None:
        options.output.write_text(whole, encoding="utf-8")
    return 1 if any(one.startswith("default") for one in over) else 0


if __name__ == "__main__":
    sys.exit(main())
