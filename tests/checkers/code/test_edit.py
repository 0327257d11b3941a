"""Changed code parses, keeps what it does not change, and is left out where it cannot be right."""

import ast

import pytest

from cudagraph_doctor.checkers.code import edit
from cudagraph_doctor.checkers.code.text import parsed
from cudagraph_doctor.findings import Location

PLACE = Location(file="script.py", line=1, source=1)


def applied(text, fix):
    lines = text.split("\n")
    lines[fix.start - 1 : fix.end] = fix.replacement.split("\n")
    return "\n".join(lines)


def test_expression_is_replaced_where_it_stands():
    text = "α = f(x.item(), y)  # keep\n"
    source = parsed(text)
    node = next(n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and n.func.__class__ is ast.Attribute)
    fix = edit.replace_nodes(source, PLACE, source.statement_at(1), {node: "x"})
    assert applied(text, fix) == "α = f(x, y)  # keep\n"


def test_statement_keeps_its_indentation():
    text = "def f():\n    if a:\n        g(x)\n    return 1\n"
    source = parsed(text)
    fix = edit.replace_statement(source, PLACE, source.statement_at(2), "b = a\nc = b")
    assert applied(text, fix) == "def f():\n    b = a\n    c = b\n    return 1\n"


def test_guard_indents_every_line():
    text = "for x in y:\n    log(\n        x,\n    )\n"
    source = parsed(text)
    fix = edit.guarded(source, PLACE, source.statement_at(2), "y")
    assert applied(text, fix) == "for x in y:\n    if y:\n        log(\n            x,\n        )\n"


def test_statement_that_shares_its_line_is_not_replaced_as_a_whole():
    source = parsed("y = m(x); e.synchronize()\n")
    statement = source.tree.body[1]
    assert edit.replace_statement(source, PLACE, statement, "pass") is None
    assert edit.guarded(source, PLACE, statement, "ready") is None


@pytest.mark.parametrize("new", ["y = (", "x = 1"])
def test_what_does_not_parse_or_changes_nothing_is_not_offered(new):
    source = parsed("x = 1\n")
    assert edit.replace_lines(source, PLACE, 1, 1, [new]) is None


def test_too_long_a_change_is_not_offered():
    source = parsed("\n".join(f"x{n} = {n}" for n in range(100)))
    assert edit.replace_lines(source, PLACE, 1, 90, ["y = 1"]) is None


def test_what_would_use_a_name_without_a_value_is_not_offered():
    source = parsed("x = f()\n")
    assert edit.replace_lines(source, PLACE, 1, 1, ["x = g()"]) is None
    assert edit.replace_lines(source, PLACE, 1, 1, ["y = f()", "x = y"]) is not None


def test_comment_stands_on_short_lines_of_its_own():
    source = parsed("def f():\n    x = g(1)\n")
    call = next(n for n in ast.walk(source.tree) if isinstance(n, ast.Call))
    fix = edit.replace_nodes(source, PLACE, source.statement_at(2), {call: "g(2)"}, "word " * 30)
    *comment, line = fix.replacement.split("\n")
    assert line == "    x = g(2)"
    assert len(comment) == 3
    assert all(c.startswith("    # word") and len(c) <= 72 for c in comment)
