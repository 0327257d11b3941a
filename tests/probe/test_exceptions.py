"""Exceptions: the chain that is recorded, and the traceback that the target's user sees."""

from __future__ import annotations

import sys
import traceback

import pytest

from cudagraph_doctor.probe import exceptions


def caught(function) -> BaseException:
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_context_is_followed() -> None:
    def both() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904

    links = exceptions.chain(caught(both))
    assert [(link["type"], link["message"], link["how"]) for link in links] == [
        ("ValueError", "second", "context"),
        ("KeyError", "'first'", "context"),
    ]


def test_cause_comes_before_context_and_none_ends_it() -> None:
    def caused() -> None:
        try:
            raise KeyError("context")
        except KeyError:
            raise ValueError("x") from OSError("cause")

    def suppressed() -> None:
        try:
            raise KeyError("context")
        except KeyError:
            raise ValueError("x") from None

    assert [(link["type"], link["how"]) for link in exceptions.chain(caught(caused))][1] == ("OSError", "cause")
    assert len(exceptions.chain(caught(suppressed))) == 1


def test_cycle_ends() -> None:
    one, two = ValueError(1), ValueError(2)
    one.__context__, two.__context__ = two, one
    assert len(exceptions.chain(one)) == 2


def test_long_chain_is_cut() -> None:
    error = None
    for number in range(100):
        link = ValueError(number)
        link.__cause__ = error
        error = link
    assert len(exceptions.chain(error)) == exceptions.CHAIN_LIMIT


def test_members_of_a_group_are_told() -> None:
    links = exceptions.chain(ExceptionGroup("several", [ValueError("one"), TypeError("two")]))
    assert [(link["type"], link["how"]) for link in links] == [
        ("ExceptionGroup", "context"),
        ("ValueError", "member"),
        ("TypeError", "member"),
    ]


def test_code_of_cuda_is_told() -> None:
    error = RuntimeError("CUDA error")
    error.error_code = 900
    assert exceptions.chain(error)[0]["code"] == 900


def test_long_message_is_cut_and_one_that_raises_is_named() -> None:
    class OddError(Exception):
        def __str__(self):
            raise RuntimeError

    assert len(exceptions.told(ValueError("x" * 10_000))) == exceptions.MESSAGE_LIMIT
    assert "raised" in exceptions.told(OddError())


def hooked(function, name: str):
    """A function that calls another one from a file of the recorder."""
    code = compile(f"def {name}(*a):\n    return function(*a)\n", exceptions._OURS[0] + "hooks/x.py", "exec")
    space = {"function": function}
    exec(code, space)
    return space[name]


def dispatched(function):
    code = compile("def __call__(*a):\n    return function(*a)\n", "/site-packages/torch/_ops.py", "exec")
    space = {"function": function}
    exec(code, space)
    return space["__call__"]


def raising() -> None:
    raise ValueError("user's")


def through(*wrappers):
    function = raising
    for wrap in wrappers:
        function = wrap(function)

    def user() -> None:
        function()

    return user


def names(frames) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(frames)]


@pytest.mark.parametrize(
    ("wrappers", "left"),
    [
        ([], ["caught", "user", "raising"]),
        ([lambda f: hooked(f, "replay")], ["caught", "user", "raising"]),
        ([lambda f: hooked(f, "a"), lambda f: hooked(f, "b")], ["caught", "user", "raising"]),
        ([dispatched, lambda f: hooked(f, "dispatch")], ["caught", "user", "raising"]),
        ([dispatched], ["caught", "user", "__call__", "raising"]),
    ],
    ids=["none", "one", "two", "dispatch", "torch alone"],
)
def test_frames_of_ours_are_taken_out(wrappers, left: list[str]) -> None:
    error = caught(through(*wrappers))
    assert names(exceptions.without_ours(error, error.__traceback__)) == left
    assert names(error.__traceback__) == left


def test_frames_are_taken_out_of_all_that_is_shown() -> None:
    inner = caught(through(lambda f: hooked(f, "replay")))
    member = caught(through(lambda f: hooked(f, "replay")))
    group = ExceptionGroup("several", [member])
    group.__context__ = inner
    exceptions.without_ours(group, None)
    assert "replay" not in "".join(traceback.format_exception(group))


def test_exception_that_is_all_ours_keeps_its_frames() -> None:
    error = caught(hooked(lambda: 1 / 0, "broken"))
    frames = error.__traceback__.tb_next  # without this test's own frame
    frames.tb_next = None
    assert names(exceptions.without_ours(ValueError(), frames)) == ["broken"]


def test_own_frames_at_the_end_are_taken_out() -> None:
    def user() -> None:
        hooked(lambda: None, "x")(1, 2, 3)  # the lambda is called with too many arguments

    error = caught(user)
    assert names(exceptions.without_ours(error, error.__traceback__)) == ["caught", "user"]
    assert sys.exc_info() == (None, None, None)
