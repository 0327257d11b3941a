"""The guard: a hook's failure stays a hook's failure."""

from __future__ import annotations

import threading
import timeit

import pytest

from cudagraph_doctor.probe import guard as guards
from cudagraph_doctor.probe.guard import LIMIT, guard


@pytest.fixture
def reports(monkeypatch):
    told: list[tuple[str, int, bool, str]] = []
    monkeypatch.setattr(guards, "_states", {})
    monkeypatch.setattr(
        guards, "_report", lambda state, error: told.append((state.name, state.failures, state.removed, str(error)))
    )
    return told


def test_result_passes(reports) -> None:
    assert guard("hook")(lambda a, b=0: a + b)(1, b=2) == 3
    assert reports == []


def test_failure_is_told_and_the_third_takes_the_hook_out(reports) -> None:
    calls = []

    @guard("hook")
    def body() -> None:
        calls.append(1)
        raise ValueError("broken")

    for _ in range(LIMIT + 2):
        assert body() is None
    assert len(calls) == LIMIT
    assert reports == [("hook", 1, False, "broken"), ("hook", 2, False, "broken"), ("hook", 3, True, "broken")]


def test_all_bodies_of_a_hook_go_together_and_others_stay(reports) -> None:
    @guard("hook")
    def failing() -> None:
        raise ValueError

    for _ in range(LIMIT):
        failing()
    assert guard("hook")(lambda: 1)() is None
    assert guard("other")(lambda: 1)() == 1


def test_body_inside_a_body_does_nothing(reports) -> None:
    inner = guard("inner")(lambda: "recorded")

    @guard("outer")
    def outer() -> tuple[object, bool]:
        return inner(), guards.inside()

    assert outer() == (None, True)
    assert inner() == "recorded"
    assert not guards.inside()


def test_other_threads_are_not_affected(reports) -> None:
    inner = guard("inner")(lambda: "recorded")
    seen = []

    @guard("outer")
    def outer() -> None:
        thread = threading.Thread(target=lambda: seen.append(inner()))
        thread.start()
        thread.join()

    outer()
    assert seen == ["recorded"]


def test_outside_lets_hooks_see_the_targets_code_again(reports) -> None:
    inner = guard("inner")(lambda: "recorded")

    @guard("outer")
    def outer() -> tuple[object, object]:
        with guards.outside():
            seen = inner()
        return seen, inner()

    assert outer() == ("recorded", None)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_a_signal_handler_raises_goes_on(reports, kind: type[BaseException]) -> None:
    @guard("hook")
    def body() -> None:
        raise kind

    with pytest.raises(kind):
        body()
    assert reports == []
    assert not guards.inside()


def test_report_that_fails_is_swallowed(monkeypatch) -> None:
    monkeypatch.setattr(guards, "_states", {})
    monkeypatch.setattr(guards, "_report", lambda state, error: 1 / 0)
    guard("hook")(lambda: {}["missing"])()


def test_place_of_a_failure_is_named() -> None:
    with pytest.raises(ValueError) as caught:
        raise ValueError
    assert guards.where(caught.value).startswith("test_guard.py:")


def test_passing_is_cheap(reports) -> None:
    """A generous bound, against an accident: benchmarks measure."""
    body = guard("hook")(lambda: None)
    assert min(timeit.repeat(body, number=10_000, repeat=5)) / 10_000 < 3e-6
