"""The exit code of every command that gates, for everything that can be wrong with a run, and for several at once."""

from __future__ import annotations

import pytest
from gate_programs import SCRIPT, SYNC, trace_of

from cudagraph_doctor.testing import TraceBuilder

CLEAN, FINDINGS, USAGE, INCOMPLETE, NOTHING, LIMIT, CRASH = 0, 1, 2, 4, 5, 6, 7


def sealed(source: str, *, captures: int = 1, **seal) -> TraceBuilder:
    made = trace_of(source, captures=captures)
    made.records.pop()
    made.seal(**seal)
    return made


@pytest.fixture
def traces(project):
    """A trace for each thing that can be wrong, by name, and for some at once."""
    made = {
        "clean": sealed(SCRIPT, returncode=0),
        "findings": sealed(SYNC, returncode=0),
        "nothing": sealed(SCRIPT, captures=0, returncode=0),
        "crash": sealed(SCRIPT, signal="SIGSEGV"),
        "limit": sealed(SCRIPT, signal="SIGTERM", timed_out=True),
        "findings+crash": sealed(SYNC, signal="SIGSEGV"),
        "findings+limit": sealed(SYNC, signal="SIGTERM", timed_out=True),
        "nothing+crash": sealed(SCRIPT, captures=0, signal="SIGSEGV"),
        "nothing+limit": sealed(SCRIPT, captures=0, signal="SIGTERM", timed_out=True),
    }
    for name, trace in made.items():
        trace.write(f"{name}.jsonl")
    for name in ("clean", "findings", "limit"):
        with open(f"{name}.jsonl", "rb") as stream:
            lines = stream.read().splitlines(keepends=True)
        with open(f"damaged+{name}.jsonl", "wb") as stream:
            stream.writelines([*lines[:4], b'{"k": "op"\n', *lines[4:]])


WRONG = [
    ("clean", CLEAN),
    ("findings", FINDINGS),
    ("nothing", NOTHING),
    ("crash", CRASH),
    ("limit", LIMIT),
    ("findings+crash", FINDINGS),
    ("findings+limit", LIMIT),
    ("nothing+crash", CRASH),
    ("nothing+limit", LIMIT),
    ("damaged+clean", INCOMPLETE),
    ("damaged+findings", INCOMPLETE),
    ("damaged+limit", LIMIT),
]


@pytest.mark.parametrize(("name", "code"), WRONG)
@pytest.mark.parametrize("form", ["table", "json", "sarif", "junit", "github", "gitlab", "markdown", "html"])
def test_check_in_every_format(traces, run, name, code, form):
    assert run("check", f"{name}.jsonl", "--format", form)[0] == code


@pytest.mark.parametrize(("name", "code"), WRONG)
def test_red_is_red_in_the_machine_read_formats(traces, run, name, code):
    _code, github = run("check", f"{name}.jsonl", "--format", "github")
    _code, junit = run("check", f"{name}.jsonl", "--format", "junit")
    _code, gitlab = run("check", f"{name}.jsonl", "--format", "gitlab")
    assert ("::error" in github) == bool(code)
    assert ("<failure" in junit or "<error" in junit) == bool(code)
    assert ('"critical"' in gitlab) == bool(code)


@pytest.mark.parametrize(("name", "code"), WRONG)
def test_baseline_write(traces, run, project, name, code):
    written = code in (CLEAN, FINDINGS)
    assert run("baseline", "write", "b.json", "--from", f"{name}.jsonl")[0] == (0 if written else code)
    assert (project / "b.json").exists() == written


@pytest.mark.parametrize(("name", "code"), WRONG)
def test_a_baseline_that_knows_everything_changes_findings_only(traces, run, name, code):
    run("baseline", "write", "b.json", "--from", "findings.jsonl")
    wanted = {"findings": CLEAN, "findings+crash": CRASH}.get(name, code)
    got = run("check", f"{name}.jsonl", "--baseline", "b.json")[0]
    if name == "findings+crash":
        assert got in (CLEAN, CRASH)  # a known finding may well explain the crash
    elif name in ("nothing", "nothing+crash"):
        assert got in (FINDINGS, wanted)
    else:
        assert got == wanted


@pytest.mark.parametrize(("name", "code"), WRONG)
def test_prune_wants_a_complete_run(traces, run, name, code):
    run("baseline", "write", "b.json", "--from", "findings.jsonl")
    assert run("baseline", "prune", "b.json", "--from", f"{name}.jsonl")[0] == (
        0 if code in (CLEAN, FINDINGS) else USAGE
    )


@pytest.mark.parametrize(("name", "code"), WRONG)
def test_diff(traces, run, name, code):
    assert run("diff", "clean.jsonl", f"{name}.jsonl")[0] == 0
    lost = code == NOTHING or "nothing" in name or "findings" in name
    assert run("diff", "clean.jsonl", f"{name}.jsonl", "--fail-on-change", "captures<1")[0] == int(lost)


def test_a_checker_that_crashes_is_incomplete_everywhere(traces, run, monkeypatch):
    def crash(self, session):
        raise RuntimeError("a bug of ours")

    from cudagraph_doctor.checkers.launch_resources import LaunchResources

    monkeypatch.setattr(LaunchResources, "check", crash)
    monkeypatch.setattr(LaunchResources, "skip", lambda self, session: None)
    for name, code in (("clean", INCOMPLETE), ("findings", INCOMPLETE), ("limit", LIMIT), ("nothing", INCOMPLETE)):
        assert run("check", f"{name}.jsonl")[0] == code
        assert run("baseline", "write", "b.json", "--from", f"{name}.jsonl")[0] == code


def test_what_cannot_be_read(project, run):
    (project / "text.jsonl").write_text("hello\n")
    assert run("check", "text.jsonl")[0] == 3
    assert run("baseline", "write", "b.json", "--from", "text.jsonl")[0] == 3
    assert run("diff", "clean.jsonl", "text.jsonl")[0] == 3
    assert run("check", "none.jsonl")[0] == 2
    assert run("baseline", "write", "b.json", "--from", "none.jsonl")[0] == 2
