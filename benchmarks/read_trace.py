"""How long it takes to read a trace of many records, and how much memory its session holds.

    python benchmarks/read_trace.py [--records 1000000] [--keep FILE]

The trace is made up: captures of 300 operators, each with intention, outcome, tensors and a stack of eight frames, and
replays between them, as an inference server would leave behind.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from cudagraph_doctor.session.build import build
from cudagraph_doctor.testing.trace_builder import TraceBuilder
from cudagraph_doctor.trace.encode import encode_records
from cudagraph_doctor.trace.events import Tensor
from cudagraph_doctor.trace.reader import TraceReader

OPERATORS = 300
NAMES = ("aten::mm", "aten::add_.Tensor", "aten::native_layer_norm", "aten::_scaled_dot_product_flash_attention")


def generate(path: Path, records: int) -> int:
    """Writes a trace of at least `records` records; returns how many."""
    trace = TraceBuilder(source="x = 1\n" * 500)
    below = [("site:torch/nn/modules/module.py", 1700 + depth, f"Module._call_{depth}") for depth in range(7)]
    stacks = [trace.stack(line, function="step", below=below) for line in range(1, 120)]
    written = 0
    with path.open("wb") as file:
        while written < records:
            with trace.capture(line=10) as capture:
                for number in range(OPERATORS):
                    base = 0x7F00_0000_0000 + number * 4096
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


def main() -> None:
    """Generates, reads, builds, and prints what each took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, help="write the trace here and leave it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "generated.jsonl"
        count = generate(path, options.records)
        size = path.stat().st_size
        print(f"{count:,} records, {size / 1e6:.0f} MB")
        started = time.perf_counter()
        for _ in TraceReader(path):
            pass
        read = time.perf_counter()
        print(f"read:  {read - started:6.2f} s  {(read - started) / count * 1e6:.2f} µs a record")
        (session,) = build(path)
        built = time.perf_counter()
        print(f"build: {built - read:6.2f} s  {(built - read) / count * 1e6:.2f} µs a record")
        print(f"{len(session.captures):,} captures in the session")
        if sys.platform != "win32":
            import resource

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
            print(f"peak:  {peak:6.0f} MB")


if __name__ == "__main__":
    main()
