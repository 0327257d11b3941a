"""CUDA objects apart from graphs: streams, events, modules, functions, contexts."""

from msgspec import field

from cudagraph_doctor.trace.events.base import Pointer, Record


class Stream(Record, tag="stream", frozen=True, kw_only=True):
    """A CUDA stream was first seen."""

    id: int
    handle: Pointer
    device: int = 0
    kind: str = "stream"
    """`legacy` (the default stream, handle 0 or 1), `per-thread`, `stream`, `external`."""
    blocking: bool | None = None
    """It synchronises implicitly with the legacy stream."""
    priority: int = 0
    stack: int = 0


class Event(Record, tag="event", frozen=True, kw_only=True):
    """A CUDA event was first seen."""

    id: int
    handle: Pointer = ""
    timing: bool = False
    external: bool = False
    stack: int = 0


class Module(Record, tag="module", frozen=True, kw_only=True):
    """A module or library of kernels was loaded or unloaded."""

    id: int
    what: str
    handle: Pointer = ""
    size: int | None = None
    name: str = ""
    cap: int = 0
    took: int | None = None
    code: int | None = None
    stack: int = 0


class Function(Record, tag="function", frozen=True, kw_only=True):
    """A kernel function, with what the driver says of it."""

    id: int
    name: str
    module: int = 0
    attributes: dict[str, int] = field(default_factory=dict)


class Context(Record, tag="context", frozen=True, kw_only=True):
    """A context was first seen, became current, or died."""

    id: int
    what: str = "seen"
    handle: Pointer = ""
    device: int = 0
    primary: bool | None = None
    stack: int = 0


class Destroy(Record, tag="destroy", frozen=True, kw_only=True):
    """An object died: graph, exec, stream, event, context."""

    what: str
    id: int
    stack: int = 0
    code: int | None = None
