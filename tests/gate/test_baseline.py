from __future__ import annotations

import json
import os

import pytest
from gate_programs import SCRIPT, SYNC, trace_of

from cudagraph_doctor.gate.baseline import read

BASE = "base.json"


@pytest.fixture
def known(run):
    """A baseline that knows the `.item()`."""
    code, said = run("baseline", "write", BASE, "--from", "broken.jsonl")
    assert code == 0, said
    return BASE


def test_what_is_known_is_green_and_what_is_new_red(run, known):
    assert run("check", "broken.jsonl")[0] == 1
    code, said = run("check", "broken.jsonl", "--baseline", known)
    assert code == 0
    assert "known or suppressed" in said


def test_moved_lines_and_renamed_temporaries_are_known(project, run, known):
    assert run("check", "moved.jsonl", "--baseline", known)[0] == 0
    renamed = SYNC.replace("n = y.sum().item()", "total = y.sum().item()").replace("return n", "return total")
    trace_of(renamed).write("renamed.jsonl")
    assert run("check", "renamed.jsonl", "--baseline", known)[0] == 0


def test_another_folder_is_known(project, run, known, monkeypatch):
    """Paths count from the configuration's folder, wherever the tool is started."""
    (project / "cudagraph-doctor.toml").write_text("")
    (project / "pkg").mkdir()
    made = trace_of(SYNC)
    made.write("pkg/t.jsonl")
    monkeypatch.chdir(project / "pkg")
    assert run("baseline", "write", "here.json", "--from", "t.jsonl")[0] == 0
    assert read("here.json").findings[0].path == "pkg/script.py"
    assert run("check", "t.jsonl", "--baseline", "here.json")[0] == 0


def test_one_more_of_the_same_is_new_and_the_new_one_is_told(project, run, known):
    two = SYNC.replace("        y = x @ w\n", "        y = x @ w\n        m = y.max().item()\n")
    made = trace_of(two)
    made.write("two.jsonl")
    from msgspec import structs

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.gate import baseline
    from cudagraph_doctor.gate.fingerprints import fingerprinted
    from cudagraph_doctor.report import Roots
    from cudagraph_doctor.testing import diagnose_trace

    report = structs.replace(diagnose_trace("broken.jsonl"), roots=Roots(os.getcwd(), os.getcwd()))
    (old,) = [f for f in report.findings if f.rule.id == "CGD101"]
    new = structs.replace(
        old, location=Location("script.py", 7, function=old.location.function, code="m = y.max().item()")
    )
    both = fingerprinted(structs.replace(report, findings=(new, old)), os.getcwd())
    told = baseline.apply(both, read(known), known)
    assert [(f.location.line, f.state) for f in told.findings] == [(7, "new"), (8, "known")]


def test_what_is_no_longer_there_is_told_and_pruned(project, run, known):
    _code, said = run("check", "clean.jsonl", "--baseline", known)
    assert "known finding was not seen again" in said
    assert run("baseline", "prune", known, "--from", "clean.jsonl") == (
        0,
        f"{known}: 1 taken out, 0 known findings left\n",
    )
    assert run("check", "broken.jsonl", "--baseline", known)[0] == 1


def test_pruning_without_a_trace_takes_out_files_that_are_gone(project, run, known):
    (project / "script.py").write_text(SYNC)
    assert run("baseline", "prune", known)[1].startswith(f"{known}: 0 taken out")
    (project / "script.py").unlink()
    assert run("baseline", "prune", known)[1].startswith(f"{known}: 1 taken out")


def test_show(run, known):
    code, said = run("baseline", "show", known)
    assert code == 0
    assert "1 × CGD101  script.py" in said
    assert "n = y.sum().item()" in said
    assert "1 captures" in said


def test_it_is_the_same_file_every_time(run, known):
    with open(known, encoding="utf-8") as stream:
        first = stream.read()
    run("baseline", "write", "again.json", "--from", "broken.jsonl")
    with open("again.json", encoding="utf-8") as stream:
        assert stream.read() == first
    assert '"line"' not in first.partition('"graphs"')[0]


def test_a_capture_that_disappears_is_red(project, run):
    run("baseline", "write", BASE, "--from", "three.jsonl")
    assert run("check", "three.jsonl", "--baseline", BASE)[0] == 0
    code, said = run("check", "clean.jsonl", "--baseline", BASE)
    assert code == 1
    assert said.count("a capture of the baseline is gone") == 2


def test_a_capture_that_fails_now_is_red_even_if_its_finding_is_known(project, run):
    run("baseline", "write", BASE, "--from", "clean.jsonl")
    with open(BASE, encoding="utf-8") as stream:
        data = json.load(stream)
    run("baseline", "write", "broken.json", "--from", "broken.jsonl")
    with open("broken.json", encoding="utf-8") as stream:
        data["findings"] = json.load(stream)["findings"]
    with open(BASE, "w", encoding="utf-8") as stream:
        json.dump(data, stream)
    code, said = run("check", "broken.jsonl", "--baseline", BASE)
    assert code == 1
    assert "a capture that completed in the baseline is failed now" in " ".join(said.split())


def test_nothing_is_written_from_a_run_that_shows_too_little(project, run):
    made = trace_of(SCRIPT, captures=0)
    made.write("empty.jsonl")
    code, said = run("baseline", "write", BASE, "--from", "empty.jsonl")
    assert code == 5
    assert "no baseline written" in said
    assert not os.path.exists(BASE)
    with open("clean.jsonl", "rb") as stream:
        lines = stream.read().splitlines(keepends=True)
    with open("damaged.jsonl", "wb") as stream:
        stream.writelines([*lines[:3], b"{broken\n", *lines[4:]])
    assert run("baseline", "write", BASE, "--from", "damaged.jsonl")[0] == 4
    assert not os.path.exists(BASE)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: "{}",
        lambda text: "[]",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"version": [1, 0]', '"version": [2, 0]'),
        lambda text: text.replace('"version": [1, 0]', '"version": "1"'),
        lambda text: text.replace("CGD101", "CGD102"),
        lambda text: text.replace('"count": 1', '"count": 0', 1),
        lambda text: text.replace('"count": 1', '"count": -1', 1),
        lambda text: text.replace('"count": 1', '"count": "1"', 1),
        lambda text: text.replace('"findings"', '"findngs"'),
        lambda text: text.replace("{", "[" * 100_000, 1),
        lambda text: text.replace("script.py", "\udcff.py").encode("utf-8", "surrogateescape"),
        lambda text: "<<<<<<< HEAD\n" + text,
    ],
)
def test_a_damaged_baseline_is_an_error_and_never_green(project, run, known, change):
    with open(known, encoding="utf-8") as stream:
        changed = change(stream.read())
    with open(known, "wb") as stream:
        stream.write(changed if isinstance(changed, bytes) else changed.encode())
    code, said = run("check", "broken.jsonl", "--baseline", known)
    assert code == 2
    assert known in said
    assert len(said.splitlines()) == 1


def test_unknown_fields_of_a_later_minor_version_are_ignored(run, known):
    with open(known, encoding="utf-8") as stream:
        data = json.load(stream)
    data |= {"version": [1, 7], "more": 1}
    data["findings"][0]["more"] = []
    with open(known, "w", encoding="utf-8") as stream:
        json.dump(data, stream)
    assert run("check", "broken.jsonl", "--baseline", known)[0] == 0


def test_where_it_cannot_be_written(project, run):
    (project / "folder").mkdir()
    for path in ("folder", "no/such/folder/base.json", "/dev/full"):
        code, said = run("baseline", "write", path, "--from", "clean.jsonl")
        assert code == 2
        assert "cannot write the baseline" in said
    assert sorted(os.listdir(project / "folder")) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["baseline", "write"], "name the file"),
        (["baseline", "write", "x.json"], "nothing to run"),
        (["baseline", "write", "x.json", "--from", "clean.jsonl", "s.py"], "exclude each other"),
        (["baseline", "write", "x.json", "--repeat", "2", "s.py"], "one run"),
        (["baseline", "show", "none.json"], "none.json"),
        (["check", "clean.jsonl", "--fail-on-change", "nodes>5%"], "needs a baseline"),
        (["check", "clean.jsonl", "--fail-on-change", "captures<50%"], "needs a baseline"),
        (["check", "clean.jsonl", "--baseline", "clean.jsonl"], "is damaged"),
        (["check", "clean.jsonl", "--report", "sarif"], "FORMAT=FILE"),
        (["check", "clean.jsonl", "--report", "sarfi=x"], "did you mean sarif?"),
        (["check", "clean.jsonl", "--report", "json=x", "--report", "sarif=x"], "two reports"),
        (["check", "clean.jsonl", "--report", "json=/no/x"], "the folder does not exist"),
    ],
)
def test_mistakes_get_one_line(project, run, arguments, said):
    code, shown = run(*arguments)
    assert code == 2
    assert said.lower() in shown.lower()
    assert len(shown.splitlines()) == 1


def test_a_configured_baseline_is_read_from_the_configurations_folder_and_may_be_written_first(
    project, run, monkeypatch
):
    (project / "sub").mkdir()
    (project / "cudagraph-doctor.toml").write_text('baseline = "base.json"\nfail-on-change = ["nodes>5%"]\n')
    code, said = run("check", "broken.jsonl")
    assert code == 2
    assert "cannot read the baseline" in said
    monkeypatch.chdir(project / "sub")
    assert run("baseline", "write", "../base.json", "--from", "../broken.jsonl")[0] == 0
    assert run("check", "../broken.jsonl")[0] == 0
    assert run("baseline", "prune", "../base.json")[0] == 0
    code, said = run("baseline", "write", "x.json", "--from", "../broken.jsonl", "--baseline", "../base.json")
    assert (code, "leave --baseline" in said.lower()) == (2, True)


def test_conditions_without_a_baseline(run):
    assert run("check", "three.jsonl", "--fail-on-change", "captures<3,escapes>0")[0] == 0
    code, said = run("check", "three.jsonl", "--fail-on-change", "captures<4")
    assert code == 1
    assert "captures<4: 3 captures completed" in said
