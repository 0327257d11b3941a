"""One capture window of a hand-written trace: keeps the capture's status, so that every record tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_doctor._wire import STATUS_ACTIVE, STATUS_INVALIDATED
from cudagraph_doctor.session.invalidation import CAPTURE_INVALIDATED, REFUSALS
from cudagraph_doctor.testing.raised import cuda_error, raised
from cudagraph_doctor.trace import events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_doctor.testing.raised import Error
    from cudagraph_doctor.testing.trace_builder import TraceBuilder


class CaptureBuilder:
    """An open capture. `breaks=True` means: the capture was active before and is invalidated after."""

    def __init__(
        self, trace: TraceBuilder, number: int, stream: int, graph: int, tid: int, stack: int, *, active: bool
    ) -> None:
        self.trace = trace
        self.id = number
        self.stream = stream
        """Id of the origin stream."""
        self.graph = graph
        """Id of the graph object."""
        self.tid = tid
        self.stack = stack
        self.status = STATUS_ACTIVE if active else 0
        self.ended = not active
        self.exec = 0
        """Id of the executable graph, once it ended well."""
        self._members = {stream}
        self._events: set[int] = set()
        """Events recorded in this capture."""

    def op(
        self,
        name: str,
        *,
        line: int | None = None,
        stack: int | None = None,
        function: str = "<module>",
        breaks: bool = False,
        raises: Error | None = None,
        returns: bool = True,
        stream: int | None = None,
        on: int | None = None,
        tid: int | None = None,
        results: Sequence[events.Tensor] = (),
        **fields: Any,
    ) -> int:
        """A torch operator, with its outcome; returns the sequence number of its intention.

        Args:
            name: `aten::mm`.
            line: the user's line.
            stack: a stack, where the line alone does not do.
            function: qualified function of the line.
            breaks: it invalidates the capture.
            raises: what it raised; with a CUDA error that a capture refuses, `breaks` is on its own.
            returns: False: it never came back.
            stream: current stream, by default the origin.
            on: status of that stream, by default the capture's for streams that belong to it and 0 elsewhere.
            tid: thread, by default the capturing one.
            results: its result tensors.
            fields: other fields of the record.
        """
        error = raised(raises)
        where = self.trace.at(line, stack, function)
        current = self.stream if stream is None else stream
        thread = self.tid if tid is None else tid
        q = self.trace.add(
            events.Op,
            tid=thread,
            name=name,
            stack=where,
            stream=current,
            on=self._status_of(current, on),
            cap=self.id,
            before=self.status,
            **fields,
        )
        self._break(breaks, error.code if error is not None else 0)
        if returns:
            self.trace.add(
                events.Outcome,
                tid=thread,
                of=q,
                after=self.status,
                exc=error,
                tensors=tuple(results),
                code=error.code if error is not None else None,
            )
        return q

    def call(
        self,
        api: str,
        *,
        line: int | None = None,
        stack: int | None = None,
        function: str = "<module>",
        code: int | None = 0,
        breaks: bool = False,
        raises: Error | None = None,
        layer: str = "driver",
        stream: int = 0,
        on: int | None = None,
        tid: int | None = None,
        **fields: Any,
    ) -> int:
        """A CUDA call, complete, with the status around it; `code=None`: it never came back.

        A code that a capture refuses (900, 902, 903, 905 to 907) breaks it on its own; pass `after=1` for one that left
        it active.
        """
        error = raised(raises)
        if error is not None and not code:
            code = error.code
        before = fields.pop("before", self.status)
        if "after" not in fields:
            self._break(breaks, code or 0)
        after = fields.pop("after", self.status if code is not None else None)
        return self.trace.add(
            events.Call,
            tid=self.tid if tid is None else tid,
            api=api,
            layer=layer,
            code=code,
            cap=self.id,
            before=before,
            after=after,
            stream=stream,
            on=self._status_of(stream, on) if stream else on,
            stack=self.trace.at(line, stack, function),
            exc=error,
            **fields,
        )

    def pycall(
        self,
        name: str,
        *,
        line: int | None = None,
        stack: int | None = None,
        function: str = "<module>",
        breaks: bool = False,
        raises: Error | None = None,
        tid: int | None = None,
        **fields: Any,
    ) -> int:
        """A call of a C function from Python, seen after it returned."""
        error = raised(raises)
        before = fields.pop("before", self.status)
        self._break(breaks, error.code if error is not None else 0)
        return self.trace.add(
            events.PyCall,
            tid=self.tid if tid is None else tid,
            name=name,
            cap=self.id,
            before=before,
            after=self.status,
            stack=self.trace.at(line, stack, function),
            exc=error,
            **fields,
        )

    def record(self, event: int, stream: int | None = None, *, line: int | None = None, **fields: Any) -> int:
        """An event is recorded, by default on the origin stream, seen at torch's layer."""
        fields.setdefault("layer", "torch")
        where = self.stream if stream is None else stream
        q = self.call("torch.cuda.Event.record", line=line, event=event, stream=where, **fields)
        if where in self._members and not fields.get("code"):
            self._events.add(event)
        return q

    def wait(self, stream: int, event: int, *, line: int | None = None, **fields: Any) -> int:
        """A stream waits for an event, seen at torch's layer."""
        fields.setdefault("layer", "torch")
        q = self.call("torch.cuda.Stream.wait_event", line=line, event=event, stream=stream, **fields)
        if event in self._events and not fields.get("code"):
            self._members.add(stream)
        return q

    def wait_stream(self, stream: int, other: int, *, line: int | None = None, **fields: Any) -> int:
        """A stream waits for another's work so far, seen at torch's layer."""
        fields.setdefault("layer", "torch")
        q = self.call("torch.cuda.Stream.wait_stream", line=line, stream=stream, other=other, **fields)
        if other in self._members and not fields.get("code"):
            self._members.add(stream)
        return q

    def log(self, message: str, *, api: str = "", code: int = 0, thread: int = 0, **fields: Any) -> int:
        """An entry of the driver's error log."""
        return self.trace.add(
            events.Log, tid=self.tid, message=message, api=api, code=code, thread=thread, cap=self.id, **fields
        )

    def gc(self, phase: str, *, line: int | None = None, **fields: Any) -> int:
        """A garbage collection starts or stops."""
        where = self.trace.at(line, None, "<module>")
        return self.trace.add(events.Gc, tid=self.tid, phase=phase, cap=self.id, stack=where, **fields)

    def invalidated_unseen(self, *, since: int, by: str = "op", threads: Sequence[tuple[int, int]] = ()) -> int:
        """Between two looks the capture was lost; `since` is the last record after which it was active."""
        self.status = STATUS_INVALIDATED
        return self.trace.add(
            events.CaptureStatus,
            tid=self.tid,
            cap=self.id,
            before=STATUS_ACTIVE,
            after=STATUS_INVALIDATED,
            since=since,
            by=by,
            threads=tuple(threads),
        )

    def end(
        self,
        *,
        line: int | None = None,
        stack: int | None = None,
        raises: Error | None = None,
        passing: Error | None = None,
        nodes: int | None = None,
        returns: bool = True,
        tid: int | None = None,
        **fields: Any,
    ) -> int:
        """Ends the capture.

        Args:
            line: line of the end, by default that of the begin.
            stack: a stack instead.
            raises: what the end raised; by default 901 for an invalidated capture.
            passing: the exception that was leaving the block.
            nodes: nodes in the graph.
            returns: False: it never came back.
            tid: thread, by default the capturing one.
            fields: other fields of the record.
        """
        self.ended = True
        thread = self.tid if tid is None else tid
        where = self.trace.at(line, stack, "<module>") or self.stack
        fields.setdefault("stream", self.stream)
        q = self.trace.add(
            events.CaptureEnd,
            tid=thread,
            cap=self.id,
            api="torch.cuda.CUDAGraph.capture_end",
            stack=where,
            before=self.status,
            exc=raised(passing),
            **fields,
        )
        error = raised(raises)
        if error is None and self.status == STATUS_INVALIDATED:
            error = cuda_error(CAPTURE_INVALIDATED)
        if returns:
            self.trace.add(
                events.Outcome,
                tid=thread,
                of=q,
                code=error.code if error is not None else 0,
                after=0,
                exc=error,
                nodes=nodes,
            )
            if error is None:
                self.exec = self.trace.next_id("exec")
                self.trace.add(events.Exec, tid=thread, id=self.exec, graph=self.graph, code=0)
        return q

    def abandon(self) -> None:
        """Leaves the capture without an end."""
        self.ended = True

    def leave(self) -> None:
        """Ends the capture if that was not done."""
        if not self.ended:
            self.end()

    def _break(self, breaks: bool, code: int) -> None:
        if self.status == STATUS_ACTIVE and (breaks or code in REFUSALS):
            self.status = STATUS_INVALIDATED

    def _status_of(self, stream: int, on: int | None) -> int | None:
        if on is not None:
            return on
        return self.status if stream in self._members else 0
