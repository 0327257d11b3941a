"""CGD402 to CGD404: names, attributes and elements that hold another tensor than the graph works on."""

import pytest

from cudagraph_doctor.checkers.pointer_lifetime import PointerLifetime
from cudagraph_doctor.testing import diagnose_trace
from cudagraph_doctor.trace import events

OLD, NEW, W, OUT = 0x1000, 0x5000, 0x2000, 0x3000


@pytest.fixture
def found():
    return lambda region: list(diagnose_trace(region.trace, checkers=[PointerLifetime]).findings)


@pytest.fixture
def finds(found):
    def check(region, rule, *, line, confidence="proven", message=None):
        findings = found(region)
        assert [f.rule.id for f in findings] == [rule], [f"{f.rule.id} {f.message}" for f in findings]
        finding = findings[0]
        assert (finding.location.line, finding.confidence.value, finding.level.value) == (line, confidence, "error")
        assert message is None or message in finding.message, finding.message
        return finding

    return check


INPUT = """
with torch.cuda.graph(g):
    y = x @ w
for batch in batches:
    x = batch
    g.replay()
"""


def rebound(region, tensor, text=INPUT, *, at="x = batch", refreshed=False, path="x", uses=True, ptr=NEW, **slot):
    r = region(text)
    given = tensor.cuda("0", OLD if uses else 0x9000, storage=1 if uses else 9)
    capture = r.capture(("aten::mm", (("y = x @ w", "<module>", "x @ w"),), {"tensors": (given, tensor.cuda("1", W))}))
    slot.setdefault("type", "torch.Tensor")
    number = r.slot(
        capture, path, ptr=hex(OLD), storage=1, shape=(2, 64), reads=[("y = x @ w", "<module>", "x")], **slot
    )
    r.change(number, replay=2, at=at, ptr=hex(ptr), storage=5, shape=(2, 64), refreshed=refreshed)
    r.replays(capture, 3)
    return r


def test_an_input_bound_anew(region, finds, tensor):
    r = rebound(region, tensor)
    finding = finds(r, "CGD402", line=4)
    assert finding.message == (
        "`x` is bound to another tensor here; `x @ w` at script.py:2 still reads the one of the capture in every replay "
        "from replay 2 on."
    )
    assert finding.fix.replacement == "    x.copy_(batch)"
    assert "`x.copy_(batch)` in place of `x = batch`" in finding.remedy


@pytest.mark.parametrize(
    "options",
    [{"refreshed": True}, {"uses": False}, {"first": "write"}, {"left_ptr": hex(NEW), "writes": [("y = x @ w",)]}],
    ids=["still refreshed", "only its shape was read", "the region's own", "what the region left there"],
)
def test_slots_that_moved_on_without_harm(region, found, tensor, options):
    assert found(rebound(region, tensor, **options)) == []


def test_where_no_version_tells_a_write_by_the_program_does(region, found, tensor):
    r = region(INPUT)
    capture = r.capture(("aten::mm", (("y = x @ w",),), {"tensors": (tensor.cuda("0", OLD, storage=1),)}))
    slot = r.slot(capture, "x", ptr=hex(OLD), storage=1, reads=[("y = x @ w", "<module>", "x")], type="torch.Tensor")
    r.trace.add(events.Touch, storage=1, what="write", name="aten::copy_")
    r.change(slot, at="x = batch", ptr=hex(NEW), refreshed=None)
    r.replays(capture)
    assert found(r) == []


FAMILY = """
for n in sizes:
    x = buffers[n]
    with torch.cuda.graph(g):
        y = x @ w
x = buffers[1]
g.replay()
"""


@pytest.mark.parametrize(
    ("kind", "now", "rules"), [("global", 0x1100, []), ("attribute", 0x1100, []), ("attribute", NEW, ["CGD402"])]
)
def test_one_graph_for_each_buffer(region, found, tensor, kind, now, rules):
    r = region(FAMILY)
    for ptr in (OLD, 0x1100):
        capture = r.capture(("aten::mm", (("y = x @ w",),), {"tensors": (tensor.cuda("0", ptr, storage=ptr),)}))
        slot = r.slot(
            capture,
            "x",
            ptr=hex(ptr),
            storage=ptr,
            kind=kind,
            type="torch.Tensor",
            reads=[("y = x @ w", "<module>", "x")],
        )
        if ptr == OLD:
            r.change(slot, at="x = buffers[1]", ptr=hex(now), refreshed=False)
        r.replays(capture)
    assert [f.rule.id for f in found(r)] == rules


CHAIN = """
with torch.cuda.graph(g1):
    h = x + 1
with torch.cuda.graph(g2):
    y = h @ w
h = None
g.replay()
"""


def test_an_input_that_another_graph_fills(region, found, tensor):
    r = region(CHAIN, begin="with torch.cuda.graph(g1)")
    r.capture(("aten::add", (("h = x + 1",),), {"tensors": (tensor.cuda("out", OLD, storage=1, written=True),)}))
    r.begin = "with torch.cuda.graph(g2)"
    capture = r.capture(("aten::mm", (("y = h @ w",),), {"tensors": (tensor.cuda("0", OLD, storage=1),)}))
    slot = r.slot(capture, "h", ptr=hex(OLD), storage=1, reads=[("y = h @ w", "<module>", "h")], type="torch.Tensor")
    r.change(slot, at="h = None", ptr=hex(NEW), refreshed=False)
    r.replays(capture)
    assert found(r) == []


CACHE = """
def append():
    cache.index_copy_(0, slot, k_new)
with torch.cuda.graph(g):
    append()
cache = torch.cat([cache, torch.zeros_like(cache)])
g.replay()
"""


def test_a_cache_that_grew(region, finds, tensor):
    r = region(CACHE)
    written = {"tensors": (tensor.cuda("0", OLD, storage=1, written=True),)}
    capture = r.capture(("aten::index_copy_", (("cache.index_copy_", "append"),), written))
    reads = [("cache.index_copy_", "append", "cache")]
    slot = r.slot(capture, "cache", ptr=hex(OLD), storage=1, shape=(4, 64), type="torch.Tensor", reads=reads)
    r.change(slot, at="cache = torch.cat", ptr=hex(NEW), shape=(8, 64), refreshed=False)
    r.replays(capture)
    finding = finds(r, "CGD404", line=5, message="`cache` is made anew (shape (8, 64) in place of (4, 64))")
    assert "at its largest size" in finding.remedy


WEIGHTS = """
with torch.cuda.graph(g):
    y = layer(x)
layer.load_state_dict(adapter, assign=True)
g.replay()
"""


@pytest.mark.parametrize(
    ("store", "said", "remedy"),
    [
        ("layer.load_state_dict(adapter, assign=True)", "replaces", "Leave out `assign=True`"),
        ("model.to(torch.bfloat16)", "replaces", "Move and convert the model before the capture"),
        ("layer.weight.data = new", "replaces the memory of", "`layer.weight.data.copy_(new)`"),
        ("layer.weight = torch.nn.Parameter(new)", "replaces", "under `torch.no_grad()`"),
    ],
)
def test_weights_replaced_by_one_store_are_one_finding(region, finds, tensor, store, said, remedy):
    r = region(WEIGHTS.replace("layer.load_state_dict(adapter, assign=True)", store))
    arguments = tuple(tensor.cuda(str(i), OLD + 256 * i, storage=i + 1) for i in range(5))
    capture = r.capture(("aten::mm", (("y = layer(x)",),), {"tensors": arguments}))
    for i in range(5):
        slot = r.slot(
            capture,
            f"model.layers[{i}].weight",
            kind="attribute",
            role="parameter",
            type="torch.nn.parameter.Parameter",
            ptr=hex(OLD + 256 * i),
            storage=i + 1,
            reads=[("y = layer(x)",)],
        )
        r.change(slot, at=store, ptr=hex(NEW + 256 * i), refreshed=False)
    r.replays(capture)
    finding = finds(r, "CGD403", line=3, message=f"`{store}` {said} `model.layers[0].weight`, ")
    assert "and 2 more by other tensors" in finding.message
    assert remedy in finding.remedy


NESTED = """
class Graphed:
    def __call__(self, *args):
        for static, new in zip(self.args, args):
            if torch.is_tensor(static):
                static.copy_(new)
        self.graph.replay()
with torch.cuda.graph(self.graph):
    y = latent @ w + cond["text"]
"""


def test_an_element_that_was_handed_over_and_not_copied(region, finds, tensor):
    r = region(NESTED)
    capture = r.capture(("aten::add", (("y = latent",),), {"tensors": (tensor.cuda("1", OLD, storage=1),)}))
    reads = [("y = latent", "<module>", 'cond["text"]')]
    slot = r.slot(
        capture, 'self.args[1]["text"]', kind="item", ptr=hex(OLD), storage=1, reads=reads, type="torch.Tensor"
    )
    replay = r.stack(("self.graph.replay()", "Graphed.__call__"))
    r.trace.add(
        events.SlotChange, slot=slot, given='args[1]["text"]', ptr=hex(NEW), refreshed=False, replay=1, stack=replay
    )
    r.replays(capture, at="self.graph.replay()")
    finding = finds(r, "CGD402", line=4)
    assert 'The new `args[1]["text"]` is not copied into `self.args[1]["text"]`' in finding.message


def test_a_layer_that_was_wrapped(region, finds):
    text = WEIGHTS.replace("layer.load_state_dict(adapter, assign=True)", "model.proj = LoraLinear(model.proj)")
    r = region(text)
    capture = r.capture(("aten::mm", (("y = layer(x)",),)))
    slot = r.slot(capture, "model.proj", kind="attribute", role="module", type="Linear", reads=[("y = layer(x)",)])
    r.change(slot, at="model.proj = Lora", type="LoraLinear")
    r.replays(capture)
    finds(r, "CGD403", line=3, confidence="likely", message="by another module")


def test_a_version_that_moved_is_not_of_memory_that_is_gone(region, finds, tensor):
    r = rebound(region, tensor, refreshed=True, role="parameter")
    r.trace.add(events.Storage, id=1, ptr=hex(OLD), size=512, dev="cuda:0")
    r.trace.add(events.Free, id=1, ptr=hex(OLD), moved=hex(NEW), exec=1, replay=2)
    finds(r, "CGD403", line=4, confidence="likely")
