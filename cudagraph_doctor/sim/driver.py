"""The simulated CUDA driver: what each call returns, what it does to captures, and the record of it.

A method stands for one driver call, returns its CUDA error code and never raises. Whether a call is allowed while a
stream captures is read from the measured table (`legality`); the structure of captures (fork, join, isolation, merge)
is kept here.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cudagraph_doctor._wire import STATUS_INVALIDATED, STATUS_NONE
from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.capture import Capture, Node
from cudagraph_doctor.sim.emission import Emit, Where, nobody, nowhere
from cudagraph_doctor.sim.legality import Verdict, measured
from cudagraph_doctor.sim.streams import (
    LEGACY,
    LEGACY_EXPLICIT,
    PER_THREAD,
    Clock,
    PerThread,
    SimEvent,
    SimStream,
    ThreadState,
    join,
)

if TYPE_CHECKING:
    from cudagraph_doctor.sim.graphs import SimExec, SimGraph

THREAD_LOCAL, RELAXED = 1, 2


class SimDriver:
    """State of the simulated driver in this process.

    With `keep_going`, a refused call is recorded as ever but reports success, and its capture stays Active until its
    end, which then fails: so one run meets every obstacle of a region.
    """

    def __init__(self, devices: int) -> None:
        self.emit: Emit = nobody
        self.where: Where = nowhere
        self.keep_going = False
        self.defaults = tuple(SimStream(LEGACY, device, blocking=True) for device in range(devices))
        self.streams: dict[int, SimStream] = {}
        self.captures: list[Capture] = []
        self.graphs: dict[int, SimGraph] = {}
        self.execs: dict[int, SimExec] = {}
        """Graphs that a raw handle was given out for."""
        self._threads = PerThread(self.defaults)
        self.host: Clock = {}
        """What the host has waited for."""
        self.host_waited: list[Callable[[Clock], None]] = []
        """Called after each wait of the host."""
        self.sticky = 0
        """An asynchronous error (700): every later call returns it."""
        self.error_log: list[str] = []
        self._table = measured()
        self._handles = itertools.count(0x5C00_0000_0000, 0x40)

    @property
    def thread(self) -> ThreadState:
        """State of the calling thread."""
        return self._threads.state

    # ── objects ─────────────────────────────────────────────────────────────────────────────────
    def new_handle(self) -> int:
        """A raw handle for a new object."""
        return next(self._handles)

    def stream_create(self, device: int, *, blocking: bool = False, priority: int = 0) -> SimStream:
        """A new stream (cuStreamCreateWithPriority): legal in every capture."""
        stream = SimStream(self.new_handle(), device, blocking, priority)
        self.streams[stream.handle] = stream
        return stream

    def stream_of(self, handle: int, device: int = 0) -> SimStream | None:
        """The stream of a raw handle; None if the handle names none."""
        if handle in (LEGACY, LEGACY_EXPLICIT):
            return self.defaults[device]
        if handle == PER_THREAD and PER_THREAD not in self.streams:
            self.streams[PER_THREAD] = SimStream(PER_THREAD, device, blocking=True)
        return self.streams.get(handle)

    def every_stream(self) -> list[SimStream]:
        """All streams, default ones first."""
        return [*self.defaults, *self.streams.values()]

    # ── judging a call ──────────────────────────────────────────────────────────────────────────
    def call(self, api: str, rule: str, stream: SimStream | None = None, **facts: Any) -> int:
        """Make the driver call `api`, judged by the table's row `rule`; its return code.

        It is recorded while a capture is open: `facts` go into the record as they are.
        """
        if self.sticky:
            return self.sticky
        if not self.captures:
            return cuda.SUCCESS
        own = stream.capture if stream is not None else None
        concerned = [own] if own is not None else self.captures
        harmed = [(capture, v) for capture in concerned if (v := self._verdict(rule, capture)).code]
        if not harmed:
            if own is not None and own.invalidated:
                return self.refuse(api, cuda.CAPTURE_INVALIDATED, [own], stream, **facts)
            subject = own or concerned[0]
            self.record(api, cuda.SUCCESS, stream, subject, subject.status, **facts)
            return cuda.SUCCESS
        code = cuda.CAPTURE_INVALIDATED if harmed[0][0].invalidated else harmed[0][1].code
        keeps = harmed[0][1].status != STATUS_INVALIDATED
        return self.refuse(api, code, [capture for capture, _ in harmed], stream, keeps=keeps, **facts)

    def _verdict(self, rule: str, capture: Capture) -> Verdict:
        """The table's verdict for this thread, under the capture's mode and the thread's own."""
        other_thread = capture.thread != threading.get_ident()
        mode = capture.mode
        own = self.thread.mode
        if own == RELAXED or (own == THREAD_LOCAL and other_thread):
            mode = max(mode, own)
        return self._table.look_up(rule, mode=mode, other_thread=other_thread, blocking=capture.blocking)

    def refuse(
        self,
        api: str,
        code: int,
        captures: list[Capture],
        stream: SimStream | None = None,
        *,
        keeps: bool = False,
        **facts: Any,
    ) -> int:
        """Refuse a call: invalidate the captures it conflicts with (unless it `keeps` them), log and record it."""
        befores = [capture.status for capture in captures]
        for capture in captures if not keeps else ():
            capture.poisoned = True
            if not self.keep_going:
                capture.status = STATUS_INVALIDATED
        self.error_log.append(f"Returning {code} ({cuda.driver_error_name(code)}) from {api}")
        if captures:
            after = befores[0] if keeps else STATUS_INVALIDATED
            self.record(api, code, stream, captures[0], befores[0], after=after, **facts)
        return cuda.SUCCESS if self.keep_going else code

    def record(
        self,
        api: str,
        code: int,
        stream: SimStream | None,
        capture: Capture | None,
        before: int,
        *,
        after: int | None = None,
        **facts: Any,
    ) -> int:
        """Write the `call` record; its sequence number."""
        record: dict[str, object] = {"k": "call", "api": api, "layer": "sim", "code": code, "before": before}
        record["after"] = after if after is not None else STATUS_NONE if capture is None else capture.status
        if stream is not None:
            record["stream"] = stream.handle
            record["on"] = self.status(stream)
            record["device"] = stream.device
        if capture is not None:
            record["capture"] = capture.id
            record["origin"] = capture.origin.handle
        return self.emit(record | facts)

    @staticmethod
    def status(stream: SimStream) -> int:
        """Capture status of a stream, as cuStreamIsCapturing gives it."""
        return STATUS_NONE if stream.capture is None else stream.capture.status

    # ── work ────────────────────────────────────────────────────────────────────────────────────
    def submit(self, api: str, stream: SimStream, **facts: Any) -> int:
        """Put work (a kernel, an asynchronous copy or memset) on `stream`."""
        if stream.capture is not None:
            return self.call(api, "launch on capturing stream", stream, **facts)
        if stream.legacy:
            return self.call(api, "launch on legacy stream", stream, **facts)
        kind = "blocking" if stream.blocking else "non-blocking"
        return self.call(api, f"launch on other {kind} stream", stream, **facts)

    def add_node(self, stream: SimStream, node: Node) -> None:
        """Record `node` in the capture that `stream` belongs to."""
        assert stream.capture is not None
        stream.capture.add(node, stream)

    # ── synchronisation ─────────────────────────────────────────────────────────────────────────
    def stream_synchronize(self, stream: SimStream, *, api: str = "cuStreamSynchronize", query: bool = False) -> int:
        """Wait for a stream, or ask whether it has finished (which it has)."""
        name = "cudaStreamQuery" if query else "cudaStreamSynchronize"
        where = "capturing" if stream.capture is not None else "legacy" if stream.legacy and not query else "other"
        code = self.call(api, f"{name}({where})", stream)
        if code == cuda.SUCCESS:
            self._waited(stream.now())
        return code

    def synchronize(self, device: int) -> int:
        """Wait for a device."""
        code = self.call("cuCtxSynchronize", "cudaDeviceSynchronize", device=device)
        if code == cuda.SUCCESS:
            for stream in self.every_stream():
                if stream.device == device:
                    join(self.host, stream.now())
            self._waited({})
        return code

    def _waited(self, clock: Clock) -> None:
        join(self.host, clock)
        for callback in self.host_waited:
            callback(self.host)

    # ── events ──────────────────────────────────────────────────────────────────────────────────
    def _live(self, event: SimEvent) -> Capture | None:
        return event.capture if event.capture in self.captures else None

    def event_record(self, event: SimEvent, stream: SimStream) -> int:
        """Record an event behind the work of a stream."""
        if stream.legacy:
            code = self.call("cuEventRecord", "launch on legacy stream", stream, event=event.handle)
        elif stream.capture is not None:
            code = self.call("cuEventRecord", "cudaEventRecord(capturing)", stream, event=event.handle)
        else:
            code = self.call("cuEventRecord", "launch on other non-blocking stream", stream, event=event.handle)
        if code == cuda.SUCCESS:
            event.recorded, event.capture = True, stream.capture
            event.frontier = tuple(stream.frontier)
            event.clock, event.time = stream.now(), time.perf_counter()
        return code

    def event_wait(self, stream: SimStream, event: SimEvent) -> int:
        """Make a stream wait for an event: outside captures an order, inside one a dependency, a fork or a join."""
        api = "cuStreamWaitEvent"
        if self.sticky or not event.recorded:
            return self.sticky
        live, own = self._live(event), stream.capture
        facts: dict[str, Any] = {"event": event.handle}
        if live is None:
            if own is not None:
                return self.call(api, "cudaStreamWaitEvent(capturing, event recorded before)", stream, **facts)
            if stream.legacy and (code := self.call(api, "launch on legacy stream", stream, **facts)):
                return code
        elif live.invalidated:
            return self.refuse(api, cuda.CAPTURE_INVALIDATED, [live], stream, **facts)
        elif stream.legacy:
            return self.refuse(api, cuda.CAPTURE_IMPLICIT, [live], stream, **facts)
        elif own is not None and own is not live:
            return self.refuse(api, cuda.CAPTURE_MERGE, [own, live], stream, **facts)
        else:
            if own is None:
                stream.capture = live
                stream.frontier = []
                live.streams.add(stream)
            stream.frontier += [node for node in event.frontier if node not in stream.frontier]
            self.record(api, cuda.SUCCESS, stream, live, live.status, **facts)
        join(stream.clock, event.clock)
        return cuda.SUCCESS

    def event_synchronize(self, event: SimEvent, *, query: bool = False) -> int:
        """Wait for an event, or ask whether it has completed (which it has)."""
        name = "Query" if query else "Synchronize"
        if event.capture is not None and self._live(event) is None:
            return self._never_happened(f"cuEvent{name}", event)
        which = "captured event" if self._live(event) is not None else "event recorded before"
        code = self.call(f"cuEvent{name}", f"cudaEvent{name}({which})", event=event.handle)
        if code == cuda.SUCCESS:
            self._waited(event.clock)
        return code

    def _never_happened(self, api: str, event: SimEvent) -> int:
        """Refuse a use of an event whose last record was in a capture that has ended: nothing ran at that record."""
        if self.sticky:
            return self.sticky
        self.record(api, cuda.INVALID_VALUE, None, None, STATUS_NONE, event=event.handle)
        return cuda.INVALID_VALUE

    def event_elapsed(self, start: SimEvent, end: SimEvent) -> int:
        """Whether the time between two events can be asked for."""
        if not (start.recorded and end.recorded):
            return cuda.INVALID_HANDLE
        for event in (start, end):
            if event.capture is not None:
                if self._live(event) is None:
                    return self._never_happened("cuEventElapsedTime", event)
                rule = "cudaEventElapsedTime(captured event)"
                code = self.call("cuEventElapsedTime", rule, event=event.handle)
                return code or cuda.CAPTURED_EVENT
        return cuda.SUCCESS
