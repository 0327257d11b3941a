"""CGD407 and CGD409: memory of graph pools in two hands, casts that autocast keeps."""

import pytest

from cudagraph_doctor.trace import events

LAZY = """
class Rope:
    def table(self):
        if self._table is None:
            self._table = torch.arange(64, device="cuda")
        return self._table
with torch.cuda.graph(g):
    y = q * rope.table()
eager = q * rope.table()
rope._table.add_(y)
g.replay()
"""
TABLE = 0x20000


@pytest.fixture
def lazy(fate, tensor):
    f = fate(LAZY, backend="sim", evidence="simulated")
    make = (("self._table = torch", "Rope.table", 'torch.arange(64, device="cuda")'),)
    capture = f.trace.begin_capture(line=6)
    f.region.exec = capture.exec
    capture.op("aten::arange", stack=f.region.stack(*make), results=(tensor.cuda("r0", TABLE, storage=3),))
    capture.end()
    f.storage(3, TABLE, capture, inside=True, pool="0,2")
    f.graph(capture)
    return f, capture


def test_a_table_built_in_the_capture_and_read_before_a_replay(lazy):
    f, _ = lazy
    f.touch("read", TABLE, "eager = ")
    assert f.found == [("CGD407", 4, "error", "proven")]
    assert "`rope.table()` at script.py:8 reads it before any replay" in f.report.findings[0].message


def test_read_after_a_replay_is_clean(lazy):
    f, capture = lazy
    f.replay(capture, "g.replay()")
    f.touch("read", TABLE, "eager = ")
    assert f.found == []


def test_filled_before_a_replay_is_clean(lazy):
    f, _ = lazy
    f.touch("read", TABLE, "eager = ", name="aten::zero_")
    f.touch("write", TABLE, "eager = ", name="aten::zero_")
    assert f.found == []


def test_each_replay_builds_anew_what_eager_code_adds_to(lazy):
    f, capture = lazy
    for _ in range(2):
        f.replay(capture, "g.replay()")
        f.touch("write", TABLE, "rope._table.add_", name="aten::add_")
    assert f.found == [("CGD407", 4, "error", "likely")]


# ── two graphs of one pool ───────────────────────────────────────────────────────────────────────

POOL = """
with torch.cuda.graph(ga, pool=pool):
    ya = xa * 2
with torch.cuda.graph(gb, pool=pool):
    yb = xb * 3
ga.replay()
gb.replay()
print(ya)
"""
SCRATCH = 0x40000


def pool_of_two(fate, tensor, *, apart=False, text=POOL):
    f = fate(text, begin="torch.cuda.graph(ga", backend="cuda")
    captures = []
    for number, (begin, work) in enumerate((("graph(ga", "xa * 2"), ("graph(gb", "xb * 3"))):
        capture = f.trace.begin_capture(line=f.region.script.line(begin))
        place = (f"= {work}", "<module>", work)
        at = SCRATCH + 0x1000 * number * apart
        result = (tensor.cuda("r0", at, storage=number + 3),)
        capture.op("aten::mul", stack=f.region.stack(place), results=result)
        capture.end()
        f.storage(number + 3, at, capture, inside=True, pool="0,2")
        f.graph(capture)
        captures.append(capture)
    return f, captures


def test_replayed_at_the_same_time(fate, tensor):
    f, (a, b) = pool_of_two(fate, tensor)
    f.replay(a, "ga.replay()", stream=11)
    f.replay(b, "gb.replay()", stream=12)
    assert f.found == [("CGD407", 6, "error", "likely")]
    assert "`xa * 2` at script.py:2" in f.report.findings[0].message
    assert "256 bytes" in f.report.findings[0].message


def test_ordered_by_the_host_is_clean(fate, tensor):
    f, (a, b) = pool_of_two(fate, tensor)
    f.replay(a, "ga.replay()", stream=11)
    f.trace.call("cuCtxSynchronize", line=5, layer="torch")
    f.replay(b, "gb.replay()", stream=12)
    assert f.found == []


def test_waits_that_were_not_recorded_are_no_finding(fate, tensor):
    f, (a, b) = pool_of_two(fate, tensor)
    f.replay(a, "ga.replay()", stream=11)
    f.trace.add(events.Lost, count=1, why="calls outside of captures beyond the first 3000")
    f.replay(b, "gb.replay()", stream=12)
    assert f.found == []


def test_host_reads_between_two_replays_leave_it_open(fate, tensor):
    """Without a watch outside of captures, a result that the host reads may order them."""
    f, (a, b) = pool_of_two(fate, tensor, text=POOL.replace("gb.replay()", "total = ya.sum().item()\ngb.replay()"))
    f.replay(a, "ga.replay()", stream=11)
    f.replay(b, "gb.replay()", stream=12)
    assert f.found == []


def test_on_one_stream_is_clean(fate, tensor):
    f, (a, b) = pool_of_two(fate, tensor)
    f.replay(a, "ga.replay()", stream=11)
    f.replay(b, "gb.replay()", stream=11)
    assert f.found == []


def test_no_bytes_in_common_is_clean(fate, tensor):
    f, (a, b) = pool_of_two(fate, tensor, apart=True)
    f.replay(a, "ga.replay()", stream=11)
    f.replay(b, "gb.replay()", stream=12)
    assert f.found == []


def test_an_output_read_after_the_other_graph_ran_over_it(fate, tensor):
    f, (a, b) = pool_of_two(fate, tensor)
    f.storage(3, 0x99000, a, inside=True, pool="0,2")  # only the second one's output is still there
    f.replay(b, "gb.replay()", stream=11)
    f.replay(a, "ga.replay()", stream=11)
    f.touch("host-read", SCRATCH, "print(ya)", stream=11)
    assert f.found == [("CGD407", 5, "error", "proven")]


def test_nobody_reads_what_was_overwritten(fate, tensor):
    f, (a, b) = pool_of_two(fate, tensor)
    f.replay(b, "gb.replay()", stream=11)
    f.replay(a, "ga.replay()", stream=11)
    assert f.found == []


# ── autocast ─────────────────────────────────────────────────────────────────────────────────────

AUTOCAST = """
with torch.autocast("cuda", dtype=torch.float16):
    layer(x)
    with torch.cuda.graph(g):
        y = layer(x)
g.replay()
"""


def cached(fate, tensor):
    f = fate(AUTOCAST)
    given = (tensor.cuda("1", 0x10000, storage=1),)
    capture = f.region.capture(("aten::mm", (("y = layer(x)", "<module>", "layer(x)"),), {"tensors": given}))
    f.storage(1, 0x10000, capture, owner="autocast cache")
    f.graph(capture)
    return f, capture


def test_cached_casts_that_died_with_the_block(fate, tensor):
    f, capture = cached(fate, tensor)
    f.free(1, 0x10000, capture, at="with torch.autocast", now="reused", api="torch.clear_autocast_cache")
    assert f.found == [("CGD409", 1, "error", "proven")]
    finding = f.report.findings[0]
    assert finding.fix.replacement == 'with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):'


def test_replayed_while_the_casts_live_is_clean(fate, tensor):
    f, capture = cached(fate, tensor)
    f.replay(capture, "g.replay()")
    assert f.found == []


def test_weights_changed_under_the_cast(fate, tensor):
    f = fate(AUTOCAST.replace("g.replay()", "    layer.weight.add_(1)\n    g.replay()"))
    given = (tensor.cuda("1", 0x10000, storage=1),)
    capture = f.region.capture(("aten::mm", (("y = layer(x)", "<module>", "layer(x)"),), {"tensors": given}))
    f.storage(1, 0x10000, capture, owner="autocast cache")
    f.replay(capture, "g.replay()")
    assert f.found == [("CGD409", 1, "error", "likely")]


def test_a_race_is_no_finding_without_replays(fate, tensor):
    f, _ = pool_of_two(fate, tensor)
    f.trace.add(events.Race, what="write after unordered write", ptr=hex(SCRATCH), size=256)
    assert f.found == []
