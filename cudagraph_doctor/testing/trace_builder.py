"""Writes traces by hand, in the words of the trace: for tests of checkers, without a GPU and without torch.

    trace = TraceBuilder(source=SCRIPT)
    with trace.capture(line=10) as capture:
        capture.op("aten::mm", line=11)
        capture.op("aten::_local_scalar_dense", line=12, breaks=True, raises=CudaError(900))
    trace.seal(returncode=1)
    assert_finds(trace, "CGD101", line=12)

Sequence numbers, times, stacks, intentions with their outcomes and the capture status before and after are kept by the
builder; whatever it does not know how to say, `add` says.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from cudagraph_doctor import __version__
from cudagraph_doctor._wire import FORMAT, MODES, ROLE_LIBRARY, ROLE_THIRD_PARTY, ROLE_USER, VERSION
from cudagraph_doctor.session.build import build_from
from cudagraph_doctor.testing.capture_builder import CaptureBuilder
from cudagraph_doctor.testing.raised import raised
from cudagraph_doctor.trace import events
from cudagraph_doctor.trace.encode import encode_records

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.testing.raised import Error

R = TypeVar("R", bound=events.Record)

MAIN_THREAD = 1000
START = 1_000_000_000
"""Time of the header, nanoseconds."""
STEP = 1_000
"""Nanoseconds from one record to the next."""


class TraceBuilder:
    """The trace of one process, record by record."""

    def __init__(
        self,
        *,
        source: str = "",
        path: str = "cwd:script.py",
        backend: str = "cuda",
        evidence: str = "python",
        capabilities: Sequence[str] = (
            "capture",
            "ops",
            "c-calls",
            "streams",
            "status",
            "exceptions",
            "log",
            "threads",
        ),
        **header: Any,
    ) -> None:
        """Begins a trace.

        Args:
            source: text of the user's script, so that locations carry their code.
            path: recorded path of the user's script, `root:relative/path`.
            backend: `cuda` or `sim`.
            evidence: level of evidence that is on from the start.
            capabilities: parts of the recorder that are on.
            header: other fields of the header.
        """
        self.records: list[events.Record] = []
        self.path = path
        self._q = 0
        self._t = START
        self._ids: dict[str, int] = {}
        self._sources: dict[str, int] = {}
        self._stacks: dict[tuple[events.Frame, ...], int] = {}
        header.setdefault("pid", 4242)
        header.setdefault("wall", 1_796_000_000_000_000_000)
        header.setdefault("argv", ("script.py",))
        self.add(events.Header, format=FORMAT, version=VERSION, backend=backend, tool=__version__, **header)
        self.add(events.EvidenceLevel, level=evidence)
        for name in capabilities:
            self.capability(name)
        self.source(path, text=source)

    # ── bookkeeping ──────────────────────────────────────────────────────────────────────────

    def add(self, kind: type[R], /, *, tid: int = MAIN_THREAD, **fields: Any) -> int:
        """Writes any record and returns its sequence number."""
        self._q += 1
        self._t += STEP
        self.records.append(kind(q=self._q, t=self._t, tid=tid, **fields))
        return self._q

    def next_id(self, what: str) -> int:
        """The next id of a class of objects, from 1 on."""
        self._ids[what] = self._ids.get(what, 0) + 1
        return self._ids[what]

    def skip_time(self, seconds: float) -> None:
        """Lets time pass."""
        self._t += int(seconds * 1e9)

    # ── sources and stacks ───────────────────────────────────────────────────────────────────

    def source(self, path: str, *, text: str = "", role: str | None = None, dist: str = "", module: str = "") -> int:
        """A source file; its role follows from the path where none is given. Returns its id."""
        known = self._sources.get(path)
        if known is not None:
            return known
        if role is None:
            role = _role_of(path)
        number = self._sources[path] = self.next_id("source")
        packed = base64.b64encode(zlib.compress(text.encode())).decode() if text else None
        digest = hashlib.sha256(text.encode()).hexdigest() if text else ""
        self.add(events.Source, id=number, path=path, role=role, dist=dist, module=module, hash=digest, text=packed)
        return number

    def stack(
        self,
        line: int | None,
        *,
        function: str = "<module>",
        path: str | None = None,
        below: Sequence[tuple[str, int, str]] = (),
        above: Sequence[tuple[str, int, str]] = (),
        column: int | None = None,
    ) -> int:
        """A Python stack, interned.

        Args:
            line: line of the user's frame; None: a stack without one.
            function: qualified function of that frame.
            path: its file, where it is not the script.
            below: what it called, outermost first, as (path, line, function).
            above: who called it, innermost first.
            column: column of the expression, from 0.
        """
        frames = [self._frame(p, n, f) for p, n, f in reversed(below)]
        if line is not None:
            frames.append((self.source(path or self.path), line, function, None, column, None))
        frames += [self._frame(p, n, f) for p, n, f in above]
        key = tuple(frames)
        if not key:
            return 0
        if key not in self._stacks:
            self._stacks[key] = self.next_id("stack")
            self.add(events.Stack, id=self._stacks[key], frames=key)
        return self._stacks[key]

    def _frame(self, path: str, line: int, function: str) -> events.Frame:
        return (self.source(path), line, function, None, None, None)

    def at(self, line: int | None, stack: int | None, function: str) -> int:
        """The stack that `line=` or `stack=` of a method means."""
        if stack is not None:
            return stack
        return self.stack(line, function=function) if line is not None else 0

    # ── what the process did ─────────────────────────────────────────────────────────────────

    @contextmanager
    def capture(self, **options: Any) -> Iterator[CaptureBuilder]:
        """A capture window: begun here, ended when the block is left. Options as of `begin_capture`."""
        capture = self.begin_capture(**options)
        yield capture
        capture.leave()

    def begin_capture(
        self,
        *,
        line: int | None = 1,
        stack: int | None = None,
        function: str = "<module>",
        mode: str = "global",
        stream: int | None = None,
        graph: int | None = None,
        tid: int = MAIN_THREAD,
        api: str = "torch.cuda.CUDAGraph.capture_begin",
        refused: Error | None = None,
        **fields: Any,
    ) -> CaptureBuilder:
        """Begins a capture; `refused` is the error its begin raised. Without `stream`, on a new non-blocking one."""
        if mode not in MODES:
            raise ValueError(f"no such capture mode: {mode}")
        origin = stream if stream is not None else self.stream()
        number = self.next_id("capture")
        holder = graph if graph is not None else self.next_id("graph")
        where = self.at(line, stack, function)
        q = self.add(
            events.Capture,
            tid=tid,
            id=number,
            stream=origin,
            mode=mode,
            api=api,
            graph=holder,
            stack=where,
            on=0,
            **fields,
        )
        self.add(events.Outcome, tid=tid, of=q, **_outcome(refused, after=None if refused else 1))
        return CaptureBuilder(self, number, origin, holder, tid, where, active=refused is None)

    def stream(self, *, kind: str = "stream", blocking: bool = False, device: int = 0, **fields: Any) -> int:
        """A CUDA stream; returns its id."""
        number = self.next_id("stream")
        handle = fields.pop("handle", "0x0" if kind == "legacy" else hex(0x5500_0000 + number * 64))
        self.add(events.Stream, id=number, handle=handle, kind=kind, blocking=blocking, device=device, **fields)
        return number

    def event(self, *, external: bool = False, timing: bool = False) -> int:
        """A CUDA event; returns its id."""
        number = self.next_id("event")
        self.add(events.Event, id=number, handle=hex(0x6600_0000 + number * 64), external=external, timing=timing)
        return number

    def thread(self, tid: int, name: str, **fields: Any) -> int:
        """A thread; returns its id."""
        self.add(events.Thread, tid=tid, name=name, **fields)
        return tid

    def call(
        self,
        api: str,
        *,
        line: int | None = None,
        stack: int | None = None,
        function: str = "<module>",
        layer: str = "driver",
        code: int | None = 0,
        tid: int = MAIN_THREAD,
        raises: Error | None = None,
        **fields: Any,
    ) -> int:
        """A CUDA call outside of capture windows, complete. `code=None`: one that never came back."""
        error = raised(raises)
        if error is not None and not code:
            code = error.code
        where = self.at(line, stack, function)
        return self.add(events.Call, tid=tid, api=api, layer=layer, code=code, stack=where, exc=error, **fields)

    def record(self, event: int, stream: int, *, line: int | None = None, **fields: Any) -> int:
        """An event is recorded on a stream, seen at torch's layer."""
        fields.setdefault("layer", "torch")
        return self.call("torch.cuda.Event.record", line=line, event=event, stream=stream, **fields)

    def wait(self, stream: int, event: int, *, line: int | None = None, **fields: Any) -> int:
        """A stream waits for an event, seen at torch's layer."""
        fields.setdefault("layer", "torch")
        return self.call("torch.cuda.Stream.wait_event", line=line, event=event, stream=stream, **fields)

    def wait_stream(self, stream: int, other: int, *, line: int | None = None, **fields: Any) -> int:
        """A stream waits for all work of another so far, seen at torch's layer."""
        fields.setdefault("layer", "torch")
        return self.call("torch.cuda.Stream.wait_stream", line=line, stream=stream, other=other, **fields)

    def replay(
        self,
        graph: int,
        *,
        line: int | None = None,
        stack: int | None = None,
        count: int = 1,
        raises: Error | None = None,
        **fields: Any,
    ) -> int:
        """Replays of the graph object's newest executable graph, complete."""
        error = raised(raises)
        done = None if error is not None else count
        code = error.code if error is not None else 0
        where = self.at(line, stack, "<module>")
        fields.setdefault("exec", 0)
        return self.add(events.Replay, graph=graph, count=count, done=done, code=code, exc=error, stack=where, **fields)

    def exception(self, *chain: events.Link, where: str = "uncaught", **fields: Any) -> int:
        """An exception was told; `chain` is the exception first, then what it hangs on."""
        return self.add(events.ExceptionRecord, where=where, chain=chain, **fields)

    def capability(self, name: str, state: str = "on", why: str = "", **fields: Any) -> int:
        """A part of the recorder is on, off or unavailable."""
        return self.add(events.Capability, name=name, state=state, why=why, **fields)

    def seal(self, returncode: int | None = 0, *, signal: str = "", **fields: Any) -> int:
        """How the process ended."""
        return self.add(events.Seal, returncode=None if signal else returncode, signal=signal, **fields)

    # ── the result ───────────────────────────────────────────────────────────────────────────

    def encode(self) -> bytes:
        """The trace as a file's content."""
        return encode_records(self.records)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace to a file."""
        with open(path, "wb") as file:
            file.write(self.encode())

    def session(self, own: tuple[str, ...] = ()) -> Session:
        """What the analyser makes of the trace, for tests of the session itself."""
        return build_from(self.records, own=own)


def _role_of(path: str) -> str:
    root, _, rest = path.partition(":")
    if root in ("stdlib", "cache") or rest.startswith(("torch/", "triton/", "cuda/", "numpy/")):
        return ROLE_LIBRARY
    return ROLE_THIRD_PARTY if root == "site" else ROLE_USER


def _outcome(error: Error | None, *, after: int | None) -> dict[str, Any]:
    found = raised(error)
    return {"code": found.code if found is not None else 0, "exc": found, "after": after}
