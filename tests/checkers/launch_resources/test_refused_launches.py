"""CGD501 to 504: launches that the driver refuses for their shape or for what their kernel needs."""

import pytest

from cudagraph_doctor.checkers.capture_status import CaptureStatus
from cudagraph_doctor.checkers.launch_resources import LaunchResources
from cudagraph_doctor.testing import assert_finds, diagnose_trace
from cudagraph_doctor.trace import events

TEXT = "with torch.cuda.graph(g):\n    scale_rows[(1, n)](x, s, D=16)\n"
BOTH = [CaptureStatus, LaunchResources]


def launch(s, code, *, log="", grid=(1, 1, 1), block=(128, 1, 1), smem=0, **fields):
    with s.trace.capture(line=1) as capture:
        stack = s.at("scale_rows[(1, n)](x, s, D=16)")
        shape = {"grid": grid, "block": block, "smem": smem, "kernel": "scale_rows"}
        capture.call("cuLaunchKernel", stack=stack, code=code, stream=capture.stream, breaks=True, **shape, **fields)
        if log:
            capture.log(log, api="cuLaunchKernel", code=code, thread=capture.tid)
    return s


def only(s, rule, **wanted):
    assert [f.rule.id for f in diagnose_trace(s.trace, checkers=BOTH).findings] == [rule]
    return assert_finds(s.trace, rule, checkers=BOTH, **wanted)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"grid": (1, 70000, 1)}, "asks for grid.y = 70,000, which must be between 1 and 65,535"),
        ({"grid": (0, 1, 1)}, "asks for grid.x = 0, which must be between 1 and 2,147,483,647"),
        ({"block": (32, 1, 65)}, "asks for block.z = 65, which must be between 1 and 64"),
        ({"block": (64, 32, 1)}, "asks for threads of a block = 2,048, which must be between 1 and 1,024"),
        ({"log": "The kernel has no image"}, "has arguments that the driver refuses: The kernel has no image"),
    ],
)
def test_shape_over_the_limit(script, shape, said):
    finding = only(launch(script(TEXT), 1, **shape), "CGD501", line=2, level="error", confidence="proven")
    assert f"`scale_rows[(1, n)](x, s, D=16)` {said} (cuLaunchKernel, cudaError 1)." in finding.message


def test_large_dimension_belongs_on_grid_x(script):
    assert "grid.x" in only(launch(script(TEXT), 1, grid=(1, 70000, 1)), "CGD501").remedy


@pytest.mark.parametrize("how", [{"smem": 96 * 1024}, {"log": "Dynamic shared memory size exceeds the maximum"}])
def test_shared_memory_without_opting_in(script, how):
    finding = only(launch(script(TEXT), 1, **how), "CGD502", line=2, confidence="proven")
    assert "MAX_DYNAMIC_SHARED_SIZE_BYTES" in finding.remedy


def test_shared_memory_that_is_allowed_leaves_the_grid_to_blame(script):
    only(launch(script(TEXT), 1, smem=96 * 1024, grid=(1, 70000, 1)), "CGD501")


def test_registers(script):
    finding = only(launch(script(TEXT), 701, block=(1024, 1, 1)), "CGD503", line=2)
    assert "a block of 1,024 threads" in finding.message


@pytest.mark.parametrize("code", [720, 912])
def test_cooperative_grid(script, code):
    assert "of 4,096 blocks" in only(launch(script(TEXT), code, grid=(4096, 1, 1)), "CGD504", line=2).message


def test_tritons_own_refusal(script):
    s = script(TEXT)
    error = events.Raised(
        "triton.runtime.errors.OutOfResources",
        "out of resource: shared memory, Required: 262144, Hardware limit: 232448. Reducing block sizes may help.",
    )
    stack = s.at("scale_rows[(1, n)](x, s, D=16)")
    with s.trace.capture(line=1) as capture:
        capture.end(passing=error)
    s.trace.exception(events.Link(error.type, error.message, stack=stack), where="capture-exit", cap=capture.id)
    finding = only(s, "CGD502", line=2)
    assert "Required: 262144" in finding.message
    assert "num_stages" in finding.remedy


def test_launches_that_go_well_are_quiet(script):
    s = launch(script(TEXT), 0, smem=200 * 1024, after=1, before=1)
    assert diagnose_trace(s.trace, checkers=[LaunchResources]).findings == ()
