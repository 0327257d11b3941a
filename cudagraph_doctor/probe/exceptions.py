"""Records exceptions with what they hang on, and shows uncaught ones to the target's hooks as it would see them."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

from cudagraph_doctor.probe.cuda_codes import code_of, is_plain, message_of
from cudagraph_doctor.probe.guard import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

HOOK = "exceptions"
MESSAGE_LIMIT = 2000
CHAIN_LIMIT = 30
_OURS = (os.path.dirname(__file__) + os.sep, os.path.join(os.path.dirname(os.path.dirname(__file__)), "sim") + os.sep)
_DISPATCHED = os.path.join("torch", "_ops.py")
"""Where torch calls an operator again for a dispatch mode: this frame is there only because ours is."""


def chain(error: BaseException, context: Context | None = None) -> list[dict[str, Any]]:
    """Links of an `exception` record: the exception, then what it hangs on.

    `__cause__` where it was given, else `__context__` unless it was suppressed, as tracebacks show it. Members of an
    exception group follow with `how` = `member`. At most 30.
    """
    links: list[dict[str, Any]] = []
    seen: set[int] = set()

    def follow(error: BaseException | None, how: str) -> None:
        while error is not None and id(error) not in seen and len(links) < CHAIN_LIMIT:
            seen.add(id(error))
            links.append(_link(error, how, context))
            if isinstance(error, BaseExceptionGroup):
                for member in error.exceptions:
                    follow(member, "member")
            how = "cause" if error.__cause__ is not None else "context"
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

    follow(error, "context")
    return links


def record(
    context: Context, error: BaseException, where: str, *, cap: int = 0, thread: str = "", stack: int | None = None
) -> int:
    """Writes an `exception` record and returns its sequence number.

    Args:
        context: whose trace.
        error: the exception.
        where: `uncaught`, `thread`, `capture-exit` or `raised`.
        cap: id of the capture it concerns.
        thread: name of the thread it ended.
        stack: id of the stack of the first link, where that is known better than from its traceback.
    """
    links = chain(error, context)
    if stack is not None:
        links[0]["stack"] = stack
    fields: dict[str, Any] = {"where": where, "chain": links}
    if cap:
        fields["cap"] = cap
    if thread:
        fields["thread"] = thread
    return context.write("exception", **fields)


class Uncaught:
    """Sees the exceptions that nobody catches, through `sys.excepthook` and `threading.excepthook`.

    The hooks that were there before are called with the same exception, its traceback without frames of ours. A target
    that sets its own `sys.excepthook` later replaces ours: then `settle`, at exit, finds the exception in
    `sys.last_value`, where the interpreter puts it.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._told: BaseException | None = None
        self._installed = False
        self._note = guard(HOOK)(self._record)

    def install_once(self) -> None:
        """Wraps both hooks."""
        if self._installed:
            return
        self._installed = True
        before, before_thread = sys.excepthook, threading.excepthook

        def excepthook(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
            self._note(error, "uncaught", "")
            before(kind, error, without_ours(error, frames))

        def thread_excepthook(args: threading.ExceptHookArgs) -> None:
            error = args.exc_value
            if error is not None and not issubclass(args.exc_type, SystemExit):
                self._note(error, "thread", args.thread.name if args.thread is not None else "")
                without_ours(error, args.exc_traceback)
                kept = error.__traceback__ if args.exc_traceback is not None else None
                args = threading.ExceptHookArgs((args.exc_type, error, kept, args.thread))
            before_thread(args)

        sys.excepthook = excepthook
        threading.excepthook = thread_excepthook

    def settle(self) -> None:
        """At exit, inside a guarded body: records what ended the main thread, if our hook was not asked."""
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException) and error is not self._told:
            self._record(error, "uncaught", "")  # not the guarded one: inside another body that does nothing

    def forget(self) -> None:
        """In a forked child: what was told, was told by the parent."""
        self._told = getattr(sys, "last_value", None)

    def _record(self, error: BaseException, where: str, thread: str) -> None:
        if where == "uncaught":
            self._told = error
        record(self._context, error, where, thread=thread)


def without_ours(error: BaseException, frames: TracebackType | None) -> TracebackType | None:
    """Takes frames of ours out of the tracebacks of an exception and of all it hangs on; returns its own.

    Frames of torch that are there only because a dispatch mode of ours is on go too. An exception that is all ours
    keeps its frames: it is a bug to be seen.
    """
    try:
        for one in _all(error):
            kept = _strip(one.__traceback__)
            if kept is not None:
                one.__traceback__ = kept
        return _strip(frames) or frames
    except Exception:
        return frames


def _strip(frames: TracebackType | None) -> TracebackType | None:
    first = last = None
    ours = False
    while frames is not None:
        following = frames.tb_next
        name = frames.tb_frame.f_code.co_filename
        if name.startswith(_OURS):
            ours = True
        elif ours and name.endswith(_DISPATCHED):
            pass
        else:
            ours = False
            if first is None:
                first = frames
            elif last is not None and last.tb_next is not frames:
                last.tb_next = frames
            last = frames
        frames = following
    if last is not None and last.tb_next is not None:
        last.tb_next = None
    return first


def _all(error: BaseException) -> Iterator[BaseException]:
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen or len(seen) > 1000:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions


def _link(error: BaseException, how: str, context: Context | None) -> dict[str, Any]:
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    message = told(error)
    link: dict[str, Any] = {"type": module + kind.__qualname__, "message": message, "how": how}
    stacks = context.stacks if context is not None else None
    if stacks is not None and error.__traceback__ is not None:
        with contextlib.suppress(Exception):  # an exception without its stack is better than none
            link["stack"] = stacks.from_traceback(error.__traceback__)
    code = code_of(error, message)
    if code:
        link["code"] = code
    return link


def told(error: BaseException) -> str:
    """The exception's text, at most 2,000 characters. Its `__str__` may be the target's code and may raise.

    An argument that is no plain value is not formatted: a tensor's `repr` waits for the GPU and breaks a capture.
    """
    if not is_plain(error):
        return message_of(error)
    try:
        return str(error)[:MESSAGE_LIMIT]
    except Exception:
        return "<its __str__ raised>"
