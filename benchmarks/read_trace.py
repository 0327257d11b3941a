"""How long it takes to read a trace of many records and to check it, and how much memory its session holds.

    python benchmarks/read_trace.py [--records 1000000] [--distinct] [--keep FILE]

The trace is made up: captures of 300 operators, each with intention, outcome, tensors and a stack of eight frames, and
replays between them, as an inference server would leave behind. Every capture names the same tensors, as captures of
one model do; with `--distinct` none does, which is the worst case for memory. A quarter and a half of the records come
first: the time a record takes must not grow.

Measured (Python 3.11, two cores that others used too, a million records of 302 MB): read and build 5.1 to 6.3 s of CPU
time in the quieter moments and 9.5 s in the busiest, check 0.7 to 1.4 s, peak 327 MB, with `--distinct` 663 MB.
Decoding alone is about half of reading and building.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

from cudagraph_doctor.engine.registry import load_all
from cudagraph_doctor.engine.run import report_on
from cudagraph_doctor.session.build import build
from cudagraph_doctor.testing.trace_builder import TraceBuilder
from cudagraph_doctor.trace.encode import encode_records
from cudagraph_doctor.trace.events import Tensor

OPERATORS = 300
NAMES = ("aten::mm", "aten::add_.Tensor", "aten::native_layer_norm", "aten::_scaled_dot_product_flash_attention")


def generate(path: Path, records: int, *, distinct: bool = False) -> int:
    """Writes a trace of at least `records` records; returns how many. `distinct`: no tensor is named twice."""
    trace = TraceBuilder(source="x = 1\n" * 500)
    below = [("site:torch/nn/modules/module.py", 1700 + depth, f"Module._call_{depth}") for depth in range(7)]
    stacks = [trace.stack(line, function="step", below=below) for line in range(1, 120)]
    written = 0
    with path.open("wb") as file:
        while written < records:
            with trace.capture(line=10) as capture:
                for number in range(OPERATORS):
                    base = 0x7F00_0000_0000 + (number + (written if distinct else 0)) * 4096
                    tensors = tuple(
                        Tensor(at=str(at), ptr=hex(base + at), size=4096, dev="cuda:0", dtype="float16", shape=(4, 512))
                        for at in range(3)
                    )
                    stack = stacks[number % len(stacks)]
                    capture.op(NAMES[number % 4], stack=stack, tensors=tensors, results=tensors[:1])
            for _ in range(5):
                trace.replay(capture.graph, exec=capture.exec, line=40)
            written += len(trace.records)
            file.write(encode_records(trace.records))
            trace.records.clear()
        trace.seal()
        file.write(encode_records(trace.records))
    return written + 1


def measure(records: int, distinct: bool, keep: Path | None) -> None:
    """Generates, builds, checks, and prints what each took in CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = keep or Path(folder) / "generated.jsonl"
        count = generate(path, records, distinct=distinct)
        checkers = load_all()
        started = time.process_time()
        sessions = build(path)
        built = time.process_time()
        report = report_on(sessions, checkers)
        checked = time.process_time()
    print(
        f"{count:>9,} records  read and build {built - started:5.2f} s  check {checked - built:5.2f} s  "
        f"{(checked - started) / count * 1e6:5.2f} µs a record  peak {_peak():5.0f} MB  "
        f"{len(report.captures):,} captures, {len(report.findings)} findings"
    )


def _peak() -> float:
    """Largest resident set of this process so far, MB; 0 where it cannot be asked."""
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def main() -> None:
    """Measures a quarter, a half, and all of the records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--distinct", action="store_true", help="no tensor is named twice")
    parser.add_argument("--keep", type=Path, help="write the trace here and leave it")
    options = parser.parse_args()
    for part in (4, 2, 1):
        # Each in a process of its own: what one leaves behind would count for the next.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(measure, (options.records // part, options.distinct, options.keep))


if __name__ == "__main__":
    main()
