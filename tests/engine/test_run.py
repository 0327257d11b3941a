import pytest

from cudagraph_doctor.api import Checker, Confidence, Consequence, Location, Rule, Severity
from cudagraph_doctor.engine.merge import CONSEQUENCES_KEPT, arrange
from cudagraph_doctor.engine.run import NOT_SELECTED, diagnose, report_on
from cudagraph_doctor.engine.selection import Selection
from cudagraph_doctor.errors import TraceError, UsageError
from cudagraph_doctor.testing import TraceBuilder, diagnose_trace
from cudagraph_doctor.testing.assertions import load_checkers
from cudagraph_doctor.trace import events

ERROR = Rule(id="TST1", slug="one", level=Severity.ERROR, what="w", text="t")
NEEDY = Rule(id="TST2", slug="two", level=Severity.ERROR, what="w", text="t", needs=("driver",))


def finding(rule=ERROR, line=3, confidence=Confidence.PROVEN, trigger="aten::item", **rest):
    rest.setdefault("message", "m")
    rest.setdefault("process", 0)
    place = Location("a.py", line, function="step") if line else None
    return rule.finding(location=place, remedy="r", confidence=confidence, trigger=trigger, **rest)


class Yields(Checker):
    name = "yields"
    rules = (ERROR, NEEDY)
    findings = ()

    def check(self, session):
        yield from self.findings


class Fails(Yields):
    name = "fails"

    def check(self, session):
        yield finding()
        raise LookupError("of the checker\nsecond line")


class SkipsAlways(Yields):
    name = "skips"

    def skip(self, session):
        return "torch is too old"


class Foreign(Yields):
    name = "foreign"
    rules = (ERROR,)

    def check(self, session):
        yield finding(NEEDY)


def trace(**header):
    made = TraceBuilder(**header)
    with made.capture(line=1):
        pass
    made.seal()
    return made


def run(checker, made=None, selection=None):
    return report_on([(made or trace()).session()], load_checkers([checker]), selection)


# ── checkers ─────────────────────────────────────────────────────────────────────────────────


def test_a_rule_whose_evidence_is_missing_is_not_checked_and_says_why():
    (state,) = run(Yields).checkers
    assert state.state == "ran"
    assert [(r.rule, r.checked, r.reason) for r in state.rules] == [
        ("TST1", True, None),
        ("TST2", False, "needs driver evidence"),
    ]
    (state,) = run(Yields, trace(evidence="driver")).checkers
    assert all(r.checked for r in state.rules)


def test_a_checker_that_fails_is_caught_named_and_keeps_what_it_had_found():
    report = run(Fails)
    (state,) = report.checkers
    assert state.state == "failed"
    assert state.reason.startswith("LookupError: of the checker (test_run.py:")
    assert not any(r.checked for r in state.rules)
    assert len(report.findings) == 1


def test_a_checker_that_cannot_run_is_skipped_with_its_reason():
    (state,) = run(SkipsAlways).checkers
    assert (state.state, state.reason) == ("skipped", "torch is too old")
    assert [r.reason for r in state.rules] == ["torch is too old"] * 2


def test_a_finding_of_a_rule_it_does_not_declare_is_a_failure():
    (state,) = run(Foreign).checkers
    assert state.state == "failed"
    assert "TST2" in state.reason


def test_what_is_not_selected_is_neither_shown_nor_said_to_be_checked():
    class Both(Yields):
        findings = (finding(), finding(NEEDY))

    report = run(Both, trace(evidence="driver"), Selection(frozenset({"TST2"})))
    assert [f.rule.id for f in report.findings] == ["TST2"]
    assert [(r.rule, r.checked, r.reason) for r in report.checkers[0].rules] == [
        ("TST1", False, NOT_SELECTED),
        ("TST2", True, None),
    ]
    assert run(Both, selection=Selection(frozenset())).checkers[0].state == "skipped"


def test_a_process_without_a_capture_does_not_say_what_could_be_checked():
    capturing, other = trace(evidence="driver", pid=1), TraceBuilder(pid=2)
    report = report_on([capturing.session(), other.session()], load_checkers([Yields]))
    assert all(r.checked for r in report.checkers[0].rules)


# ── findings ─────────────────────────────────────────────────────────────────────────────────


def test_order_is_confidence_then_level_then_time():
    note = {"level": Severity.NOTE}
    given = [
        finding(line=1, confidence=Confidence.POSSIBLE, evidence=(1,)),
        finding(line=2, confidence=Confidence.PROVEN, evidence=(1,), **note),
        finding(line=3, confidence=Confidence.PROVEN, evidence=(90,)),
        finding(line=4, confidence=Confidence.PROVEN, evidence=(40, 200)),
        finding(line=5, confidence=Confidence.LIKELY, evidence=(1,)),
    ]
    assert [f.location.line for f in arrange(given)] == [4, 3, 2, 5, 1]


def test_the_same_rule_line_and_trigger_is_one_finding_with_a_count():
    given = [finding(evidence=(9,)), finding(evidence=(5,)), finding(evidence=(7,), process=1)]
    (merged,) = arrange(given)
    assert merged.count == 3
    assert merged.evidence == (5,)


@pytest.mark.parametrize(
    "other", [{"line": 4}, {"trigger": "aten::cpu"}, {"rule": NEEDY}, {"level": Severity.NOTE}, {"line": None}]
)
def test_anything_else_is_another_finding(other):
    assert len(arrange([finding(), finding(**other)])) == 2


def test_findings_without_a_line_are_the_same_only_in_the_same_words():
    given = [finding(line=None), finding(line=None), finding(line=None, message="other")]
    assert [f.count for f in arrange(given)] == [2, 1]


def test_merging_keeps_each_consequence_once_and_not_without_end():
    echo = Consequence("y = h @ w", 901)
    many = tuple(Consequence(f"line {n}", 901) for n in range(50))
    (merged,) = arrange([finding(consequences=(echo,)), finding(consequences=(echo, *many))])
    assert merged.consequences[:2] == (echo, many[0])
    assert len(merged.consequences) == CONSEQUENCES_KEPT


def test_the_fingerprint_survives_line_shifts_and_tells_function_path_rule_and_trigger_apart():
    def fingerprint(one):
        return arrange([one])[0].fingerprint

    base = fingerprint(finding(line=3))
    assert base == fingerprint(finding(line=30, evidence=(7,), message="other words", process=4))
    place = Location("b.py", 3, function="step")
    others = [
        finding(NEEDY),
        finding(trigger="aten::cpu"),
        finding(line=None),
        ERROR.finding("m", location=place, remedy="r", confidence=Confidence.PROVEN, process=0, trigger="aten::item"),
    ]
    assert len({base, *map(fingerprint, others)}) == 5


# ── limits ───────────────────────────────────────────────────────────────────────────────────


def limits(made):
    return {limit.what: limit for limit in run(Yields, made).limits}


def test_what_could_not_be_seen_is_told_with_its_reason():
    made = trace()
    made.capability("gc", "unavailable", "this Python has no callbacks")
    made.capability("exceptions", "off")
    made.add(events.ProbeError, hook="ops", error="ValueError: x", count=3, removed=True)
    made.add(events.ProbeError, hook="ops", error="ValueError: x", count=2)
    made.add(events.Process, child=99, how="spawn", followed=False, why="not Python")
    made.add(events.Lost, count=3, why="disk full")
    made.add(events.Lost, count=2, why="disk full")
    made.add(events.Limit, what="NCCL", reason="not simulated", stack=made.stack(7), fatal=True)
    found = limits(made)
    assert set(found) == {
        "gc: unavailable",
        "hook ops took itself out",
        "child process 99 was not followed",
        "5 records were lost",
        "NCCL",
    }
    assert found["NCCL"].location.line == 7
    assert {what for what, limit in found.items() if limit.incomplete} == {"5 records were lost", "NCCL"}


@pytest.mark.parametrize(
    "why", ["covered by the simulated device; more", "not beside the device, which records its calls itself"]
)
def test_what_something_stronger_sees_is_no_gap(why):
    made = trace()
    made.capability("streams", "off", why)
    assert limits(made) == {}


def test_what_processes_share_is_said_once(tmp_path):
    for pid in (11, 12, 13):
        made = trace(pid=pid)
        made.capability("gc", "unavailable", "this Python has no callbacks")
        if pid == 12:
            made.add(events.Lost, count=2, why="disk full")
        for child in range(4):
            made.add(events.Process, child=100 * pid + child, how="spawn", followed=False, why="not Python")
        made.write(tmp_path / f"{pid}.jsonl")
    found = diagnose_trace(tmp_path, checkers=[Yields]).limits
    assert [(limit.what, limit.reason) for limit in found] == [
        ("3 processes: gc: unavailable", "this Python has no callbacks"),
        ("process 12: 2 records were lost", "disk full"),
        ("12 child processes were not followed", "not Python"),
    ]


def test_damage_makes_the_diagnosis_incomplete_but_not_a_line_torn_by_death(tmp_path):
    made = trace()
    lines = made.encode().splitlines(keepends=True)
    (tmp_path / "t.jsonl").write_bytes(b"".join([*lines[:5], b"torn\n", *lines[5:]]))
    (limit,) = diagnose_trace(tmp_path / "t.jsonl", checkers=[Yields]).limits
    assert limit.what == "1 damaged line skipped in t.jsonl"
    assert limit.incomplete

    killed = TraceBuilder()
    start = killed.encode()
    killed.seal(signal="SIGKILL", torn=True)
    (tmp_path / "t.jsonl").write_bytes(start + b'{"k":"o\n' + killed.encode()[len(start) :])
    (limit,) = diagnose_trace(tmp_path / "t.jsonl", checkers=[Yields]).limits
    assert limit.what == "the last record is torn"
    assert not limit.incomplete


# ── files and processes ──────────────────────────────────────────────────────────────────────


def test_an_unreadable_trace_beside_a_good_one_is_a_limit_alone_it_is_an_error(tmp_path):
    trace().write(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_bytes(
        b'{"k":"header","q":1,"t":1,"format":"cudagraph-doctor-trace","version":[9,0]}\n'
    )
    report = diagnose_trace(tmp_path, checkers=[Yields])
    assert [(x.incomplete, "format 9" in x.what) for x in report.limits] == [(True, True)]
    with pytest.raises(TraceError, match="format 9"):
        diagnose_trace(tmp_path / "b.jsonl", checkers=[Yields])
    with pytest.raises(UsageError, match="no such file"):
        diagnose([tmp_path / "c.jsonl"])


def test_the_root_process_gives_the_end_and_the_arguments(tmp_path):
    child = TraceBuilder(pid=2, ppid=1, wall=5, argv=("worker.py",), how="child", parent="n-1.jsonl")
    child.seal(signal="SIGSEGV")
    root = TraceBuilder(pid=1, ppid=0, wall=9, argv=("main.py",))
    root.seal(3)
    child.write(tmp_path / "m-2.jsonl")
    root.write(tmp_path / "n-1.jsonl")
    report = diagnose_trace(tmp_path, checkers=[Yields])
    assert report.argv == ("main.py",)
    assert report.exit.returncode == 3
    assert [(p.pid, p.parent) for p in report.processes] == [(2, 1), (1, None)]


def test_only_the_sources_that_are_shown_come_with_the_report():
    class Points(Yields):
        def check(self, session):
            yield ERROR.finding(
                "m",
                location=session.location(session.captures[0].begin.stack),
                remedy="r",
                confidence=Confidence.PROVEN,
                process=session.index,
                trigger="t",
            )

    made = TraceBuilder(source="a\nb\n")
    made.source("cwd:other.py", text="unused\n")
    with made.capture(line=2):
        pass
    (process,) = run(Points, made).processes
    assert list(process.sources.values()) == ["a\nb\n"]


def test_the_device_is_that_of_the_process_that_captured():
    made = trace(backend="sim", evidence="simulated")
    made.capability("torch", versions={"torch": "2.13.0", "device": "simulated H200"})
    device = run(Yields, made).device
    assert (device.backend, device.evidence, device.torch, device.name) == (
        "sim",
        "simulated",
        "2.13.0",
        "simulated H200",
    )
