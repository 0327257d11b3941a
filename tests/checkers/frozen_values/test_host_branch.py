"""CGD602: tests of the host that would go another way now."""

import pytest
from msgspec import structs

PENALTY = """
def sample():
    scores = logits
    if options["penalty"]:
        scores = scores - 100.0 * seen
    return scores.argmax(-1)
with torch.cuda.graph(g):
    token = sample()
options["penalty"] = True
g.replay()
"""
ITEM = 'options["penalty"]'


def penalty(region, text=PENALTY, before="False", after="True"):
    r = region(text)
    frames = (("scores.argmax(-1)", "sample"), ("token = sample()", "<module>", "sample()"))
    capture = r.capture(("aten::argmax", frames))
    slot = r.slot(capture, ITEM, before, kind="item", reads=[("if options", "sample", ITEM)])
    r.change(slot, after, at='options["penalty"] = True')
    r.replays(capture)
    return r


def test_a_branch_that_was_not_taken_and_whose_result_is_used(region, finds):
    finding = finds(penalty(region), "CGD602", line=3, confidence="likely")
    assert finding.message == (
        '`options["penalty"]` was `False` when this `if` was captured and is `True` by replay 1: every replay runs what '
        "`False` chose and never `scores = scores - 100.0 * seen`."
    )
    assert [p.line for p in finding.related] == [8, 6]


def test_a_branch_that_only_tells_is_a_note(region, found):
    text = PENALTY.replace("scores = scores - 100.0 * seen", 'log.info("penalty")')
    assert [f.level.value for f in found(penalty(region, text))] == ["note"]


@pytest.mark.parametrize(
    ("test", "before", "after", "rules"),
    [
        ('if options["penalty"] > 0:', "3", "4", []),
        ('if options["penalty"] > 3:', "3", "4", ["CGD602"]),
        ('if options["penalty"] is not None:', "None", "0.5", ["CGD602"]),
        ("if options[\"penalty\"] == 'greedy':", "'top-k'", "'greedy'", ["CGD602"]),
        ("if options[\"penalty\"] == 'greedy':", "'top-k'", "'top-p'", []),
    ],
)
def test_only_a_test_that_changes_its_result_counts(region, found, test, before, after, rules):
    text = PENALTY.replace('if options["penalty"]:', test)
    assert [f.rule.id for f in found(penalty(region, text, before, after))] == rules


EARLY = """
def block(x):
    if skip:
        return x
    return x @ w
with torch.cuda.graph(g):
    y = block(x)
skip = True
g.replay()
"""


def test_an_early_return_decides_what_is_behind_it(region, finds):
    r = region(EARLY)
    capture = r.capture(("aten::mm", (("return x @ w", "block", "x @ w"), ("y = block(x)", "<module>", "block(x)"))))
    slot = r.slot(capture, "skip", "False", reads=[("if skip", "block", "skip")])
    r.change(slot, "True", at="skip = True")
    r.replays(capture)
    finds(r, "CGD602", line=2)


CHECK = """
def block(x):
    if length > limit:
        raise ValueError(length)
    return x @ w
with torch.cuda.graph(g):
    y = block(x)
length = 9
g.replay()
"""


def test_a_check_of_a_number_is_quiet(region, quiet):
    r = region(CHECK)
    capture = r.capture(("aten::mm", (("return x @ w", "block", "x @ w"), ("y = block(x)", "<module>", "block(x)"))))
    slot = r.slot(capture, "length", "3", reads=[("if length", "block", "length")])
    r.change(slot, "9", at="length = 9")
    r.replays(capture)
    quiet(r)


CHOICE = """
with torch.cuda.graph(g):
    y = x * 2 if flag else x
flag = False
g.replay()
"""


def test_a_conditional_expression(region, finds):
    r = region(CHOICE)
    capture = r.capture(("aten::mul", (("y = x * 2", "<module>", "x * 2"),)))
    slot = r.slot(capture, "flag", "True", reads=[("y = x * 2", "<module>", "flag")])
    r.change(slot, "False", at="flag = False")
    r.replays(capture)
    finding = finds(r, "CGD602", line=2)
    assert "`True` chose, `x * 2`; it never runs `x`" in finding.message


def training(region, chance="0.1"):
    r = region("with torch.cuda.graph(g):\n    y = model(x)\nmodel.train()\ng.replay()\n")
    dropout = r.trace.source("site:torch/nn/modules/dropout.py")
    capture = r.capture(("aten::mm", (("y = model(x)", "<module>", "model(x)"),)))
    stack = r.stack(("y = model(x)",))
    for layer in range(3):
        slot = r.slot(capture, f"model[{layer}].training", "False", kind="attribute", stack=stack)
        read = ((dropout, 70, "Dropout.forward", None, None, None),)
        r.trace.records[-1] = structs.replace(r.trace.records[-1], read=True, reads=read)
        r.change(slot, "True", at="model.train()")
        r.slot(capture, f"model[{layer}].p", chance, kind="attribute", reads=[("y = model(x)",)])
    r.replays(capture)
    return r


def test_one_call_of_train_is_one_finding(region, finds):
    finding = finds(training(region), "CGD602", line=3, confidence="likely")
    assert "2 more modules" in finding.message


def test_dropout_that_drops_nothing_has_no_mode(region, found):
    r = training(region, r"0.0")
    assert [f.level.value for f in found(r)] == ["note"]


CAPTURING = """
class Engine:
    static = False
def capture(engine):
    engine.static = True
    with torch.cuda.graph(g):
        y = engine.forward(x)
    engine.static = False
def forward(self, x):
    if self.static:
        return x @ w
    return dynamic(x)
g.replay()
"""


@pytest.mark.parametrize(
    ("text", "quiet"),
    [
        (CAPTURING, True),
        (CAPTURING.replace("    engine.static = True\n", "    pass\n"), False),
        (CAPTURING.replace("    static = False\n", "    pass\n"), False),
    ],
    ids=["set and set back", "not set for the capture", "not what it was before"],
)
def test_a_flag_that_is_set_for_the_capture_and_set_back_is_meant(region, found, text, quiet):
    r = region(text)
    capture = r.capture(("aten::mm", (("return x @ w", "forward", "x @ w"), ("y = engine.forward(x)", "capture"))))
    slot = r.slot(
        capture, "engine.static", "True", kind="attribute", reads=[("if self.static", "forward", "self.static")]
    )
    r.change(slot, "False", at="engine.static = False")
    r.replays(capture)
    assert [f.rule.id for f in found(r)] == ([] if quiet else ["CGD602"])


SWAPPED = """
def forward(x):
    return gate.activation(x)
with torch.cuda.graph(g):
    y = forward(x)
gate.activation = torch.abs
g.replay()
"""


@pytest.mark.parametrize(("kind", "rules"), [("function", ["CGD602"]), ("method", []), ("__main__.Request", [])])
def test_a_function_that_the_region_calls_is_another_one(region, found, kind, rules):
    r = region(SWAPPED)
    capture = r.capture(("aten::relu", (("return gate", "forward", "gate.activation(x)"), ("y = forward(x)",))))
    reads = [("return gate", "forward", "gate.activation")]
    slot = r.slot(capture, "gate.activation", kind="attribute", type=kind, reads=reads)
    r.change(slot, at="gate.activation = torch", type=kind)
    r.replays(capture)
    assert [f.rule.id for f in found(r)] == rules


MATCHED = """
def head(x):
    match mode:
        case "mean":
            return x.mean(1)
        case _:
            return x[:, -1]
with torch.cuda.graph(g):
    y = head(x)
mode = "last"
g.replay()
"""


def test_a_match_on_a_text(region, finds):
    r = region(MATCHED)
    capture = r.capture(("aten::mean", (("return x.mean", "head", "x.mean(1)"), ("y = head(x)",))))
    slot = r.slot(capture, "mode", "'mean'", reads=[("match mode", "head", "mode")])
    r.change(slot, "'last'", at='mode = "last"')
    r.replays(capture)
    finds(r, "CGD602", line=2, confidence="likely")


@pytest.mark.parametrize("text", ["return x + noise if training else x", "y = x + noise if training else x"])
def test_a_conditional_expression_whose_other_side_was_not_taken(region, finds, text):
    r = region(
        f"def forward(x):\n    {text}\n    return y\nwith torch.cuda.graph(g):\n    y = forward(x)\ntraining = True\ng.replay()\n"
    )
    capture = r.capture(("aten::mm", (("    y = forward(x)", "<module>", "forward(x)"),)))
    slot = r.slot(capture, "training", "False", reads=[(text, "forward", "training")])
    r.change(slot, "True", at="training = True")
    r.replays(capture)
    finds(r, "CGD602", line=2, confidence="likely")


def test_an_early_return_of_work_that_was_not_taken(region, finds):
    r = region(
        "def f(x):\n    if on:\n        return x * 0.5\n    return x\nwith torch.cuda.graph(g):\n    y = f(x)\non = True\ng.replay()\n"
    )
    capture = r.capture(("aten::add", (("with torch.cuda.graph", "<module>", "torch"),)))
    slot = r.slot(capture, "on", "False", reads=[("if on", "f", "on")])
    r.change(slot, "True", at="on = True")
    r.replays(capture)
    finds(r, "CGD602", line=2)
