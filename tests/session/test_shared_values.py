from cudagraph_doctor.session import shared_values
from cudagraph_doctor.session.build import build_from
from cudagraph_doctor.testing.trace_builder import TraceBuilder
from cudagraph_doctor.trace.decode import decode_line
from cudagraph_doctor.trace.events import Tensor


def weight(number=0):
    return Tensor(
        at="0", ptr=hex(0x7F0000000000 + number), size=4096 + number, dev="cuda:0", dtype="half", shape=(4, number)
    )


def session_of(*numbers):
    trace = TraceBuilder()
    for number in numbers:
        with trace.capture(line=10) as capture:
            capture.op("aten::mm", tensors=(weight(number),), results=(weight(number),))
    records = [decode_line(line) for line in trace.encode().splitlines()]  # nothing shared yet
    session = build_from(records)
    assert records == trace.records
    return session, [op for capture in session.captures for op in capture.ops()]


def test_what_captures_say_again_is_kept_once():
    _, (one, other) = session_of(7, 7)
    assert one.record.tensors is other.record.tensors
    assert one.outcome.tensors is other.record.tensors
    assert one.record.name is other.record.name


def test_different_tensors_share_what_they_have_in_common():
    _, (one, other) = session_of(7, 8)
    assert one.record.tensors != other.record.tensors
    assert one.record.tensors[0].dev is other.record.tensors[0].dev


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(shared_values, "_LIMIT", 4)
    _, ops = session_of(*range(20))
    assert [op.record.tensors for op in ops] == [(weight(number),) for number in range(20)]
