"""CGD406 and CGD408: outputs kept across replays, and replays that nothing orders."""

import pytest

from cudagraph_doctor.checkers.pointer_lifetime import PointerLifetime
from cudagraph_doctor.testing import assert_clean, assert_finds
from cudagraph_doctor.trace import events

KEPT = """
with torch.cuda.graph(g):
    y = x @ w
for r in requests:
    g.replay()
    answers.append(y)
print(answers[0])
"""


def kept(region, *held):
    r = region(KEPT)
    r.trace.capability("outputs")
    capture = r.capture(("aten::mm", (("y = x @ w", "<module>", "x @ w"),)))
    stack = r.trace.stack(r.script.line("y = x @ w"))
    r.trace.add(events.Output, id=1, cap=capture.id, storage=1, path="y", role="result", stack=stack)
    for fields in held:
        put = r.trace.stack(r.script.line("answers.append"))
        fields.setdefault("stack", put)
        r.trace.add(events.Held, output=1, exec=capture.exec, **fields)
    r.replays(capture, 4)
    return r.trace


def test_an_output_that_a_list_holds_several_times(region):
    looks = [{"replay": n, "count": n - 1, "holder": "answers", "holder_type": "list"} for n in (2, 3, 4)]
    finding = assert_finds(
        kept(region, *looks), "CGD406", line=5, confidence="likely", level="error", checkers=[PointerLifetime]
    )
    assert "`answers.append(y)` keeps the graph's own output `y` in `answers` 2 times" in finding.message
    assert "`y.clone()`" in finding.remedy


def test_an_output_that_was_read_after_it_was_overwritten(region):
    look = {"replay": 2, "count": 1, "holder": "previous", "holder_type": "local", "read_stack": 1}
    assert_finds(kept(region, look), "CGD406", confidence="proven", checkers=[PointerLifetime])


@pytest.mark.parametrize(
    "look",
    [
        {"count": 1, "holder": "out", "holder_type": "local"},
        {"count": 1, "holder": "self.last", "holder_type": "attribute"},
        {"count": 1, "holder": "outputs", "holder_type": "dict"},
    ],
)
def test_one_name_for_the_newest_output_is_quiet(region, look):
    assert_clean(kept(region, {**look, "replay": 2}, {**look, "replay": 3}), checkers=[PointerLifetime])


RACE = """
with torch.cuda.graph(g):
    y = x * 2
with torch.cuda.stream(copy_stream):
    x.fill_(1.0)
g.replay()
with torch.cuda.stream(reader):
    z = y.clone()
"""


def race(region, first, second, what, names, **fields):
    r = region(RACE, backend="sim", evidence="simulated")
    capture = r.capture(("aten::mul", (("y = x * 2",),)))
    r.replays(capture)
    r.trace.add(
        events.Race,
        what=what,
        ptr="0x1000",
        size=512,
        first=2,
        first_name=names[0],
        first_stack=r.trace.stack(r.script.line(first)),
        stream=1,
        name=names[1],
        stack=r.trace.stack(r.script.line(second)),
        **fields,
    )
    return r.trace


def test_a_replay_that_does_not_wait_for_its_input(region):
    trace = race(region, "x.fill_", "g.replay()", "read after unordered write", ("aten::fill_", "cuGraphLaunch"))
    finding = assert_finds(trace, "CGD408", line=5, confidence="proven", level="error", checkers=[PointerLifetime])
    assert "does not wait for `x.fill_(1.0)` at script.py:4 on `copy_stream`" in finding.message
    assert finding.fix.replacement == "torch.cuda.current_stream().wait_stream(copy_stream)\ng.replay()"


def test_a_reader_that_does_not_wait_for_the_replay(region):
    trace = race(region, "g.replay()", "z = y.clone()", "read after unordered write", ("cuGraphLaunch", "aten::clone"))
    finding = assert_finds(trace, "CGD408", line=7, checkers=[PointerLifetime])
    assert "`reader.wait_stream(torch.cuda.current_stream())` before it" in finding.remedy


def test_races_of_eager_work_and_inside_of_a_capture_are_not_its_matter(region):
    eager = race(region, "x.fill_", "z = y.clone()", "read after unordered write", ("aten::fill_", "aten::clone"))
    assert_clean(eager, checkers=[PointerLifetime])
    inside = race(
        region, "x.fill_", "g.replay()", "read after unordered write", ("aten::fill_", "cuGraphLaunch"), cap=1
    )
    assert_clean(inside, checkers=[PointerLifetime])


def filled(region, tensor, *, wait=False, behind=None):
    r = region(RACE)
    r.trace.capability("touches")
    main, side = r.trace.stream(), r.trace.stream()
    capture = r.capture(("aten::mul", (("y = x * 2",),), {"tensors": (tensor.cuda("0", 0x1000, storage=1),)}))
    at = lambda part: r.trace.stack(r.script.line(part))  # noqa: E731
    r.trace.add(events.Touch, storage=1, what="write", name="aten::fill_", stream=side, stack=at("x.fill_"))
    if wait:
        r.trace.wait_stream(main, side)
    r.trace.replay(capture.graph, line=r.script.line("g.replay()"), exec=capture.exec, stream=main)
    if behind:
        r.trace.add(events.Touch, storage=1, what=behind, name="aten::fill_", stream=side, stack=at("x.fill_"))
    return r.trace


def test_on_a_gpu_the_watch_outside_sees_the_missing_wait(region, tensor):
    assert_finds(filled(region, tensor), "CGD408", line=5, confidence="likely", checkers=[PointerLifetime])
    assert_clean(filled(region, tensor, wait=True), checkers=[PointerLifetime])


def test_on_a_gpu_an_input_that_is_filled_again_too_early(region, tensor):
    trace = filled(region, tensor, wait=True, behind="write")
    finding = assert_finds(trace, "CGD408", line=4, checkers=[PointerLifetime])
    assert "does not wait for the replay at script.py:5" in finding.message
    assert_clean(filled(region, tensor, wait=True, behind="read"), checkers=[PointerLifetime])
