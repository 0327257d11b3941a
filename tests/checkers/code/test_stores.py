"""The likeliest store where none was seen."""

import pytest

from cudagraph_doctor.checkers.code.stores import store_of

LOOP = """
x = batches[0]
with torch.cuda.graph(g):
    y = x @ w
print(x)
for batch in batches:
    x = batch  # here
    g.replay()
x = None
"""
METHODS = """
class Engine:
    def __init__(self):
        self.scale = 1.0
        self.capture()
    def capture(self):
        with torch.cuda.graph(g):
            y = x * self.scale
    def configure(self, other, scale):
        other.factor = 3
        self.scale = scale  # here
    def run(self):
        g.replay()
"""
SETATTR = METHODS.replace("self.scale = scale  # here", 'setattr(self, "scale", scale)  # here')
ITEMS = """
with torch.cuda.graph(g):
    y = x * options["scale"]
options["other"] = 1
options["scale"] = 2  # here
g.replay()
"""
LIST = """
with torch.cuda.graph(g):
    for layer in adapters:
        y = layer(x)
others.append(a)
adapters.append(a)  # here
g.replay()
"""
MODE = """
with torch.cuda.graph(g):
    y = model(x)
model.train()  # here
g.replay()
"""
WEIGHTS = """
with torch.cuda.graph(g):
    y = model(x)
for p in model.parameters():
    p.data = p.data + 1  # here
g.replay()
"""


@pytest.mark.parametrize(
    ("text", "path", "kind", "fields"),
    [
        (LOOP, "x", "global", {"ptr": "0x1", "type": "torch.Tensor"}),
        (METHODS, "engine.scale", "attribute", {"value": "1.0"}),
        (SETATTR, "engine.scale", "attribute", {"value": "1.0"}),
        (ITEMS, 'options["scale"]', "item", {"value": "1"}),
        (LIST, "adapters", "global", {"value": "len 1"}),
        (MODE, "model.drop.training", "attribute", {"value": "False"}),
        (WEIGHTS, "model.weight", "attribute", {"ptr": "0x1", "role": "parameter"}),
    ],
)
def test_the_likeliest_store_is_named_and_called_a_guess(region, text, path, kind, fields):
    r = region(text)
    capture = r.capture()
    slot = r.slot(capture, path, kind=kind, **fields)
    r.change(slot, "2")
    r.replays(capture)
    session = r.trace.session()
    state = session.slots[slot]
    store = store_of(session, state, state.changes[0])
    assert store.guess
    assert store.place.line == r.script.line("# here")


def test_a_store_that_was_seen_is_taken(region):
    r = region(LOOP)
    capture = r.capture()
    slot = r.slot(capture, "x", ptr="0x1")
    r.change(slot, at="x = None")
    session = r.trace.session()
    store = store_of(session, session.slots[slot], session.slots[slot].changes[0])
    assert (store.place.line, store.guess) == (r.script.line("x = None"), False)


def test_without_a_candidate_nothing_is_named(region):
    r = region(LOOP)
    capture = r.capture()
    slot = r.slot(capture, "z", ptr="0x1")
    r.change(slot)
    session = r.trace.session()
    assert store_of(session, session.slots[slot], session.slots[slot].changes[0]).place is None
