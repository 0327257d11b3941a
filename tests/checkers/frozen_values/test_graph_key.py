"""The key by which a program chooses among its graphs."""

from cudagraph_doctor.cli.key_text import key_text

BUCKETS = """
def forward(n):
    print(n)
    return x[:n] * engine.scale
for n in (4, 2):
    with torch.cuda.graph(g):
        y = forward(n)
engine.scale = 3.0
n = 3
g.replay()
"""


def buckets(region, *, scale="2.0", now=None, step=None):
    r = region(BUCKETS)
    call = ("y = forward(n)", "<module>", "forward(n)")
    for size in ("4", "2"):
        capture = r.capture(
            ("aten::slice", (("return x", "forward", "x[:n]"), call), {"kind": "view", "values": (("3", size),)}),
            ("aten::mul.Tensor", (("return x", "forward", "x[:n] * engine.scale"), call), {"values": (("1", scale),)}),
        )
        slot = r.slot(capture, "n", size, reads=[("y = forward(n)", "<module>", "n")])
        if now is not None and size == "4":
            r.change(slot, now, replay=5)
        scaled = r.slot(
            capture, "engine.scale", scale, kind="attribute", reads=[("return x", "forward", "engine.scale")]
        )
        if step is not None:
            r.change(scaled, step, replay=2, at="engine.scale = 3.0")
        r.replays(capture)
    return r.trace.session()


def test_what_differs_and_what_depends_on_it(region):
    text, complete = key_text([buckets(region)])
    assert complete
    assert text.split("\n") == [
        "script.py:5: 2 graphs captured",
        "  belongs to the key: differs among the graphs, and captured work depends on it",
        "    n = 4, 2   sizes depend on it at script.py:3",
        "  complete, as far as this run shows",
    ]


def test_a_value_that_is_missing_from_the_key(region):
    text, complete = key_text([buckets(region, step="3.0")])
    assert not complete
    assert "    engine.scale = 2.0, is 3.0 by replay 2   it is an argument of captured work" in text


def test_a_replay_of_a_graph_that_was_made_for_another_value(region):
    text, complete = key_text([buckets(region, now="2")])
    assert not complete
    assert "    graph 1 (n = 4), its replay 5: n is 2; graph 2 was captured for that" in text
    padded, complete = key_text([buckets(region, now="3")])
    assert complete  # 3 rows padded to 4: there is no graph of 3
    assert "n is 3; no graph is" in padded


def test_without_the_region_watch_nothing_is_claimed(script):
    s = script("with torch.cuda.graph(g):\n    y = x\n")
    with s.trace.capture(line=1) as capture:
        capture.end(nodes=1)
    text, complete = key_text([s.trace.session()])
    assert text.endswith("not checked: needs region")
    assert complete
