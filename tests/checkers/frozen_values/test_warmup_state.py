"""CGD605: positions that the warm-up advanced, and rows that a smaller batch leaves."""

import pytest

from cudagraph_doctor.trace import events

DECODE = """
def decode_step():
    cache.index_copy_(0, pos, k_new)
    pos.add_(1)
for _ in range(3):
    decode_step()  # warm up
with torch.cuda.graph(g):
    decode_step()
g.replay()
"""
POS, CACHE, NEW = 0x1000, 0x2000, 0x3000


def decoded(region, tensor, *, content="3", version=3, reset=False, index=True):
    r = region(DECODE)
    lines = {"decode_step()": 7}
    r.script.line = lambda part, line=r.script.line: lines.get(part) or line(part)
    index_at = tensor.cuda("2" if index else "3", POS, dtype="int64", storage=1)
    copy = {
        "tensors": (tensor.cuda("0", CACHE, written=True, storage=2), index_at),
        "kind": "compute",
    }
    add = {"tensors": (tensor.cuda("0", POS, dtype="int64", storage=1, written=True),), "values": (("1", "1"),)}
    capture = r.capture(
        ("aten::index_copy_", (("cache.index_copy_", "decode_step"), ("decode_step()",)), copy),
        ("aten::add_.Tensor", (("pos.add_(1)", "decode_step", "pos.add_(1)"), ("decode_step()",)), add),
    )
    r.slot(
        capture,
        "pos",
        type="torch.Tensor",
        ptr=hex(POS),
        storage=1,
        version=version,
        left=content,
        reads=[("cache.index_copy_", "decode_step", "pos")],
    )
    if reset:
        r.trace.add(events.Touch, storage=1, what="write", name="aten::zero_")
    r.replays(capture)
    return r


def test_a_position_that_only_the_warm_up_advanced(region, finds, tensor):
    finding = finds(decoded(region, tensor), "CGD605", line=5, confidence="likely")
    assert "Runs before the capture advanced `pos` 3 times here" in finding.message


@pytest.mark.parametrize(
    "options",
    [{"content": "0", "version": 4}, {"reset": True}, {"version": 0, "content": "7"}, {"index": False}],
    ids=["reset before the capture", "reset behind it", "set by the program", "no index"],
)
def test_positions_that_are_quiet(region, quiet, tensor, options):
    quiet(decoded(region, tensor, **options))


PADDED = """
with torch.cuda.graph(g):
    cache.index_copy_(0, slots, kv)
def decode(ids):
    slots[:n] = ids
    slots[n:] = 8
    g.replay()
"""


def padded(region, tensor, *, sizes=(32, 16), fill=False, inside=False):
    r = region(PADDED)
    index = tensor.cuda("2", 0x1000, dtype="int64", storage=1, size=32)
    copy = {"tensors": (tensor.cuda("0", CACHE, written=True, storage=2), index)}
    r.trace.add(events.Storage, id=1, ptr="0x1000", size=32, dev="cuda:0")
    r.trace.add(events.Storage, id=2, ptr=hex(CACHE), size=256, dev="cuda:0", inside=inside)
    capture = r.capture(("aten::index_copy_", (("cache.index_copy_",),), copy))
    for size in sizes:
        stack = r.stack(("slots[:n] = ids", "decode", "slots[:n]"))
        r.trace.add(
            events.Touch, storage=1, what="write", ptr="0x1000", size=size, whole=size == 32, stack=stack, stream=1
        )
        if fill and size < 32:
            r.trace.add(events.Touch, storage=1, what="write", ptr=hex(0x1000 + size), size=32 - size, whole=False)
        r.replays(capture, 1)
    return r


def test_rows_that_a_smaller_batch_leaves(region, finds, tensor):
    finding = finds(padded(region, tensor), "CGD605", line=4, confidence="likely")
    assert finding.message.startswith("This fills 16 bytes of `slots`, less than an earlier batch did (32)")


@pytest.mark.parametrize("options", [{"fill": True}, {"sizes": (16, 32)}, {"sizes": (16, 16)}, {"inside": True}])
def test_padded_rows_that_are_quiet(region, quiet, tensor, options):
    quiet(padded(region, tensor, **options))


@pytest.mark.parametrize(
    ("line", "rules"),
    [("pass", ["CGD605"]), ("pos.zero_()", []), ("pos[0] = 0", []), ("reset(pos)", []), ("pos.copy_(start)", [])],
)
def test_where_the_content_was_not_read_the_text_tells_whether_it_is_set(
    region, found, tensor, monkeypatch, line, rules
):
    text = DECODE.replace("g.replay()\n", f"{line}\ng.replay()\n")
    monkeypatch.setitem(globals(), "DECODE", text)
    assert [f.rule.id for f in found(decoded(region, tensor, content=""))] == rules
