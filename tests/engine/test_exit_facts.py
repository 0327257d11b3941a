"""What in a report leads to which exit code, under which policy."""

from __future__ import annotations

import pytest
from msgspec import structs

from cudagraph_doctor.engine.exit_code import decide
from cudagraph_doctor.engine.exit_facts import ExitPolicy, exit_facts
from cudagraph_doctor.findings import (
    CheckerState,
    Confidence,
    Consequence,
    Finding,
    Rule,
    RuleState,
    Severity,
)
from cudagraph_doctor.report import (
    CaptureInfo,
    DeviceInfo,
    EvidenceSpan,
    Exit,
    Gate,
    Limit,
    ProcessInfo,
    Report,
    Violation,
)

RULE = Rule("CGD101", "host-sync-in-capture", Severity.ERROR, "what", "text")
CAPTURE = CaptureInfo(0, 0, "completed", 1, None)


def finding(**changes) -> Finding:
    fields = {
        "rule": RULE,
        "level": Severity.ERROR,
        "confidence": Confidence.PROVEN,
        "message": "`x.item()` waits.",
        "location": None,
        "remedy": "Do not.",
        "process": 0,
        "trigger": "item",
    }
    return Finding(**(fields | changes))


def report(*findings, evidence=("python",), **changes) -> Report:
    ended = changes.pop("exit", Exit(0))
    fields = {
        "argv": ("x.py",),
        "exit": ended,
        "processes": (ProcessInfo(0, 1, ("x.py",), ended, tuple(map(EvidenceSpan, evidence))),),
        "device": DeviceInfo("cuda", evidence[0]),
        "captures": (CAPTURE,),
        "checkers": (CheckerState("capture_status", "ran", None, (RuleState("CGD101", checked=True),)),),
        "findings": findings,
        "limits": (),
        "tool_version": "0",
    }
    return Report(**(fields | changes))


def status(given: Report, **policy) -> int:
    names = {"fail_on", "strict", "violations"} & set(policy)
    gate = Gate(**{name: policy.pop(name) for name in names})
    return decide(exit_facts(structs.replace(given, gate=gate), ExitPolicy(**policy)))


def test_clean():
    assert status(report()) == 0


@pytest.mark.parametrize(
    ("level", "fail_on", "code"),
    [
        ("error", "error", 1),
        ("warning", "error", 0),
        ("note", "error", 0),
        ("error", "warning", 1),
        ("warning", "warning", 1),
        ("note", "warning", 0),
        ("note", "note", 1),
        ("error", None, 0),
    ],
)
def test_fail_on(level, fail_on, code):
    wanted = None if fail_on is None else Severity(fail_on)
    assert status(report(finding(level=Severity(level))), fail_on=wanted) == code


@pytest.mark.parametrize(
    ("confidence", "strict", "code"),
    [("proven", False, 1), ("likely", False, 1), ("possible", False, 0), ("possible", True, 1)],
)
def test_possible_findings_count_only_when_strict(confidence, strict, code):
    assert status(report(finding(confidence=Confidence(confidence))), strict=strict) == code


@pytest.mark.parametrize("state", ["known", "suppressed"])
def test_known_and_suppressed_findings_do_not_count(state):
    assert status(report(finding(state=state))) == 0


def test_a_condition_of_the_gate_that_does_not_hold_fails_the_run():
    assert status(report(), violations=(Violation("a capture is gone"),)) == 1
    assert status(report(captures=()), violations=(Violation("a capture is gone"),)) == 1


def test_nothing_captured():
    assert status(report(captures=())) == 5
    assert status(report(captures=()), allow_no_capture=True) == 0


def test_a_failed_capture_was_a_capture():
    assert status(report(captures=(CaptureInfo(0, 0, "failed", 0, None),))) == 0


def test_time_limit():
    assert status(report(exit=Exit(signal="SIGTERM", timed_out=True))) == 6


def test_a_failed_checker_is_incomplete():
    failed = CheckerState("house_rules", "failed", "KeyError")
    assert status(report(checkers=(failed,))) == 4


def test_a_limit_is_incomplete_only_if_it_says_so():
    assert status(report(limits=(Limit("a torn line", "killed"),))) == 0
    assert status(report(limits=(Limit("records", "damaged", incomplete=True),))) == 4


def test_required_rules():
    assert status(report(), require_checked=frozenset({"CGD101"})) == 0
    assert status(report(), require_checked=frozenset({"CGD101", "CGD105"})) == 4
    skipped = CheckerState("capture_status", "skipped", "no", (RuleState("CGD101", checked=True),))
    assert status(report(checkers=(skipped,)), require_checked=frozenset({"CGD101"})) == 4


@pytest.mark.parametrize(
    ("had", "wanted", "code"),
    [
        (("driver",), "driver", 0),
        (("driver", "python"), "driver", 3),
        (("python",), "driver", 3),
        (("driver", "python"), "python", 0),
        (("simulated",), "python", 3),
        (("simulated",), "simulated", 0),
    ],
)
def test_required_evidence(had, wanted, code):
    assert status(report(evidence=had), require_evidence=wanted) == code


def test_evidence_of_processes_that_captured_nothing_does_not_matter():
    ended = Exit(0)
    processes = (
        ProcessInfo(0, 1, (), ended, (EvidenceSpan("driver"),)),
        ProcessInfo(1, 2, (), ended, (EvidenceSpan("python"),)),
    )
    assert status(report(processes=processes, evidence=("driver",)), require_evidence="driver") == 0


class TestHowTheTargetEnded:
    def test_a_status_that_nothing_explains(self):
        assert status(report(exit=Exit(3))) == 7

    def test_a_signal_that_nothing_explains(self):
        assert status(report(finding(level=Severity.NOTE), exit=Exit(-11, "SIGSEGV"))) == 7

    def test_a_note_that_names_the_signal_explains_it(self):
        note = finding(level=Severity.NOTE, message="`launch()` died of SIGSEGV.")
        assert status(report(note, exit=Exit(-11, "SIGSEGV"))) == 0

    def test_a_consequence_that_is_the_exception_explains_it(self):
        ended = Exit(1, exception="RuntimeError: CUDA error: operation not permitted")
        note = finding(
            level=Severity.NOTE, consequences=(Consequence("CUDA error: operation not permitted", "RuntimeError"),)
        )
        assert status(report(note, exit=ended)) == 0

    def test_another_exception_of_the_same_type_is_not_explained(self):
        ended = Exit(1, exception="RuntimeError: no such model")
        note = finding(level=Severity.NOTE, consequences=(Consequence("CUDA error", "RuntimeError"),))
        assert status(report(note, exit=ended)) == 7

    def test_an_exception_of_which_nobody_saw_the_status(self):
        assert status(report(exit=Exit(exception="ValueError: x"))) == 7

    def test_an_exception_does_not_outweigh_a_good_status(self):
        assert status(report(exit=Exit(0, exception="ValueError: x"))) == 0

    def test_findings_win_over_an_unexplained_end(self):
        assert status(report(finding(), exit=Exit(3))) == 1

    def test_an_unexplained_end_wins_over_nothing_captured(self):
        assert status(report(captures=(), exit=Exit(1))) == 7

    def test_a_target_that_is_still_running_has_not_ended(self):
        assert status(report(exit=Exit(running=True))) == 0
