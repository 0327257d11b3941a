"""CGD601: numbers of the host in the graph, and the ones that are not."""

import pytest

POSITION = """
def append():
    cache[pos] = k_new
with torch.cuda.graph(g):
    append()
for pos in range(4):
    g.replay()
"""
CALL = ("append()", "<module>", "append()")


def position(region, before="0", after="1", **change):
    r = region(POSITION)
    index = ("cache[pos] = k_new", "append", "cache[pos]")
    # with the call below the line: `append()` stands in two lines
    r.script.line = lambda part, line=r.script.line: 4 if part == "append()" else line(part)
    capture = r.capture(("aten::select.int", (index,), {"kind": "view", "values": (("1", "0"), ("2", before))}))
    slot = r.slot(capture, "pos", before, reads=[("cache[pos] = k_new", "append", "pos")])
    if after is not None:
        r.change(slot, after, replay=2, at="for pos in range", **change)
    r.replays(capture, 4)
    return r


def test_position_as_index_is_proven_by_the_recorded_argument(region, finds):
    r = position(region)
    finding = finds(r, "CGD601", line=2, confidence="proven")
    assert finding.message == (
        "`pos` was `0` when `cache[pos]` was captured and is `1` by replay 2: every replay still uses `0`."
    )
    assert "`pos_dev.fill_(pos)` before `g.replay()`" in finding.remedy
    assert next((p.line, p.note) for p in finding.related) == (5, "set to `1` here")


def test_without_a_change_it_is_quiet(region, quiet):
    quiet(position(region, after=None))


def test_equal_numbers_are_no_change(region, quiet):
    quiet(position(region, before="1", after="True"))


def test_a_guessed_store_is_called_probable(region, finds):
    finding = finds(position(region, guess=True), "CGD601")
    assert finding.related[0].note == "probably set to `1` here"


THROUGH = """
class Engine:
    def scale(self, x, factor):
        return x * factor
    def step(self, temperature):
        t = max(temperature, 0.1)
        return self.scale(self.x, 1.0 / t)
def main():
    temperature = 0.7
    with torch.cuda.graph(g):
        y = engine.step(temperature)
    temperature = AFTER
    g.replay()
"""


def through(region, after):
    r = region(THROUGH)
    frames = (
        ("return x * factor", "Engine.scale", "x * factor"),
        ("return self.scale", "Engine.step", "self.scale(self.x, 1.0 / t)"),
        ("y = engine.step", "main", "engine.step(temperature)"),
    )
    capture = r.capture(("aten::mul.Tensor", frames, {"values": (("1", "1.4285714285714286"),)}))
    slot = r.slot(capture, "temperature", "0.7", kind="local", reads=[("y = engine.step", "main", "temperature")])
    r.change(slot, after, at="temperature = AFTER")
    r.replays(capture)
    return r


def test_a_number_is_followed_into_the_functions_it_is_handed_to(region, finds):
    finding = finds(through(region, "1.0"), "CGD601", line=3)
    assert "`temperature` was `0.7` when `x * factor` was captured" in finding.message
    assert finding.related[0].note == "the captured region reads `temperature` here"
    assert finding.related[0].line == 10


LOGGED = """
def forward(step):
    logger.info("step %d", step)
    print(f"step {step}")
    stats[f"{step}"] = 1
    return x @ w
step = 0
with torch.cuda.graph(g):
    y = forward(step)
step += 1
g.replay()
"""


def test_a_counter_that_is_only_told_stays_quiet(region, quiet):
    r = region(LOGGED)
    frames = (("return x @ w", "forward", "x @ w"), ("y = forward(step)", "<module>", "forward(step)"))
    capture = r.capture(("aten::mm", frames))
    slot = r.slot(capture, "step", "0", reads=[("y = forward(step)", "<module>", "step")])
    r.change(slot, "1", at="step += 1")
    r.replays(capture)
    quiet(r)


MINIMUM = """
with torch.cuda.graph(g):
    y = x * min(size, 8)
size = AFTER
g.replay()
"""


@pytest.mark.parametrize(("after", "rules"), [("20", []), ("4", ["CGD601"])])
def test_a_change_that_does_not_reach_the_operator(region, found, after, rules):
    r = region(MINIMUM)
    capture = r.capture(("aten::mul.Tensor", (("y = x", "<module>", "x * min(size, 8)"),), {"values": (("1", "8"),)}))
    slot = r.slot(capture, "size", "12", reads=[("y = x", "<module>", "size")])
    r.change(slot, after, at="size = AFTER")
    r.replays(capture)
    assert [f.rule.id for f in found(r)] == rules


FAMILY = """
for engine.bs in (1, 2):
    with torch.cuda.graph(g):
        y = x * engine.bs
engine.bs = AFTER
g.replay()
"""


@pytest.mark.parametrize(("after", "rules"), [("2", []), ("7", ["CGD601"])])
def test_the_key_of_a_family_of_graphs_is_quiet_and_a_number_outside_of_it_is_not(region, found, after, rules):
    r = region(FAMILY)
    for value in ("1", "2"):
        capture = r.capture(
            ("aten::mul.Tensor", (("y = x", "<module>", "x * engine.bs"),), {"values": (("1", value),)})
        )
        slot = r.slot(capture, "engine.bs", value, kind="attribute", reads=[("y = x", "<module>", "engine.bs")])
        if value == "1":
            first = slot
        r.replays(capture)
    r.change(first, after, at="engine.bs = AFTER")
    assert [f.rule.id for f in found(r)] == rules


ADVANCED = """
class Cache:
    def append(self):
        self.rows[self.pos] = k
        self.pos += 1
with torch.cuda.graph(g):
    cache.append()
g.replay()
"""


@pytest.mark.parametrize(("count", "rules"), [(1, []), (4, ["CGD601"])])
def test_a_position_that_only_the_region_advances(region, found, count, rules):
    r = region(ADVANCED)
    frames = (("self.rows[self.pos]", "Cache.append", "self.rows[self.pos]"), ("cache.append()", "<module>"))
    capture = r.capture(("aten::select.int", frames, {"kind": "view", "values": (("1", "0"), ("2", "3"))}))
    r.slot(
        capture,
        "cache.pos",
        "3",
        kind="attribute",
        left="4",
        reads=[("self.rows[self.pos]", "Cache.append", "self.pos")],
        writes=[("self.pos += 1", "Cache.append", "self.pos")],
    )
    r.replays(capture, count)
    findings = found(r)
    assert [f.rule.id for f in findings] == rules
    if rules:
        assert "the region advances it in Python to `4`, which no replay does" in findings[0].message


RANDOM = """
import random
with torch.cuda.graph(g):
    y = x * random.random()
    print(random.random())
g.replay()
"""


@pytest.mark.parametrize(
    ("values", "count", "rules"), [((("1", "0.37"),), 2, ["CGD601"]), ((), 2, []), ((("1", "0.37"),), 1, [])]
)
def test_a_number_drawn_on_the_host(region, found, values, count, rules):
    r = region(RANDOM)
    capture = r.capture(("aten::mul.Tensor", (("y = x", "<module>", "x * random.random()"),), {"values": values}))
    r.replays(capture, count)
    findings = found(r)
    assert [f.rule.id for f in findings] == rules
    assert all("`random.random()` was drawn once" in f.message and f.location.line == 3 for f in findings)


STAGED = """
with torch.cuda.graph(g):
    x.copy_(staging, non_blocking=True)
    y = x * scale
staging.fill_(2.0)
g.replay()
"""


@pytest.mark.parametrize(("slot", "rules"), [("staging", []), ("scale", ["CGD601"])])
def test_host_memory_that_a_captured_copy_reads_is_not_frozen_and_a_host_operand_is(region, found, tensor, slot, rules):
    r = region(STAGED)
    copy = {"tensors": (tensor.cuda("0", written=True), tensor.cpu("1", pinned=True))}
    capture = r.capture(
        ("aten::copy_", (("x.copy_(staging", "<module>", "x.copy_(staging, non_blocking=True)"),), copy),
        ("aten::mul.Tensor", (("y = x * scale", "<module>", "x * scale"),), {"tensors": (tensor.cpu("1"),)}),
    )
    part = "x.copy_(staging" if slot == "staging" else "y = x * scale"
    number = r.slot(capture, slot, "1.0", ptr="0x9000", type="torch.Tensor", reads=[(part, "<module>", slot)])
    r.change(number, "2.0", at="staging.fill_", ptr="0x9000")
    r.replays(capture)
    assert [f.rule.id for f in found(r)] == rules
