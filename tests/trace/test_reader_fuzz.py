"""Whatever a file holds, reading and diagnosing it ends with records, a report, or one TraceError."""

import gzip
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudagraph_doctor.errors import TraceError
from cudagraph_doctor.report import Report
from cudagraph_doctor.testing import TraceBuilder, cuda_error, diagnose_trace
from cudagraph_doctor.trace import events
from cudagraph_doctor.trace.dump import dump
from cudagraph_doctor.trace.pack import pack

FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def whole_trace():
    """A trace with something of everything that the session looks at."""
    trace = TraceBuilder(source="import torch\n" * 30)
    event, side = trace.event(), trace.stream()
    trace.thread(7, "worker")
    with trace.capture(line=3) as capture:
        tensors = tuple(events.Tensor(at=str(n), ptr=hex(0x1000 + n * 64), size=64, dev="cuda:0") for n in range(2))
        capture.op("aten::mm", line=4, values=(("1", "2.0"),), tensors=tensors, results=tensors[:1])
        capture.op("aten::add_", line=4, stream=side, tensors=tensors)
        capture.call("cuLaunchKernel", line=4, stream=side, ptrs=("0x1010", "0x2000"), handle="0x10")
        capture.record(event, line=5)
        capture.wait(side, event, line=6)
        capture.op("aten::relu", line=7, stream=side, on=1)
        capture.gc("start", line=7)
        capture.pycall("torch._C._cuda_synchronize", line=8, raises=cuda_error(900))
        capture.log("Returning 900", api="cuCtxSynchronize", code=900, thread=1000)
    trace.exception(events.Link(type="RuntimeError", message="CUDA error", stack=2, code=901))
    with trace.capture(line=3) as capture:
        capture.op("aten::mm", line=4)
        capture.call("cuMemAlloc_v2", line=5, tid=7, code=900, size=100)
    with trace.capture(line=3) as capture:
        capture.op("aten::mm", line=4)
    trace.replay(capture.graph, line=9, exec=capture.exec)
    trace.seal(1)
    return trace.encode()


LINES = whole_trace().splitlines(keepends=True)

numbers = st.one_of(
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**63 - 1, -(2**63), 2**63, 2**64, 10**40]),
    st.floats(allow_nan=False, allow_infinity=False),
)
texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", "\x1b[31m", "../../../etc/passwd", "/abs/path.py", "x" * 3000, "\u202e", "[bold]", "0x" + "f" * 40, "0xzz"]
    ),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)


@st.composite
def mutated(draw):
    """A good trace with lines changed, dropped, doubled, swapped, cut, or with other values in their fields."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 6))):
        index = draw(st.integers(0, len(lines) - 1))
        what = draw(st.sampled_from(["field", "field", "field", "bytes", "cut", "drop", "double", "swap", "insert"]))
        if what == "field":
            try:
                record = json.loads(lines[index])
            except ValueError:
                continue
            if not isinstance(record, dict) or not record:
                continue
            key = draw(st.sampled_from(sorted(record)))
            record[key] = draw(values)
            lines[index] = json.dumps(record).encode() + b"\n"
        elif what == "bytes":
            line = bytearray(lines[index])
            if line:
                line[draw(st.integers(0, len(line) - 1))] = draw(st.integers(0, 255))
            lines[index] = bytes(line)
        elif what == "cut":
            lines[index] = lines[index][: draw(st.integers(0, len(lines[index])))]
        elif what == "drop" and len(lines) > 1:
            del lines[index]
        elif what == "double":
            lines.insert(index, lines[draw(st.integers(0, len(lines) - 1))])
        elif what == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[index], lines[other] = lines[other], lines[index]
        elif what == "insert":
            lines.insert(index, draw(st.binary(max_size=40)) + b"\n")
    content = b"".join(lines)
    cut = draw(st.one_of(st.none(), st.integers(0, len(content))))
    content = content[:cut]
    return gzip.compress(content) if draw(st.booleans()) else content


def diagnose_bytes(diagnosed, tmp_path, content):
    path = tmp_path / "fuzz.jsonl"
    path.write_bytes(content)
    try:
        report = diagnosed(path, own=("anything", "cwd"))
    except TraceError as refusal:
        lines = refusal.message.split("\n")
        assert len(lines) == 1
        return None
    assert isinstance(report, Report)
    assert report.processes
    checkers = [*report.checkers, *diagnose_trace(path).checkers]
    failed = [checker.reason for checker in checkers if checker.state == "failed"]
    assert failed == []
    assert all(line.isprintable() for text in dump(path) for line in text.split("\n"))
    pack(path, tmp_path / "fuzz.pack.jsonl.gz", redact=True)
    return report


@given(content=mutated())
@FUZZ
def test_a_mutated_trace_is_diagnosed_or_refused(tmp_path, diagnosed, content):
    diagnose_bytes(diagnosed, tmp_path, content)


@given(content=st.binary(max_size=2000))
@FUZZ
def test_random_bytes_are_refused(tmp_path, diagnosed, content):
    assert diagnose_bytes(diagnosed, tmp_path, content) is None


@given(
    record=st.dictionaries(st.sampled_from(["k", "q", "t", "tid", "id", "cap", "of", "stack", "code", "chain"]), values)
)
@FUZZ
def test_a_random_record_in_a_good_trace_costs_at_most_itself(tmp_path, diagnosed, record):
    content = b"".join([*LINES[:-1], json.dumps(record).encode() + b"\n", LINES[-1]])
    report = diagnose_bytes(diagnosed, tmp_path, content)
    assert report is not None
    assert len(report.captures) >= 3
