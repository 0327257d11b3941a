"""What the tests of this checker share: the torch errors that it reads, and a look at a fix."""

import ast

import pytest

from cudagraph_doctor.checkers.capture_status import CaptureStatus
from cudagraph_doctor.testing import assert_finds, diagnose_trace
from cudagraph_doctor.trace import events

UNPINNED = events.Raised(
    "RuntimeError",
    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please use "
    "tensor.pin_memory() or allocate the tensor with pin_memory=True.",
)


@pytest.fixture
def finds():
    """`finds(script, "CGD101", line=3)`: the only finding, which must be this one."""

    def check(script, rule, **wanted):
        found = diagnose_trace(script.trace, checkers=[CaptureStatus]).findings
        assert [f.rule.id for f in found] == [rule], [f.message for f in found]
        return assert_finds(script.trace, rule, checkers=[CaptureStatus], **wanted)

    return check


@pytest.fixture
def quiet():
    """`quiet(script)`: the checker finds nothing."""

    def check(script):
        found = diagnose_trace(script.trace, checkers=[CaptureStatus]).findings
        assert found == (), [f"{f.rule.id} {f.message}" for f in found]

    return check


@pytest.fixture
def fixed():
    """`fixed(script, finding)`: the script's text with the fix in it, which must parse."""

    def apply(script, finding):
        fix = finding.fix
        assert fix is not None, "no changed code"
        lines = script.text.split("\n")
        lines[fix.start - 1 : fix.end] = fix.replacement.split("\n")
        text = "\n".join(lines)
        ast.parse(text)
        return text

    return apply


@pytest.fixture
def unpinned():
    return UNPINNED
