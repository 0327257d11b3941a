from __future__ import annotations

import json

import pytest

from cudagraph_doctor.cli.main import main


def test_rules_lists_each_rule_once(capsys):
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    codes = [line.split()[0] for line in lines]
    assert codes == sorted(set(codes))
    assert any(line.split() == ["CGD101", "host-sync-in-capture", "error", "capture_status"] for line in lines)


def test_rules_as_json(capsys):
    assert main(["rules", "--format", "json"]) == 0
    rules = json.loads(capsys.readouterr().out)
    first = next(rule for rule in rules if rule["rule"] == "CGD101")
    assert first["slug"] == "host-sync-in-capture"
    assert first["checker"] == "capture_status"
    assert first["what"]


@pytest.mark.parametrize("name", ["CGD101", "cgd101", "host-sync-in-capture"])
def test_explain_by_code_or_name(name, capsys):
    assert main(["explain", name]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("CGD101 host-sync-in-capture  (error)\n")
    for heading in ("What it detects", "Why it breaks", "Bad", "Good", "Evidence needed"):
        assert f"\n{heading}\n" in shown


def test_explain_a_checker_explains_all_its_rules(capsys):
    assert main(["explain", "capture_status"]) == 0
    shown = capsys.readouterr().out
    assert "CGD101 host-sync-in-capture" in shown
    assert "CGD118 not-capturable-state" in shown


def test_explain_fits_a_pipe_and_leaves_code_as_it_is(capsys):
    from cudagraph_doctor.engine.registry import load_all

    rules = [rule for checker in load_all() for rule in checker.rules]
    assert main(["explain", *(rule.id for rule in rules)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith("    ")] == []
    code = [line for rule in rules for block in rule.text.split("```")[1::2] for line in block.splitlines()[1:]]
    assert {f"    {line}" for line in code} <= set(lines)


def test_a_list_keeps_its_items_and_hangs_their_lines():
    from cudagraph_doctor.cli.rule_text import terminal_text
    from cudagraph_doctor.findings import Rule, Severity

    rule = Rule("TST1", "one", Severity.ERROR, "What.", "Text:\n- alpha beta gamma\n  delta epsilon\n- zeta\n\nEnd.")
    body = terminal_text(rule, {}, 20).splitlines()[3:]
    assert body == ["Text:", "- alpha beta gamma", "  delta epsilon", "- zeta", "", "End."]


def test_explain_an_unknown_rule(capsys):
    assert main(["explain", "CGD1O1"]) == 2
    assert "CGD101" in capsys.readouterr().err
