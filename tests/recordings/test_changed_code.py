"""The changed code of every finding of every recording can be taken over as it is."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest

from cudagraph_doctor.engine.run import diagnose

TRACES = sorted((Path(__file__).parents[2] / "fixtures" / "traces" / "python").glob("*.jsonl.gz"))


def names_of(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name.partition(".")[0])
def test_changed_code_parses_and_gives_every_new_name_a_value(trace):
    report = diagnose([trace])
    for finding in report.findings:
        if finding.fix is None:
            continue
        text = report.processes[finding.process].sources[finding.fix.source]
        old = ast.parse(text)
        lines = text.split("\n")
        new = finding.fix.replacement.split("\n")
        lines[finding.fix.start - 1 : finding.fix.end] = new
        tree = ast.parse("\n".join(lines))
        last = finding.fix.start + len(new) - 1
        inside = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and finding.fix.start <= n.lineno <= last]
        loaded = {node.id for node in inside if isinstance(node.ctx, ast.Load)}
        stored = {node.id for node in inside if isinstance(node.ctx, ast.Store)}
        assert loaded - set(names_of(old)) - stored - set(dir(builtins)) == set(), finding.fix.replacement
        comments = [line for line in new if line.lstrip().startswith("#") and line not in text.split("\n")]
        assert [line for line in comments if len(line) > 72] == []
