"""CGD603: sizes, bounds and turns of loops."""

import pytest

SLICE = """
def attend():
    scores = torch.softmax(q @ keys[:length].t(), -1)
    return scores @ vals[:length]
with torch.cuda.graph(g):
    out = attend()
length = 40
g.replay()
"""


def test_a_bound_of_a_slice(region, finds):
    r = region(SLICE)
    outer = ("out = attend()", "<module>", "attend()")
    first, second = ("scores = torch", "attend", "keys[:length]"), ("return scores", "attend", "vals[:length]")
    bound = {"kind": "view", "values": (("1", "0"), ("2", "0"), ("3", "4"))}
    capture = r.capture(("aten::slice.Tensor", (first, outer), bound), ("aten::slice.Tensor", (second, outer), bound))
    reads = [("scores = torch", "attend", "length"), ("return scores", "attend", "length")]
    slot = r.slot(capture, "length", "4", reads=reads)
    r.change(slot, "40", at="length = 40")
    r.replays(capture)
    finding = finds(r, "CGD603", line=2, confidence="proven")
    assert "`length` was `4` when `keys[:length]` was captured and is `40` by replay 1" in finding.message


LOOP = """
with torch.cuda.graph(g):
    for i in range(steps):
        x = layer(x)
steps = 8
g.replay()
"""


def test_turns_of_a_loop_that_launches(region, finds):
    r = region(LOOP)
    capture = r.capture(("aten::mm", (("x = layer(x)", "<module>", "layer(x)"),)))
    slot = r.slot(capture, "steps", "2", reads=[("for i in range", "<module>", "steps")])
    r.change(slot, "8", at="steps = 8")
    r.replays(capture)
    finds(r, "CGD603", line=2, message="every replay does the turns of the capture")


def test_turns_of_a_loop_on_the_host_are_quiet(region, quiet):
    r = region(LOOP.replace("x = layer(x)", "names.append(i)"))
    capture = r.capture(("aten::mm", (("with torch.cuda.graph", "<module>", "torch"),)))
    slot = r.slot(capture, "steps", "2", reads=[("for i in range", "<module>", "steps")])
    r.change(slot, "8", at="steps = 8")
    r.replays(capture)
    quiet(r)


def test_a_container_that_grew(region, finds):
    text = LOOP.replace("for i in range(steps):", "for layer in adapters:").replace("steps = 8", "adapters.append(a)")
    r = region(text)
    capture = r.capture(("aten::mm", (("x = layer(x)", "<module>", "layer(x)"),)))
    slot = r.slot(capture, "adapters", "len 2", reads=[("for layer in", "<module>", "adapters")])
    r.change(slot, "len 3", at="adapters.append")
    r.replays(capture)
    finds(r, "CGD603", line=2, message="`adapters` was 2 elements when this loop was captured and is 3 elements")


SIZES = """
with torch.cuda.graph(g):
    y = CALL
size = 9
g.replay()
"""


@pytest.mark.parametrize(
    ("call", "operator", "rule"),
    [
        ("x.view(size, -1)", "aten::view", "CGD603"),
        ("torch.zeros((size, 3), device='cuda')", "aten::zeros", "CGD603"),
        ("torch.full((3,), size, device='cuda')", "aten::full", "CGD601"),
        ("rows[size:size + 1].add_(x)", "aten::slice.Tensor", "CGD601"),
        ("kernel[(size,)](x, y)", None, "CGD603"),
    ],
)
def test_which_arguments_are_sizes(region, found, call, operator, rule):
    r = region(SIZES.replace("CALL", call))
    expression = call.removesuffix(".add_(x)")
    ops = [(operator, (("y = ", "<module>", expression),), {"values": (("1", "5"),)})] if operator else []
    capture = r.capture(*ops)
    slot = r.slot(capture, "size", "5", reads=[("y = ", "<module>", "size")])
    r.change(slot, "9", at="size = 9")
    r.replays(capture)
    assert [f.rule.id for f in found(r)] == [rule]
