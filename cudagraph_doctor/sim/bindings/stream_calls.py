"""Streams, events and captures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.bindings.values import Typed, number, stream_of
from cudagraph_doctor.sim.capture import Node, NodeKind
from cudagraph_doctor.sim.capture_calls import begin_capture, capture_info, end_capture, exchange_thread_mode
from cudagraph_doctor.sim.graphs import graph_of
from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.streams import SimEvent, SimStream

NON_BLOCKING = 1
Answer = tuple[Any, ...]


def calls(sim: Simulation) -> dict[str, Callable[..., Answer]]:
    """The calls of this file, by name."""
    driver = sim.driver
    events: dict[int, SimEvent] = {}

    def with_stream(call: Callable[[SimStream], Answer], stream: Any, results: int = 0) -> Answer:
        found = stream_of(sim, stream)
        return (cuda.INVALID_HANDLE, *[None] * results) if found is None else call(found)

    def create(flags: Any = 0, priority: Any = 0) -> Answer:
        stream = driver.stream_create(
            sim.streams().device, blocking=not number(flags) & NON_BLOCKING, priority=number(priority)
        )
        sim.streams().context = True
        return cuda.SUCCESS, Typed("cudaStream_t", "CUstream", stream.handle)

    def destroy(stream: Any) -> Answer:
        return (cuda.SUCCESS if driver.streams.pop(number(stream), None) is not None else cuda.INVALID_HANDLE,)

    def synchronize(stream: Any) -> Answer:
        return with_stream(lambda found: (driver.stream_synchronize(found),), stream)

    def query(stream: Any) -> Answer:
        return with_stream(lambda found: (driver.stream_synchronize(found, api="cuStreamQuery", query=True),), stream)

    def wait_event(stream: Any, event: Any, _flags: Any = 0) -> Answer:
        known = events.get(number(event))
        if known is None:
            return (cuda.INVALID_HANDLE,)
        return with_stream(lambda found: (driver.event_wait(found, known),), stream)

    def begin(stream: Any, mode: Any) -> Answer:
        return with_stream(lambda found: begin_capture(driver, found, number(mode))[:1], stream)

    def end(stream: Any) -> Answer:
        def ended(found: SimStream) -> Answer:
            code, capture = end_capture(driver, found)
            if code != cuda.SUCCESS or capture is None:
                return code, None
            graph = graph_of(sim, capture)
            driver.graphs[graph.handle] = graph
            return code, Typed("cudaGraph_t", "CUgraph", graph.handle)

        return with_stream(ended, stream, 1)

    def status(value: int) -> Typed:
        return Typed("cudaStreamCaptureStatus", "CUstreamCaptureStatus", value)

    def is_capturing(stream: Any) -> Answer:
        return with_stream(lambda found: (cuda.SUCCESS, status(driver.status(found))), stream, 1)

    def get_capture_info(stream: Any) -> Answer:
        def asked(found: SimStream) -> Answer:
            value, number_of, _nodes = capture_info(driver, found)
            nodes = [Typed("cudaGraphNode_t", "CUgraphNode", node.handle) for node in found.frontier]
            return cuda.SUCCESS, status(value), number_of, Typed("cudaGraph_t", "CUgraph", 0), nodes, [], len(nodes)

        return with_stream(asked, stream, 6)

    def exchange_mode(mode: Any) -> Answer:
        before = exchange_thread_mode(driver, number(mode))
        return cuda.SUCCESS, Typed("cudaStreamCaptureMode", "CUstreamCaptureMode", before)

    def event_create(_flags: Any = 0) -> Answer:
        event = SimEvent(driver.new_handle(), sim.streams().device)
        events[event.handle] = event
        return cuda.SUCCESS, Typed("cudaEvent_t", "CUevent", event.handle)

    def event_destroy(event: Any) -> Answer:
        return (cuda.SUCCESS if events.pop(number(event), None) is not None else cuda.INVALID_HANDLE,)

    def with_event(call: Callable[[SimEvent], int], event: Any) -> Answer:
        known = events.get(number(event))
        return (cuda.INVALID_HANDLE if known is None else call(known),)

    def event_record(event: Any, stream: Any, _flags: Any = 0) -> Answer:
        known = events.get(number(event))
        if known is None:
            return (cuda.INVALID_HANDLE,)
        return with_stream(lambda found: (driver.event_record(known, found),), stream)

    def elapsed(start: Any, end_event: Any) -> Answer:
        first, last = events.get(number(start)), events.get(number(end_event))
        if first is None or last is None:
            return cuda.INVALID_HANDLE, None
        return driver.event_elapsed(first, last), (last.time - first.time) * 1e3

    def host_function(stream: Any, function: Any, data: Any = None) -> Answer:
        def queued(found: SimStream) -> Answer:
            node = Node(NodeKind.HOST, "host function", lambda: None)
            code = driver.submit("cuLaunchHostFunc", found, node=node.handle)
            if code == cuda.SUCCESS:
                sim.not_simulated("cudaLaunchHostFunc", f"the host function {function!r} does not run ({data!r})")
                if found.capture is not None:
                    driver.add_node(found, node)
            return (code,)

        return with_stream(queued, stream)

    both: dict[str, Callable[..., Answer]] = {
        "StreamDestroy": destroy,
        "StreamSynchronize": synchronize,
        "StreamQuery": query,
        "StreamWaitEvent": wait_event,
        "StreamBeginCapture": begin,
        "StreamEndCapture": end,
        "StreamIsCapturing": is_capturing,
        "StreamGetCaptureInfo": get_capture_info,
        "ThreadExchangeStreamCaptureMode": exchange_mode,
        "EventCreate": event_create,
        "EventDestroy": event_destroy,
        "EventRecord": event_record,
        "EventRecordWithFlags": event_record,
        "EventSynchronize": lambda event: with_event(driver.event_synchronize, event),
        "EventQuery": lambda event: with_event(lambda known: driver.event_synchronize(known, query=True), event),
        "EventElapsedTime": elapsed,
        "LaunchHostFunc": host_function,
    }
    return {f"{prefix}{name}": call for name, call in both.items() for prefix in ("cuda", "cu")} | {
        "cudaStreamCreate": lambda: create(0),
        "cudaStreamCreateWithFlags": create,
        "cudaStreamCreateWithPriority": create,
        "cuStreamCreate": create,
        "cuStreamCreateWithPriority": create,
        "cudaEventCreateWithFlags": event_create,
    }
