"""For authors of checkers: hand-written traces, and assertions on what is found in them.

from cudagraph_doctor.testing import TraceBuilder, assert_clean, assert_finds, cuda_error

For tests of programs that capture, in a recorded process (`@pytest.mark.cudagraph`):

from cudagraph_doctor.testing import assert_capturable, assert_no_findings
"""

from __future__ import annotations

from cudagraph_doctor.testing.assertions import assert_clean, assert_finds, diagnose_trace
from cudagraph_doctor.testing.capture_builder import CaptureBuilder
from cudagraph_doctor.testing.captured import Captured, assert_capturable, assert_no_findings
from cudagraph_doctor.testing.raised import cuda_error
from cudagraph_doctor.testing.trace_builder import MAIN_THREAD, TraceBuilder

__all__ = [
    "MAIN_THREAD",
    "CaptureBuilder",
    "Captured",
    "TraceBuilder",
    "assert_capturable",
    "assert_clean",
    "assert_finds",
    "assert_no_findings",
    "cuda_error",
    "diagnose_trace",
]
