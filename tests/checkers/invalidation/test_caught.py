"""What a program caught of a failed capture, and what ended it, each told once."""

import pytest

from cudagraph_doctor.checkers.capture_status import CaptureStatus
from cudagraph_doctor.testing import assert_finds, cuda_error
from cudagraph_doctor.trace import events

AROUND = """
import torch
try:
    with torch.cuda.graph(g):
        n = x.sum().item()
except Exception:
    pass
"""
INSIDE = """
import torch
with torch.cuda.graph(g):
    try:
        n = x.sum().item()
    except Exception:
        n = 0
    y = x * 2
"""


def link(code, **fields):
    error = cuda_error(code)
    return events.Link(error.type, error.message, code=code, **fields)


def failed(s, *, passing, chain):
    trace = s.trace
    with trace.capture(line=s.line("with torch.cuda.graph(g)")) as capture:
        capture.op("aten::_local_scalar_dense", stack=s.at("x.sum().item()"), raises=cuda_error(900))
        capture.end(passing=cuda_error(passing), raises=cuda_error(901))
    trace.exception(*chain, where="capture-exit", cap=capture.id)
    return s


def told(s):
    return assert_finds(s.trace, "CGD101", checkers=[CaptureStatus]).consequences


def test_caught_around_the_capture(script):
    s = failed(script(AROUND), passing=900, chain=(link(901), link(900)))
    s.trace.seal(0)
    first, *_ = told(s)
    assert first.message == "the program caught this and went on"
    assert first.location.line == s.line("except Exception:")


def test_caught_inside_the_capture(script):
    s = failed(script(INSIDE), passing=901, chain=(link(901),))
    s.trace.exception(link(901))
    s.trace.seal(1)
    first, last = told(s)
    assert first.message == "the program caught this and went on capturing"
    assert first.location.line == s.line("except Exception:")
    assert last.message.startswith("the program ended with")


@pytest.mark.parametrize("returncode", [1, None])
def test_nothing_is_claimed_where_the_end_is_not_known(script, returncode):
    s = failed(script(AROUND), passing=900, chain=(link(901), link(900)))
    if returncode is not None:
        s.trace.seal(returncode)
    assert not any("caught" in one.message for one in told(s))


def test_error_of_the_end_that_ended_the_program_is_told_once(script):
    s = failed(script(AROUND), passing=900, chain=(link(901), link(900)))
    s.trace.exception(link(901), link(900))
    s.trace.seal(1)
    (only,) = told(s)
    assert only.message.startswith("the program ended with torch.AcceleratorError: CUDA error: operation failed due to")
    assert only.code == 901
    assert only.location is not None
