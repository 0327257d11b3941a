import pytest

from cudagraph_doctor.api import Checker, Confidence, Rule, Severity
from cudagraph_doctor.testing import TraceBuilder, assert_clean, assert_finds, cuda_error, diagnose_trace

RULE = Rule(id="TST1", slug="one", level=Severity.ERROR, what="w", text="t")
NOTE = Rule(id="TST2", slug="two", level=Severity.NOTE, what="w", text="t")


class EachFailure(Checker):
    """Finds each failed capture, and notes each replay."""

    name = "each_failure"
    rules = (RULE, NOTE)

    def check(self, session):
        for state in session.captures:
            if state.change is not None and state.change.across is not None:
                yield self._finding(RULE, session, state.change.across.stack)
        for replay in session.replays:
            yield self._finding(NOTE, session, replay.stack)

    def _finding(self, rule, session, stack):
        place = session.location(stack)
        return rule.finding(
            "it waits", location=place, remedy="r", confidence=Confidence.PROVEN, process=session.index, trigger="t"
        )


class Breaks(EachFailure):
    def check(self, session):
        raise RuntimeError("bug")


CHECKERS = [EachFailure]


def broken():
    trace = TraceBuilder(source="a\nb\nx.item()\n")
    with trace.capture(line=1) as capture:
        capture.op("aten::item", line=3, raises=cuda_error(900))
    trace.seal(1)
    return trace


def healthy():
    trace = TraceBuilder()
    with trace.capture(line=1) as capture:
        capture.op("aten::mm", line=2)
    trace.replay(capture.graph, line=4)
    trace.seal()
    return trace


def test_a_finding_that_fits_is_returned():
    found = assert_finds(
        broken(), "TST1", line=3, file="script.py", level="error", confidence="proven", count=1, checkers=CHECKERS
    )
    assert found.location.code == "x.item()"


@pytest.mark.parametrize(
    "wrong",
    [
        {"line": 4},
        {"file": "other.py"},
        {"level": "note"},
        {"confidence": "likely"},
        {"count": 2},
        {"message": "elsewhere"},
    ],
)
def test_one_that_does_not_fit_fails_and_tells_what_was_found(wrong):
    with pytest.raises(AssertionError, match=r"TST1 error proven script\.py:3 ×1: it waits"):
        assert_finds(broken(), "TST1", checkers=CHECKERS, **wrong)


def test_a_missing_one_fails():
    with pytest.raises(AssertionError, match="found nothing"):
        assert_finds(TraceBuilder(), "TST1", checkers=CHECKERS)


def test_first_asks_for_the_first():
    trace = broken()
    trace.replay(9, line=2)
    with pytest.raises(AssertionError, match="expected first TST2"):
        assert_finds(trace, "TST2", checkers=CHECKERS)
    assert_finds(trace, "TST2", first=False, checkers=CHECKERS)


def test_clean_fails_on_any_finding_and_lets_notes_pass_on_request():
    with pytest.raises(AssertionError, match="expected no finding"):
        assert_clean(healthy(), checkers=CHECKERS)
    assert assert_clean(healthy(), notes=True, checkers=CHECKERS).captures[0].status == "completed"
    with pytest.raises(AssertionError):
        assert_clean(broken(), notes=True, checkers=CHECKERS)


def test_a_checker_that_failed_is_neither_clean_nor_a_finding():
    with pytest.raises(AssertionError, match="RuntimeError: bug"):
        assert_clean(healthy(), checkers=[Breaks])
    with pytest.raises(AssertionError, match="RuntimeError: bug"):
        assert_finds(broken(), "TST1", checkers=[Breaks])


def test_a_file_and_a_report_are_taken_like_a_hand_written_trace(tmp_path):
    broken().write(tmp_path / "t.jsonl")
    report = diagnose_trace(tmp_path / "t.jsonl", checkers=CHECKERS)
    assert_finds(tmp_path / "t.jsonl", "TST1", line=3, checkers=CHECKERS)
    assert_finds(report, "TST1", line=3)
