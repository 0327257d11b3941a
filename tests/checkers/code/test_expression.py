"""Which expression stands at a recorded position."""

import pytest

from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.code.text import header_end, parsed
from cudagraph_doctor.findings import Location


def at(script, part, expression=None, **options):
    s = script(options.pop("text", part + "\n"))
    stack = s.at(part, expression=expression)
    session = s.trace.session()
    return find_expression(session, session.location(stack), **options)


@pytest.mark.parametrize(
    ("line", "expression"),
    [
        ("if nxt.item() == EOS: pass", "nxt.item()"),
        ("rows = hidden[0][[0, 2, 3]]", "hidden[0][[0, 2, 3]]"),
        ("y = self.layers[3](x).max()", "self.layers[3](x)"),
        ("größe = α.item() + b", "α.item()"),
    ],
)
def test_columns_name_the_expression(script, line, expression):
    found = at(script, line, expression)
    assert found.text == expression
    assert found.exact


def test_attribute_of_a_method_call_means_the_call(script):
    assert at(script, "n = x.sum().item()", "x.sum().item").text == "x.sum().item()"


def test_without_columns_what_it_looks_like_decides(script):
    s = script("n = f(x).item() + g(x)\n")
    session = s.trace.session()
    place = Location(file="script.py", line=1, source=1)
    found = find_expression(session, place, lambda node: called(node) == "item")
    assert found.text == "f(x).item()"
    assert not found.exact


def test_long_expressions_are_cut_for_a_sentence_and_whole_for_code(script):
    line = "y = torch.stack([" + ", ".join(f"column_{n}" for n in range(40)) + "]).item()"
    found = at(script, line, line.removeprefix("y = "))
    assert len(found.text) <= 72
    assert found.full(found.node).endswith("column_39]).item()")


@pytest.mark.parametrize("text", ["", "def broken(:\n", "x = 1"])
def test_missing_or_unreadable_text_gives_no_expression(script, text):
    s = script(text)
    session = s.trace.session()
    found = find_expression(session, Location(file="script.py", line=7, source=1), lambda node: True)
    assert found.node is None
    assert found.text == ""


def test_only_the_header_of_a_compound_statement_counts():
    source = parsed("with graph(g,\n           stream=s):\n    y = f(x)\n    if y.any():\n        z = 1\n")
    outer = source.statement_at(2)
    assert header_end(outer) == 2
    assert [type(source.statement_at(line)).__name__ for line in (1, 3, 4, 5)] == ["With", "Assign", "If", "Assign"]
    names = [called(node) for node in source.expressions(outer) if called(node)]
    assert names == ["graph"]


@pytest.mark.parametrize(
    "line", ["while (y > 5).any(): y = y / 2", "if (y > 5).any(): y = 1", "assert (y > 5).any(), y"]
)
def test_position_of_a_whole_statement_means_its_test(script, line):
    found = at(script, line)
    assert found.text == "(y > 5).any()"
    assert type(found.statement).__name__ in {"While", "If", "Assert"}
