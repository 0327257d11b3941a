from cudagraph_doctor.testing import TraceBuilder
from cudagraph_doctor.trace import events
from cudagraph_doctor.trace.dump import dump


def test_around_shows_the_neighbours_and_marks_the_record(tmp_path):
    trace = TraceBuilder()
    for number in range(30):
        q = trace.call("cuMemAlloc_v2", line=number + 1)
    trace.write(tmp_path / "t.jsonl")
    middle = q - 20
    shown = list(dump(tmp_path / "t.jsonl", around=middle, context=3))
    assert len(shown) == 7
    assert [line[0] for line in shown] == [" ", " ", " ", ">", " ", " ", " "]
    assert f" {middle} " in shown[3]


def test_a_stack_is_shown_as_its_innermost_line(tmp_path):
    trace = TraceBuilder()
    trace.call("cuMemAlloc_v2", line=12, function="step")
    trace.write(tmp_path / "t.jsonl")
    assert "(cwd:script.py:12 in step)" in list(dump(tmp_path / "t.jsonl"))[-1]


def test_a_number_that_is_not_there_is_said(tmp_path):
    TraceBuilder().write(tmp_path / "t.jsonl")
    assert list(dump(tmp_path / "t.jsonl", around=10_000)) == ["no record 10000 in t.jsonl"]


def test_hostile_text_does_not_reach_the_terminal(tmp_path):
    trace = TraceBuilder()
    trace.add(events.Log, message="\x1b[2J\x07 bell", api="\x1b]0;title\x07")
    trace.write(tmp_path / "t.jsonl")
    (tmp_path / "u.jsonl").write_bytes(trace.encode() + b'{"k":"later\\u001b","q":1,"t":1,"x":"\\u001b"}\n')
    for name in ("t.jsonl", "u.jsonl"):
        assert all(line.isprintable() for line in dump(tmp_path / name))
