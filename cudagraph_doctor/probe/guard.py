"""Keeps the recorder's own failures, and its own work, out of the target.

Every body of a hook goes through `guard`. An exception in it becomes a `probe-error` record and never reaches the
target; the third one takes the hook out for good, and the trace says so. While a thread is inside a body, other bodies
in the same thread do nothing, so that the recorder never records itself.
"""

from __future__ import annotations

import contextlib
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

LIMIT = 3
"""Failures after which a hook is taken out."""


class HookState:
    """How one hook fares in this process."""

    __slots__ = ("failures", "name", "removed")

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures = 0
        self.removed = False


_busy: set[int] = set()
"""Identifiers of the threads that are inside a body. A set, because `threading.local` costs twice as much to write."""
_states: dict[str, HookState] = {}
_report: Callable[[HookState, BaseException], None] | None = None


def report_failures_to(report: Callable[[HookState, BaseException], None]) -> None:
    """Names the function that writes failures into the trace. It may raise: that is swallowed."""
    global _report
    _report = report


def state_of(hook: str) -> HookState:
    """The state of a hook, by its name."""
    return _states.setdefault(hook, HookState(hook))


def guard(hook: str) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    """Decorates one body of the hook `hook`. The result returns None where the body failed, or did not run.

    What a signal handler of the target raises while a body runs (`KeyboardInterrupt`, `SystemExit`) is the target's
    and goes on to it.
    """
    state = state_of(hook)
    enter, leave = _busy.add, _busy.discard

    def decorate(body: Callable[P, R]) -> Callable[P, R | None]:
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
            me = get_ident()
            if me in _busy or state.removed:
                return None
            enter(me)
            try:
                return body(*args, **kwargs)
            except Exception as error:
                _failed(state, error)
                return None
            finally:
                leave(me)

        guarded.__name__ = getattr(body, "__name__", "guarded")
        guarded.__qualname__ = getattr(body, "__qualname__", "guarded")
        guarded.__wrapped__ = body  # type: ignore[attr-defined]
        return guarded

    return decorate


def inside() -> bool:
    """Whether this thread is inside a body: what it does now is the recorder's work, not the target's."""
    return get_ident() in _busy


def forget_other_threads() -> None:
    """In a forked child: the threads that were inside a body are gone, and their identifiers may be given again."""
    _busy.intersection_update({get_ident()})


def outside() -> Outside:
    """A block in which this thread's work counts as the target's again: around a call into user code from a body."""
    return Outside()


class Outside:
    """See `outside`."""

    __slots__ = ("_was",)

    def __enter__(self) -> None:
        self._was = inside()
        _busy.discard(get_ident())

    def __exit__(self, *_: object) -> None:
        if self._was:
            _busy.add(get_ident())


def _failed(state: HookState, error: BaseException) -> None:
    state.failures += 1
    state.removed = state.failures >= LIMIT
    if _report is None:
        return
    with contextlib.suppress(Exception):  # the trace cannot be written either; the writer counts what it lost
        _report(state, error)


def where(error: BaseException) -> str:
    """`file.py:line` of the innermost frame of an error, without its folder."""
    frames = error.__traceback__
    if frames is None:
        return ""
    while frames.tb_next is not None:
        frames = frames.tb_next
    return f"{frames.tb_frame.f_code.co_filename.rpartition('/')[2]}:{frames.tb_lineno}"
