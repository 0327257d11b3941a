"""CGD202: a function of another context; the capture stays active and ends well, without the node."""

import pytest

from cudagraph_doctor.checkers.capture_status import CaptureStatus
from cudagraph_doctor.checkers.context_binding import ContextBinding
from cudagraph_doctor.testing import assert_finds, diagnose_trace
from cudagraph_doctor.trace import events

TEXT = (
    "with torch.cuda.graph(g):\n    h = x * 2\n    ck(driver.cuLaunchKernel(fn, 1, 0, stream, args, 0))\ng.replay()\n"
)
BOTH = [CaptureStatus, ContextBinding]


def region(s, code, layer="driver", passing=None):
    with s.trace.capture(line=1) as capture:
        capture.op("aten::mul", line=2)
        stack = s.at("driver.cuLaunchKernel(fn, 1, 0, stream, args, 0)")
        capture.call("cuLaunchKernel", stack=stack, code=code, layer=layer, stream=capture.stream, after=1)
        capture.end(passing=passing, nodes=1)
    s.trace.replay(capture.graph, line=4)
    return s


@pytest.mark.parametrize("layer", ["driver", "bindings"])
@pytest.mark.parametrize("raised", [True, False])
def test_launch_of_a_foreign_function(script, layer, raised):
    error = events.Raised("RuntimeError", "CUDA_ERROR_INVALID_HANDLE (400)", 400) if raised else None
    s = region(script(TEXT), 400, layer, error)
    assert [f.rule.id for f in diagnose_trace(s.trace, checkers=BOTH).findings] == ["CGD202"]
    finding = assert_finds(s.trace, "CGD202", checkers=BOTH, line=3, level="error", confidence="proven")
    assert "loaded in another context" in finding.message
    assert "the capture goes on without the node" in finding.message
    assert "cuDevicePrimaryCtxRetain" in finding.remedy


def test_launch_that_goes_well_is_quiet(script):
    assert diagnose_trace(region(script(TEXT), 0).trace, checkers=BOTH).findings == ()
