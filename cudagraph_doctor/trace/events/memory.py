"""Memory that came to life and died."""

from cudagraph_doctor.trace.events.base import Pointer, Record


class Alloc(Record, tag="alloc", frozen=True, kw_only=True):
    """Memory came to life."""

    id: int
    ptr: Pointer
    size: int
    space: str = "device"
    """`device`, `pinned`, `managed`, `pool` (a block of a caching allocator), `async`."""
    pool: str = ""
    stream: int = 0
    cap: int = 0
    api: str = ""
    stack: int = 0


class Free(Record, tag="free", frozen=True, kw_only=True):
    """Memory died."""

    ptr: Pointer
    id: int = 0
    api: str = ""
    stack: int = 0
    noticed: bool = False
    """The stack is where it was noticed, not where it happened."""
