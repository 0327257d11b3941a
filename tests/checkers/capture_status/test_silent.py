"""CGD113, 116, 117: what a good capture left out, what was hidden, and graphs with nothing in them."""

import pytest

from cudagraph_doctor.testing import cuda_error
from cudagraph_doctor.trace import events

PRIVATE = """
class FusedScale:
    def __call__(self, src, dst):
        with torch.cuda.stream(self.stream):
            torch.mul(src, 2.0, out=dst)
with torch.cuda.graph(g):
    torch.add(x, 1.0, out=h)
    scale(h, out)
"""
X, H, OUT, HOST, NEXT = 0x1000, 0x2000, 0x3000, 0x8000, 0x4000


def region(s, tensor, loose, *, tid=None, **fields):
    other = s.trace.stream()
    with s.trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        captured = (tensor.cuda("0", X), tensor.cuda("out", H, written=True))
        capture.op("aten::add.out", line=s.line("torch.add"), tensors=captured)
        stack = s.at("torch.mul(src, 2.0, out=dst)", "FusedScale.__call__")
        fields.setdefault("stream", other)
        fields.setdefault("on", 0)
        capture.op(fields.pop("name", "aten::mul.out"), stack=stack, tensors=loose, tid=tid, **fields)
        capture.end(nodes=1)
    return s


def test_work_on_a_private_stream_that_uses_what_the_graph_computes(script, finds, fixed, tensor):
    s = region(script(PRIVATE), tensor, (tensor.cuda("0", H), tensor.cuda("out", OUT, written=True)))
    finding = finds(s, "CGD113", line=s.line("torch.mul"), confidence="proven", level="error")
    assert "`torch.mul(src, 2.0, out=dst)` runs on `self.stream`, which is not part of the capture" in finding.message
    assert finding.related[0].line == s.line("torch.add")
    text = fixed(s, finding)
    assert "        self.stream.wait_stream(torch.cuda.current_stream())\n        with torch.cuda.stream" in text
    assert "out=dst)\n        torch.cuda.current_stream().wait_stream(self.stream)" in text


def test_work_that_feeds_the_graph(script, finds, tensor):
    s = region(
        script(PRIVATE),
        tensor,
        (tensor.cuda("0", X, written=True), tensor.cpu("1", HOST, pinned=True)),
        name="aten::copy_",
    )
    finds(s, "CGD113", confidence="proven", message="it writes what the graph uses")


def test_work_on_the_graphs_inputs(script, finds, tensor):
    s = region(script(PRIVATE), tensor, (tensor.cuda("0", X), tensor.cuda("out", OUT, written=True)))
    finds(s, "CGD113", confidence="likely")


def test_prefetch_that_the_graph_does_not_read_is_quiet(script, quiet, tensor):
    loose = (tensor.cuda("0", NEXT, written=True), tensor.cpu("1", HOST, pinned=True))
    quiet(region(script(PRIVATE), tensor, loose, name="aten::copy_"))


COUNTER = """
pos = torch.zeros((), device="cuda")
with torch.cuda.graph(g):
    torch.add(x, 1.0, out=h)
    with torch.cuda.stream(side):
        pos += 1
"""


def counted(s, tensor, name="aten::add_", ptr=NEXT, before=(), **fields):
    side = s.trace.stream()
    with s.trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        captured = (tensor.cuda("0", X), tensor.cuda("out", H, written=True))
        capture.op("aten::add.out", line=s.line("torch.add"), tensors=captured)
        for made in before:
            capture.op("aten::zeros", line=s.line("pos += 1"), stream=side, on=0, results=(made,))
        loose = (tensor.cuda("0", ptr, written=True),)
        capture.op(name, line=s.line("pos += 1"), stream=side, on=0, tensors=loose, **fields)
        capture.end(nodes=1)
    return s


@pytest.mark.parametrize("name", ["aten::add_", "aten::mul_", "aten::index_add_", "aten::scatter_add_"])
def test_update_of_memory_that_the_graph_never_touches_is_a_note(script, finds, fixed, tensor, name):
    s = counted(script(COUNTER), tensor, name)
    finding = finds(s, "CGD113", line=s.line("pos += 1"), confidence="possible", level="note")
    assert "`pos += 1` runs once, at capture time" in finding.message
    assert finding.remedy.startswith("If every replay should do it: ")
    assert "    side.wait_stream(torch.cuda.current_stream())\n    with torch.cuda.stream(side):" in fixed(s, finding)


@pytest.mark.parametrize("name", ["aten::copy_", "aten::fill_", "aten::zero_", "aten::mul.out"])
def test_write_of_memory_that_the_graph_never_touches_is_quiet(script, quiet, tensor, name):
    quiet(counted(script(COUNTER), tensor, name))


def test_update_of_memory_that_the_window_made_is_quiet(script, quiet, tensor):
    quiet(counted(script(COUNTER), tensor, before=(tensor.cuda("r0", NEXT),)))


def test_update_on_a_forked_stream_is_quiet(script, quiet, tensor):
    s = script(COUNTER)
    with s.trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        capture.op("aten::add_", line=s.line("pos += 1"), on=1, tensors=(tensor.cuda("0", NEXT, written=True),))
        capture.end(nodes=1)
    quiet(s)


def test_other_threads_eager_work_is_quiet(script, quiet, tensor):
    loose = (tensor.cuda("0", H), tensor.cuda("out", OUT, written=True))
    quiet(region(script(PRIVATE), tensor, loose, tid=77))


@pytest.mark.parametrize("kind", ["view", "alloc", "host"])
def test_what_gives_the_device_nothing_to_do_is_quiet(script, quiet, tensor, kind):
    quiet(region(script(PRIVATE), tensor, (tensor.cuda("0", H),), kind=kind))


def test_captured_work_on_a_forked_stream_is_quiet(script, quiet, tensor):
    loose = (tensor.cuda("0", H), tensor.cuda("out", OUT, written=True))
    quiet(region(script(PRIVATE), tensor, loose, on=1))


def test_several_lines_on_one_stream_have_one_cause(script, finds, tensor):
    s = script(PRIVATE)
    other = s.trace.stream()
    with s.trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        capture.op("aten::add", line=s.line("torch.add"), tensors=(tensor.cuda("0", H, written=True),))
        for part in ("torch.mul", "scale(h, out)"):
            capture.op("aten::mul", line=s.line(part), stream=other, on=0, tensors=(tensor.cuda("0", H),))
        capture.end(nodes=1)
    finds(s, "CGD113", line=s.line("torch.mul"), count=2)


LAUNCH = "def op(src):\n    driver.cuLaunchKernel(fn, 16, 0, args)\nwith torch.cuda.graph(g):\n    torch.add(x, 1, out=h)\n    op(h)\n"


@pytest.mark.parametrize(("pointers", "confidence"), [((hex(H + 16),), "proven"), ((), "likely")])
def test_raw_launch_on_the_default_stream(script, finds, tensor, pointers, confidence):
    s = script(LAUNCH)
    legacy = s.trace.stream(kind="legacy")
    with s.trace.capture(line=3) as capture:
        capture.op("aten::add.out", line=4, tensors=(tensor.cuda("0", X), tensor.cuda("out", H, written=True)))
        stack = s.at("driver.cuLaunchKernel(fn, 16, 0, args)", "op")
        capture.call("cuLaunchKernel", layer="bindings", stack=stack, stream=legacy, on=0, ptrs=pointers)
        capture.end(nodes=1)
    finding = finds(s, "CGD113", line=2, confidence=confidence)
    assert "runs on the default stream" in finding.message
    assert "torch.cuda.current_stream().cuda_stream" in finding.remedy


def test_raw_launch_on_memory_of_its_own_is_quiet(script, quiet, tensor):
    s = script(LAUNCH)
    with s.trace.capture(line=3) as capture:
        capture.op("aten::add.out", line=4, tensors=(tensor.cuda("out", H, written=True),))
        legacy = s.trace.stream(kind="legacy")
        capture.call("cuLaunchKernel", layer="bindings", line=2, stream=legacy, on=0, ptrs=(hex(NEXT),))
        capture.end(nodes=1)
    quiet(s)


RETRY = """
def with_check():
    return x.sum().item()
for candidate in (with_check, without_check):
    with torch.cuda.graph(attempt):
        y = candidate()
attempt.replay()
"""


def failed_attempt(s, graph):
    with s.trace.capture(line=s.line("with torch"), graph=graph) as capture:
        capture.op("aten::_local_scalar_dense", stack=s.at("x.sum().item()", "with_check"), raises=cuda_error(900))
        capture.end(passing=cuda_error(900))


def test_failed_attempt_with_a_good_one_after_it_is_only_noted(script, finds):
    s = script(RETRY)
    failed_attempt(s, s.trace.next_id("graph"))
    good = s.trace.next_id("graph")
    with s.trace.capture(line=s.line("with torch"), graph=good) as capture:
        capture.op("aten::add", line=s.line("candidate()"))
        capture.end(nodes=1)
    s.trace.replay(good, line=s.line("attempt.replay()"))
    s.trace.seal(0)
    finding = finds(s, "CGD116", line=s.line(".item()"), level="note")
    assert "`x.sum().item()` waits for the GPU" in finding.message


def test_swallowed_error_whose_graph_is_replayed_stays_an_error(script, finds):
    s = script(RETRY)
    graph = s.trace.next_id("graph")
    failed_attempt(s, graph)
    message = "Called CUDAGraph::replay without a preceding successful capture."
    s.trace.replay(graph, line=s.line("attempt.replay()"), raises=events.Raised("RuntimeError", message))
    s.trace.exception(events.Link("RuntimeError", message))
    s.trace.seal(1)
    finding = finds(s, "CGD101", line=s.line(".item()"), level="error")
    assert [c.message for c in finding.consequences][-1] == f"the program ended with RuntimeError: {message}"


def test_own_exception_masked_by_the_end_of_the_capture(script, finds):
    s = script("with torch.cuda.graph(g):\n    side.wait_stream(main)\n    raise ValueError('no such request')\n")
    stack = s.at("raise ValueError('no such request')")
    with s.trace.capture(line=1) as capture:
        capture.end(passing=events.Raised("ValueError", "no such request"), raises=cuda_error(904))
    error = cuda_error(904)
    chain = (
        events.Link(error.type, error.message, code=904),
        events.Link("ValueError", "no such request", stack=stack),
    )
    s.trace.exception(*chain, where="capture-exit", cap=capture.id)
    s.trace.exception(*chain)
    s.trace.seal(1)
    finding = finds(s, "CGD116", line=3, level="warning")
    assert "`ValueError: no such request` ended the captured region early" in finding.message
    assert finding.consequences[0].code == 904


def empty(s, *, nodes=0, device=0, replays=1, **op):
    with s.trace.capture(line=1) as capture:
        if op:
            capture.op(line=2, device=device, **op)
        capture.end(nodes=nodes)
    for _ in range(replays):
        s.trace.replay(capture.graph, line=3)
    return s


def test_empty_graph(script, finds):
    finds(empty(script("with torch.cuda.graph(g):\n    pass\ng.replay()\n")), "CGD117", line=1, level="warning")


def test_empty_graph_that_is_never_replayed_does_no_harm(script, finds):
    finds(empty(script("with torch.cuda.graph(g):\n    pass\ng.replay()\n"), replays=0), "CGD117", level="note")


def test_work_on_another_device_is_said(script, finds):
    s = empty(script("with torch.cuda.graph(g):\n    y = x + 1\ng.replay()\n"), name="aten::add", device=1, on=0)
    finds(s, "CGD117", message="went to cuda:1, but the capture is on cuda:0")


def test_work_that_was_left_out_explains_an_empty_graph(script, finds, tensor):
    s = script("with torch.cuda.graph(g):\n    driver.launch(h)\n")
    with s.trace.capture(line=1) as capture:
        capture.call("cuLaunchKernel", layer="bindings", line=2, stream=s.trace.stream(kind="legacy"), on=0)
        capture.end(nodes=0)
    finds(s, "CGD113", line=2)


@pytest.mark.parametrize("nodes", [1, None])
def test_graph_with_nodes_or_an_unknown_number_is_quiet(script, quiet, nodes):
    quiet(empty(script("with torch.cuda.graph(g):\n    pass\ng.replay()\n"), nodes=nodes))


def test_replay_on_another_stream_of_a_graph_that_feeds_this_one(script, finds, tensor):
    s = script("with torch.cuda.stream(side):\n    inner.replay()\n")
    with s.trace.capture(line=9) as inner:
        inner.op("aten::mul", line=9, tensors=(tensor.cuda("0", X), tensor.cuda("out", H, written=True)))
        inner.end(nodes=1)
    side = s.trace.stream()
    with s.trace.capture(line=10) as outer:
        s.trace.replay(inner.graph, stack=s.at("inner.replay()"), stream=side, on=0, cap=outer.id)
        outer.op("aten::add", line=11, tensors=(tensor.cuda("0", H),))
        outer.end(nodes=1)
    finds(s, "CGD113", line=2, message="`inner.replay()` runs on `side`")


def test_replay_on_another_stream_of_an_unrelated_graph_is_quiet(script, quiet, tensor):
    s = script("with torch.cuda.stream(side):\n    inner.replay()\n")
    with s.trace.capture(line=9) as inner:
        inner.op("aten::mul", line=9, tensors=(tensor.cuda("0", NEXT),))
        inner.end(nodes=1)
    side = s.trace.stream()
    with s.trace.capture(line=10) as outer:
        s.trace.replay(inner.graph, line=2, stream=side, on=0, cap=outer.id)
        outer.op("aten::add", line=11, tensors=(tensor.cuda("0", H),))
        outer.end(nodes=1)
    quiet(s)


def test_call_that_nobody_saw_is_said_with_the_lines_around_it(script, finds):
    s = script("with torch.cuda.graph(g):\n    y = x + 1\n    extension.run(y)\n    z = y + 1\n")
    with s.trace.capture(line=1) as capture:
        last = capture.op("aten::add", line=2)
        capture.invalidated_unseen(since=last)
        capture.op("aten::add", line=4, raises=cuda_error(901))
        capture.end(passing=cuda_error(901))
    error = cuda_error(901)
    s.trace.exception(events.Link(error.type, error.message, code=901), where="capture-exit", cap=capture.id)
    s.trace.exception(events.Link(error.type, error.message, code=901))
    s.trace.seal(1)
    finding = finds(s, "CGD116", line=3, level="warning", confidence="likely")
    assert "between script.py:2 and script.py:4; `extension.run(y)` ran there" in finding.message
    assert finding.consequences[-1].message.startswith("the program ended with")


def test_an_error_of_the_end_itself_is_not_called_hidden(script, quiet):
    s = script("with torch.cuda.graph(g):\n    launch(kernel)\n")
    error = cuda_error(701)
    with s.trace.capture(line=1) as capture:
        capture.call("cuLaunchKernel", line=2, layer="bindings")
        capture.end(raises=error)
    link = events.Link(error.type, error.message, code=701, stack=s.at("with torch"))
    s.trace.exception(link, where="capture-exit", cap=capture.id)
    s.trace.exception(link)
    s.trace.seal(1)
    quiet(s)
