"""The driver calls that begin, end and look at stream captures, and those of graphs."""

from __future__ import annotations

import threading
from typing import Any

from cudagraph_doctor._wire import STATUS_ACTIVE, STATUS_INVALIDATED, STATUS_NONE
from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.capture import Capture
from cudagraph_doctor.sim.driver import RELAXED, SimDriver
from cudagraph_doctor.sim.streams import SimStream


def begin_capture(driver: SimDriver, stream: SimStream, mode: int) -> tuple[int, Capture | None]:
    """cuStreamBeginCapture: the code and, with 0, the new capture."""
    api = "cuStreamBeginCapture"
    if driver.sticky:
        return driver.sticky, None
    if stream.capture is not None:
        driver.refuse(api, cuda.ILLEGAL_STATE, [stream.capture], stream, keeps=True)
        return cuda.ILLEGAL_STATE, None
    if stream.legacy:
        code = driver.call(api, "cudaStreamBeginCapture(legacy)", stream) or cuda.CAPTURE_UNSUPPORTED
        if not driver.captures:
            driver.record(api, code, stream, None, STATUS_NONE)
        return code, None
    capture = Capture(stream, mode, streams={stream})
    stream.capture, stream.frontier = capture, []
    driver.captures.append(capture)
    driver.record(api, cuda.SUCCESS, stream, capture, STATUS_NONE)
    return cuda.SUCCESS, capture


def end_capture(driver: SimDriver, stream: SimStream) -> tuple[int, Capture | None]:
    """cuStreamEndCapture: the code and the capture that it ended, also with an error; None if it ended none."""
    api = "cuStreamEndCapture"
    if driver.sticky:
        return driver.sticky, None
    capture = stream.capture
    if capture is None:
        driver.record(api, cuda.ILLEGAL_STATE, stream, None, STATUS_NONE)
        return cuda.ILLEGAL_STATE, None
    before = capture.status
    if capture.origin is not stream:
        code = cuda.CAPTURE_INVALIDATED if capture.invalidated else cuda.CAPTURE_UNMATCHED
        capture.status = STATUS_INVALIDATED
        driver.record(api, code, stream, capture, before)
        return code, None
    if capture.mode != RELAXED and capture.thread != threading.get_ident():
        code = cuda.CAPTURE_WRONG_THREAD
    elif capture.invalidated or capture.poisoned:
        code = cuda.CAPTURE_INVALIDATED
    elif capture.unjoined():
        code = cuda.CAPTURE_UNJOINED
    else:
        code = cuda.SUCCESS
    _dissolve(driver, capture)
    facts: dict[str, Any] = {"nodes": len(capture.nodes)} if code == cuda.SUCCESS else {}
    driver.record(api, code, stream, capture, before, after=STATUS_NONE, **facts)
    return code, capture


def abandon_capture(driver: SimDriver, capture: Capture) -> None:
    """Forget a capture that will never be ended by its stream (its graph object was destroyed)."""
    if capture in driver.captures:
        _dissolve(driver, capture)


def _dissolve(driver: SimDriver, capture: Capture) -> None:
    driver.captures.remove(capture)
    for stream in capture.streams:
        stream.capture, stream.frontier = None, []


def capture_info(driver: SimDriver, stream: SimStream) -> tuple[int, int, int]:
    """Status, id of the capture and number of nodes so far: safe to ask in every state."""
    capture = stream.capture
    if capture is None:
        return STATUS_NONE, 0, 0
    return capture.status, capture.id, len(capture.nodes) if capture.status == STATUS_ACTIVE else 0


def exchange_thread_mode(driver: SimDriver, mode: int) -> int:
    """cuThreadExchangeStreamCaptureMode: the mode before."""
    before = driver.thread.mode
    driver.thread.mode = mode
    return before


def instantiate(driver: SimDriver, *, api: str = "cuGraphInstantiateWithFlags") -> int:
    """Make a graph executable: refused while another capture is open in global mode."""
    return driver.call(api, "cudaGraphInstantiate(another graph)")


def launch_graph(driver: SimDriver, stream: SimStream, **facts: Any) -> int:
    """Replay an executable graph on `stream`."""
    where = "capturing" if stream.capture is not None else "other"
    return driver.call("cuGraphLaunch", f"cudaGraphLaunch({where})", stream, **facts)
