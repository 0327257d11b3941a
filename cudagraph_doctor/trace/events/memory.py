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


class Race(Record, tag="race", frozen=True, kw_only=True):
    """Two accesses to the same bytes of which nothing says which comes first. Told by the simulated device."""

    what: str
    """`write after unordered write`, `read after unordered write`, `write after unordered read`, or what the host did
    to the pinned source of a copy."""
    ptr: Pointer
    """Start of the block, or of the copy's source."""
    size: int
    """Bytes of the block, or of the copy's source."""
    first: int = 0
    """Id of the stream of the first access."""
    stream: int = 0
    """Id of the stream of the second access."""
    name: str = ""
    """Operator or call that made the second access, `aten::mul_` or `cuGraphLaunch`."""
    cap: int = 0
    stack: int = 0
    """Where it was noticed: the second access, or the wait after which the host's write showed."""
