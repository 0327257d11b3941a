"""Stream captures and what is told about them."""

from cudagraph_doctor.trace.events.base import Link, Pointer, Raised, Record


class Capture(Record, tag="capture", frozen=True, kw_only=True):
    """A stream capture begins. An intention; its outcome says whether it did."""

    id: int
    stream: int
    """Id of the origin stream."""
    mode: str = "global"
    api: str = ""
    """What began it: `torch.cuda.CUDAGraph.capture_begin`, `cuStreamBeginCapture`, `cudaStreamBeginCapture`."""
    graph: int = 0
    """Id of the graph object."""
    driver_id: int = 0
    """The driver's own id of the capture sequence, 0 where it was not asked."""
    device: int = 0
    pool: str = ""
    shared_pool: bool = False
    stack: int = 0
    on: int | None = None
    """Status of the stream before."""
    handle: Pointer = ""
    """Raw handle of the origin stream, from a writer that knows no ids; `stream` is then 0."""


class CaptureStatus(Record, tag="capture-status", frozen=True, kw_only=True):
    """The status of a capture's origin stream was seen to have changed."""

    cap: int
    before: int
    after: int
    across: int = 0
    """`q` of the one record (op, call, pycall) across which it changed; 0 if it changed unseen."""
    since: int = 0
    """If unseen: `q` of the last record after which the status was still `before`."""
    by: str = ""
    """Who looked: `op`, `pycall`, `call`, `end`."""
    threads: tuple[tuple[int, int], ...] = ()
    """If unseen: (tid, stack id) of every other Python thread when it was noticed."""


class CaptureEnd(Record, tag="capture-end", frozen=True, kw_only=True):
    """A stream capture is about to end. An intention."""

    cap: int
    stream: int = 0
    """Id of the stream on which the end was asked for."""
    api: str = ""
    stack: int = 0
    before: int | None = None
    """Status of the origin stream."""
    nodes: int | None = None
    """Nodes captured so far, where the driver could be asked."""
    handle: Pointer = ""
    """As in `capture`."""
    exc: Raised | None = None
    """An exception was passing through when the capture was ended (`torch.cuda.graph.__exit__`)."""


class State(Record, tag="state", frozen=True, kw_only=True):
    """What a failed capture left behind."""

    cap: int
    stream_current: bool | None = None
    """The capture stream is still the thread's current stream."""
    stream: int = 0
    rng: str = ""
    pool: str = ""
    sticky: int | None = None
    """Error code that every later call returns; 0: none."""
    status: int | None = None
    """Status of the origin stream after the end."""


class Log(Record, tag="log", frozen=True, kw_only=True):
    """An entry of the driver's own error log."""

    message: str
    api: str = ""
    code: int = 0
    thread: int = 0
    """Native id of the thread it concerns; 0 where the log does not say."""
    level: str = "error"
    cap: int = 0
    after: int = 0
    """`q` of the record after which it was read."""


class Gc(Record, tag="gc", frozen=True, kw_only=True):
    """A garbage collection started or stopped inside a capture window."""

    phase: str
    generation: int = 0
    collected: int = 0
    cap: int = 0
    stack: int = 0


class ExceptionRecord(Record, tag="exception", frozen=True, kw_only=True):
    """An exception reached a place where it is told."""

    where: str
    """`uncaught`, `thread`, `capture-exit` (leaving a `torch.cuda.graph` block), `raised` (anywhere in a window)."""
    chain: tuple[Link, ...]
    """The exception first, then what it hangs on."""
    cap: int = 0
    thread: str = ""
