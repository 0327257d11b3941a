"""CGD604: state that only Python advances."""

import pytest

COUNTER = """
def step():
    cache.data.add_(x)
    cache.seen += 1
with torch.cuda.graph(g):
    step()
cache.seen = 0
for _ in range(5):
    g.replay()
applied = int(cache.data[0, 0].item())
print("OK" if applied == cache.seen else "WRONG")
print(f"{cache.seen} steps")
"""


def counted(region, read="applied == cache.seen", *, replays=5, at_replay=5, moves=(), guess=False, watched=True):
    r = region(COUNTER)
    if watched:
        r.trace.capability("slot-uses")
    r.script.line = lambda part, line=r.script.line: {"step()": 5}.get(part) or line(part)
    capture = r.capture(("aten::add_.Tensor", (("cache.data.add_(x)", "step", "cache.data.add_(x)"), ("step()",))))
    place = ("cache.seen += 1", "step", "cache.seen")
    slot = r.slot(capture, "cache.seen", "1", kind="attribute", left="2", reads=[place], writes=[place])
    r.change(slot, "0", replay=1, at="cache.seen = 0")
    for number in moves:
        r.change(slot, str(number), replay=number)
    r.replays(capture, replays)
    if read:
        from cudagraph_doctor.trace import events

        stack = r.stack((read, "<module>", "cache.seen"))
        r.trace.add(events.SlotUse, slot=slot, replay=at_replay, stack=stack, guess=guess)
    return r


def test_a_counter_that_the_program_compares(region, finds):
    finding = finds(counted(region), "CGD604", line=3)
    assert finding.message == (
        "`cache.seen` changes here when the region runs in Python (`1` became `2` in the capture); no replay does that: "
        "behind 5 replays the program reads `0` at script.py:10 as if they had."
    )


def test_where_reads_are_not_watched_the_text_tells(region, finds):
    finding = finds(counted(region, None, watched=False), "CGD604", line=3, level="warning", confidence="likely")
    assert finding.related[0].line == 10


EXPECTED = COUNTER.replace("applied == cache.seen", "cache.seen == 0")


def test_a_count_that_the_program_expects_is_quiet(region, quiet, found, monkeypatch):
    monkeypatch.setitem(globals(), "COUNTER", EXPECTED)
    quiet(counted(region, None, watched=False))
    monkeypatch.setitem(globals(), "COUNTER", EXPECTED.replace("== 0", "== 5"))
    assert [f.rule.id for f in found(counted(region, None, watched=False))] == ["CGD604"]


@pytest.mark.parametrize(
    "options",
    [
        {"read": None},
        {"read": 'print(f"{cache.seen} steps")'},
        {"replays": 1, "at_replay": 1},
        {"at_replay": 0},
        {"moves": (2, 3, 4)},
    ],
    ids=["nobody reads it", "a log line", "one replay", "read before the replays", "the host keeps it"],
)
def test_counters_that_are_quiet(region, quiet, options):
    quiet(counted(region, **options))


STATE = """
class Cell:
    def step(self):
        self.h = torch.tanh(self.h @ w)
        return self.h
with torch.cuda.graph(g):
    y = cell.step()
g.replay()
"""


def carried(region, *, replays=3, refreshed=False, kind="attribute"):
    from cudagraph_doctor.trace import events

    r = region(STATE)
    r.trace.capability("touches")
    frames = (("self.h = torch.tanh", "Cell.step", "torch.tanh(self.h @ w)"), ("y = cell.step()",))
    capture = r.capture(("aten::tanh", frames))
    r.slot(
        capture,
        "cell.h",
        kind=kind,
        type="torch.Tensor",
        ptr="0x1000",
        storage=1,
        shape=(1, 8),
        left_ptr="0x2000",
        reads=[("self.h = torch.tanh", "Cell.step", "self.h @ w"[:6])],
        writes=[("self.h = torch.tanh", "Cell.step", "self.h")],
    )
    r.trace.add(events.Output, id=1, cap=capture.id, storage=2, ptr="0x2000", shape=(1, 8), path="cell.h", role="state")
    if refreshed:
        r.trace.add(events.Touch, storage=1, what="write", name="aten::copy_")
    r.replays(capture, replays)
    return r


def test_a_state_that_the_region_binds_anew(region, finds):
    finds(carried(region), "CGD604", line=3, message="each one starts again from the tensor of the capture")


@pytest.mark.parametrize("options", [{"replays": 1}, {"refreshed": True}, {"kind": "local"}])
def test_states_that_are_quiet(region, quiet, options):
    quiet(carried(region, **options))
