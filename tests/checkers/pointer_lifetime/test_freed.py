"""CGD401: memory that was gone at a replay; the statement that let go of it, and what goes before it."""

from cudagraph_doctor.trace import events

BIAS, OUT = 0x10000, 0x30000
LOCAL = """
def build():
    bias = torch.full((64,), 2.0, device="cuda")
    with torch.cuda.graph(g):
        out = bias * 3
    return out
out = build()
others = [torch.full((64,), 9.0, device="cuda")]
g.replay()
"""


def local(fate, tensor, text=LOCAL, **storage):
    f = fate(text)
    given = tensor.cuda("0", BIAS, storage=1)
    capture = f.region.capture(("aten::mul", (("out = bias * 3", "build", "bias * 3"),), {"tensors": (given,)}))
    f.storage(1, BIAS, capture, **storage)
    f.graph(capture)
    return f, capture


def test_a_local_that_died_with_its_function(fate, tensor):
    f, capture = local(fate, tensor)
    f.free(1, BIAS, capture, at="out = build()", now="reused", owner="a tensor in the list `others`")
    f.replay(capture, "g.replay()")
    assert f.found == [("CGD401", 2, "error", "proven")]
    message = f.report.findings[0].message
    assert "`bias` was freed with its scope at script.py:6 before replay 1 of `g`" in message
    assert "`bias * 3` at script.py:4" in message
    assert "a tensor in the list `others`" in message
    assert "`g.inputs = (bias,)`" in f.report.findings[0].remedy


def test_memory_that_nobody_took_yet_is_a_warning(fate, tensor):
    f, capture = local(fate, tensor)
    f.free(1, BIAS, capture, at="out = build()", now="cached")
    assert f.found == [("CGD401", 2, "warning", "proven")]


def test_a_later_look_says_who_took_it(fate, tensor):
    f, capture = local(fate, tensor)
    f.free(1, BIAS, capture, at="out = build()", now="cached")
    f.free(1, BIAS, capture, at="out = build()", now="reused", owner="a tensor", replay=2)
    assert f.found == [("CGD401", 2, "error", "proven")]
    assert "before replay 1" in f.report.findings[0].message
    assert "(seen at replay 2)" in f.report.findings[0].message


def test_unmapped_memory_explains_the_illegal_access(fate, tensor):
    f, capture = local(fate, tensor)
    f.free(1, BIAS, capture, at="out = build()", now="unmapped")
    link = events.Link(type="torch.AcceleratorError", message="CUDA error: an illegal memory access", code=700)
    f.trace.exception(link)
    f.trace.seal(returncode=1)
    assert f.found == [("CGD401", 2, "error", "proven")]
    assert [c.code for c in f.report.findings[0].consequences] == [700]
    assert not f.report.unexplained_end


def test_a_statement_that_lets_go_is_the_cause(fate, tensor):
    f, capture = local(fate, tensor, LOCAL.replace("    return out", "    del bias\n    return out"))
    f.free(1, BIAS, capture, at="del bias", function="build", now="reused")
    assert f.found == [("CGD401", 5, "error", "proven")]
    assert "freed by `del bias`" in f.report.findings[0].message


def test_alive_is_clean(fate, tensor):
    f, capture = local(fate, tensor)
    f.replay(capture, "g.replay()")
    assert f.found == []


def test_freed_and_never_replayed_again_is_clean(fate, tensor):
    f, _ = local(fate, tensor)
    f.trace.add(events.Free, id=1, ptr=hex(BIAS), stack=f.trace.stack(6))  # no look before a replay saw it
    assert f.found == []


def test_an_output_of_the_graph_itself_may_die(fate, tensor):
    f, capture = local(fate, tensor, inside=True, pool="0,2")
    f.free(1, BIAS, capture, at="out = build()", now="cached")
    assert f.found == []


def test_an_intermediate_of_a_piecewise_graph_may_die(fate, tensor):
    """Made by another graph of the pool, read by this one: the memory stays the pool's."""
    f, capture = local(fate, tensor, pool="0,2")
    f.free(1, BIAS, capture, at="out = build()", now="cached")
    assert f.found == []


def test_a_pool_of_the_users_is_no_graph_pool(fate, tensor):
    f, capture = local(fate, tensor, pool="0,9")
    f.free(1, BIAS, capture, at="out = build()", now="reused")
    assert f.found == [("CGD401", 2, "error", "proven")]


def test_a_word_of_a_node_is_only_possible(fate, tensor):
    f, capture = local(fate, tensor)
    f.storage(2, 0x50000, capture)
    op = next(a.record for a in f.trace.session().captures[0].activities)
    f.trace.add(events.Node, id=1, graph=capture.graph, type="kernel", ptrs=(hex(0x50010),), op=op.q)
    f.free(2, 0x50000, capture, at="out = build()", now="reused")
    assert [(rule, confidence) for rule, _, _, confidence in f.found] == [("CGD401", "possible")]


def test_many_of_one_cause_are_one_finding(fate, tensor):
    text = """
with torch.cuda.graph(g):
    y = x @ model.a @ model.b
del model
g.replay()
"""
    f = fate(text)
    place = (("y = x", "<module>", "x @ model.a"),)
    tensors = [(tensor.cuda("1", 0x1000 * n, storage=n),) for n in (1, 2)]
    capture = f.region.capture(*(("aten::mm", place, {"tensors": given}) for given in tensors))
    for n in (1, 2):
        f.storage(n, 0x1000 * n, capture)
        f.region.slot(
            capture, f"model.{'ab'[n - 1]}", ptr=hex(0x1000 * n), storage=n, reads=[("y = x", "<module>", "x")]
        )
        f.free(n, 0x1000 * n, capture, at="del model", now="reused")
    assert f.found == [("CGD401", 3, "error", "proven")]
    assert "`model.a`, `model.b` was freed by `del model`" in f.report.findings[0].message


# ── precedence ───────────────────────────────────────────────────────────────────────────────────


def test_a_rebound_slot_goes_before(fate, tensor):
    f, capture = local(fate, tensor, LOCAL + "bias = torch.ones(64)\n")
    read = [("out = bias * 3", "build", "bias")]
    slot = f.region.slot(capture, "bias", ptr=hex(BIAS), storage=1, reads=read, type="torch.Tensor")
    f.region.change(slot, replay=2, at="bias = torch.ones", ptr=hex(0x70000), storage=7, refreshed=False)
    f.free(1, BIAS, capture, at="bias = torch.ones", now="reused", replay=2)
    f.replay(capture, "g.replay()", count=3)
    assert [rule for rule, *_ in f.found] == ["CGD402"]


def test_a_cast_of_autocast_goes_before(fate, tensor):
    f, capture = local(fate, tensor, owner="autocast cache")
    f.free(1, BIAS, capture, at="out = build()", now="reused", api="torch.clear_autocast_cache")
    assert [rule for rule, *_ in f.found] == ["CGD409"]


def test_host_memory_is_another_rule(fate, tensor):
    f, capture = local(fate, tensor, dev="cpu", space="pinned")
    f.free(1, BIAS, capture, at="out = build()", now="reused")
    assert [rule for rule, *_ in f.found] == ["CGD405"]


def test_an_allocator_that_tells_nothing_is_not_checked(fate, tensor):
    f, _ = local(fate, tensor)
    f.trace.capability("allocator", "unavailable", "memory is of the allocator cudaMallocAsync, which tells nothing")
    states = {s.rule: s for c in f.report.checkers for s in c.rules}
    assert not states["CGD401"].checked
    assert "cudaMallocAsync" in states["CGD401"].reason
