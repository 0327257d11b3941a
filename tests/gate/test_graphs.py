from __future__ import annotations

import json

import pytest
from gate_programs import SCRIPT, trace_of
from msgspec import structs

from cudagraph_doctor.engine.registry import load_all
from cudagraph_doctor.engine.run import read_sessions, report_on
from cudagraph_doctor.gate.graph_diff import diff
from cudagraph_doctor.gate.graph_facts import GraphFacts, NodeGroup, RunGraphs, graphs_of
from cudagraph_doctor.gate.match import match
from cudagraph_doctor.testing import TraceBuilder


def group(name="gemm", count=1, *, kind="kernel", path="a.py", function="f", line=3) -> NodeGroup:
    return NodeGroup(kind, name, path, function, line, count)


def facts(*groups: NodeGroup, **changes) -> GraphFacts:
    given = {"path": "a.py", "function": "f", "line": 2, "status": "completed", "nodes": sum(g.count for g in groups),
             "shape": "".join(g.kind[0] * g.count for g in groups)}  # fmt: skip
    return GraphFacts(**{**given, **changes}, groups=groups)


def one(before: GraphFacts, after: GraphFacts):
    (pair,) = diff(RunGraphs((before,)), RunGraphs((after,))).captures
    return pair


def graphs(path: str) -> RunGraphs:
    sessions, _limits = read_sessions([path])
    return graphs_of(sessions, report_on(sessions, load_all()), "")


# ── facts ────────────────────────────────────────────────────────────────────────────────────


def test_operators_stand_in_where_no_cuda_call_was_seen(project):
    (found,) = graphs("clean.jsonl").captures
    assert [(g.kind, g.name, g.line, g.count) for g in found.groups] == [
        ("operator", "aten::mm", 7, 1),
        ("operator", "aten::sum", 8, 1),
    ]
    assert (found.line, found.status, found.nodes) == (6, "completed", 2)


def test_captures_of_one_line_are_numbered(project):
    assert [found.ordinal for found in graphs("three.jsonl").captures] == [0, 1, 2]


@pytest.mark.parametrize("name", ["driver/ok_bucketed_shared_pool", "driver/ok_fork_join", "python/ok_static_buffers"])
def test_recorded_runs_equal_themselves_and_hold_no_address(name):
    from pathlib import Path

    path = Path(__file__).parents[2] / "fixtures" / "traces" / f"{name}.jsonl.gz"
    found = graphs(str(path))
    assert all(capture.groups for capture in found.captures)
    assert not diff(found, found).changed
    assert "0x7" not in repr(found)


def test_driver_calls_name_kernels(project):
    from pathlib import Path

    path = Path(__file__).parents[2] / "fixtures" / "traces" / "driver" / "ok_bucketed_shared_pool.jsonl.gz"
    kinds = {group.kind for capture in graphs(str(path)).captures for group in capture.groups}
    assert "kernel" in kinds
    assert "operator" not in kinds


# ── which is which ───────────────────────────────────────────────────────────────────────────


def test_a_moved_a_renamed_and_a_carried_off_function_are_recognised():
    before = (facts(group()), facts(group("softmax"), function="g"), facts(group("norm"), path="b.py"))
    after = (
        structs.replace(before[0], line=40),
        structs.replace(before[1], function="g_new"),
        structs.replace(before[2], path="c.py"),
    )
    matched = match(before, tuple(reversed(after)))
    assert [(a.line, b.function, b.path) for a, b in matched.pairs] == [
        (2, "f", "a.py"),
        (2, "g_new", "a.py"),
        (2, "f", "c.py"),
    ]
    assert (matched.gone, matched.new) == ((), ())


def test_a_capture_fewer_is_gone_and_one_more_new():
    captures = tuple(structs.replace(facts(group()), ordinal=n) for n in range(3))
    matched = match(captures, captures[:2])
    assert (len(matched.pairs), matched.gone) == (2, (captures[2],))
    matched = match(captures[:1], captures)
    assert matched.new == captures[1:]


def test_keys_and_ranks_are_not_mixed():
    before = facts(group(), key="batch=1")
    assert match((before,), (facts(group("x"), key="batch=2"),)).pairs == ()
    assert match((facts(group(), rank=0),), (facts(group("x"), rank=1),)).pairs == ()


# ── what differs ─────────────────────────────────────────────────────────────────────────────


def test_lines_do_not_count():
    pair = one(facts(group()), structs.replace(facts(group(line=30)), line=29))
    assert not pair.changed


def test_added_removed_changed():
    before = facts(group("gemm", 2), group("softmax", line=4), group("norm", line=5, function="h"))
    after = facts(group("gemm", 3), group("fast_softmax", line=4), group("copy", kind="memcpy", line=6, function="k"))
    told = [(c.kind, c.before and c.before.name, c.after and c.after.name) for c in one(before, after).nodes]
    assert told == [
        ("changed", "gemm", "gemm"),
        ("changed", "softmax", "fast_softmax"),
        ("removed", "norm", None),
        ("added", None, "copy"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "update", "why"),
    [
        (facts(group("a")), facts(group("b")), "likely", "same nodes in the same order"),
        (facts(group("a")), facts(group("a", 2)), "no", "number of nodes differs: 1 and 2"),
        (
            facts(group("a"), group("m", kind="memcpy")),
            facts(group("m", kind="memcpy"), group("a")),
            "no",
            "types of the nodes",
        ),
        (facts(group("a"), topology="x"), facts(group("b"), topology="x"), "yes", "same topology"),
        (
            facts(group("a"), topology="x"),
            facts(group("b"), topology="y"),
            "no",
            "dependencies between the nodes differ",
        ),
        (facts(group("a"), edges=1), facts(group("a"), edges=2), "no", "number of edges"),
        (facts(group("a", kind="alloc")), facts(group("a", kind="alloc")), "no", "allocation"),
        (facts(group("a")), facts(group("a"), status="failed"), "no", "did not complete"),
        (facts(group("a", kind="operator")), facts(group("a", kind="operator")), "unknown", "only torch's operators"),
    ],
)
def test_what_an_update_would_accept(before, after, update, why):
    pair = one(before, after)
    assert pair.update == update
    assert why in pair.why


def test_unknown_is_no_change():
    assert not one(facts(group(), pool=None), facts(group(), pool=5)).changed


# ── the command ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def more(project):
    made = TraceBuilder(source=SCRIPT)
    with made.capture(line=6) as capture:
        capture.op("aten::mm", line=7)
        capture.op("aten::relu", line=8)
        capture.op("aten::relu", line=8)
    capture.end(line=6)
    made.seal(returncode=0)
    made.write("more.jsonl")


def test_two_traces(run, more):
    code, said = run("diff", "clean.jsonl", "more.jsonl")
    assert code == 0
    assert "nodes: 2 → 3" in said
    assert "1 × aten::sum (operator) at script.py:8 → 2 × aten::relu (operator) at script.py:8" in said
    assert "cudaGraphExecUpdate would refuse it: the number of nodes differs: 2 and 3" in said


def test_a_baseline_and_a_trace(run, more):
    run("baseline", "write", "base.json", "--from", "clean.jsonl")
    assert run("diff", "base.json", "clean.jsonl")[1] == "no difference: 1 captures\n"
    code, said = run("diff", "base.json", "more.jsonl", "--fail-on-change", "nodes>5%,captures<1")
    assert code == 1
    assert "not met: nodes>5%: 3, 2 before" in said
    assert run("diff", "base.json", "more.jsonl", "--fail-on-change", "nodes>1")[0] == 0


def test_json(run, more):
    code, said = run("diff", "clean.jsonl", "three.jsonl", "--format", "json")
    told = json.loads(said)
    assert (code, told["changed"], len(told["new"])) == (0, True, 2)


@pytest.mark.parametrize("pair", [("none", "clean.jsonl"), ("clean.jsonl", "none"), ("clean.jsonl", "empty")])
def test_files_that_are_not_there_or_empty(project, run, pair):
    (project / "empty").write_text("")
    code, said = run("diff", *pair)
    assert code in (2, 3)
    assert len(said.splitlines()) == 1


def test_check_against_the_graphs_of_a_baseline(run, more):
    run("baseline", "write", "base.json", "--from", "clean.jsonl")
    assert run("check", "more.jsonl", "--baseline", "base.json")[0] == 0
    code, said = run("check", "more.jsonl", "--baseline", "base.json", "--fail-on-change", "nodes>5%")
    assert code == 1
    assert "nodes>5%: 3, 2 before: script.py:6" in " ".join(said.split())


def test_a_quantity_that_is_not_recorded_is_no_pass(project, run):
    run("baseline", "write", "base.json", "--from", "clean.jsonl")
    with open("base.json", encoding="utf-8") as stream:
        data = json.load(stream)
    data["graphs"]["captures"][0]["edges"] = 7
    with open("base.json", "w", encoding="utf-8") as stream:
        json.dump(data, stream)
    code, said = run("check", "clean.jsonl", "--baseline", "base.json", "--fail-on-change", "edges>5%")
    if code == 1:
        assert "cannot be decided" in said or "edges>5%" in said
    assert code == 1


def test_the_trace_of_a_renamed_function(project, run):
    trace_of(SCRIPT.replace("decode", "decode_one")).write("renamed.jsonl")
    assert run("diff", "clean.jsonl", "renamed.jsonl")[1] == "no difference: 1 captures\n"


def walked(*edges: tuple[int, int], first: int = 1) -> str:
    """The topology of a graph of three kernels with these edges between the first, second and third node."""
    from cudagraph_doctor.gate.graph_facts import _topology
    from cudagraph_doctor.trace import events

    made = TraceBuilder(source=SCRIPT)
    for number in range(3):
        made.add(events.Node, id=first + number, graph=1, type="kernel", kernel=f"k{number}")
    for source, target in edges:
        made.add(events.Edge, graph=1, source=first + source, target=first + target)
    return _topology(made.session(), 1)


def test_a_topology_is_the_same_whatever_ids_and_order_of_records():
    assert walked((0, 1), (1, 2)) == walked((1, 2), (0, 1), first=40)
    assert walked((0, 1), (1, 2)) != walked((0, 1), (0, 2))
    assert walked() != ""
