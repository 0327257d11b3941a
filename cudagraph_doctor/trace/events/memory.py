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


class Storage(Record, tag="storage", frozen=True, kw_only=True):
    """The storage of tensors that operators of a capture window used; told once, when a window first meets it."""

    id: int
    """As `Tensor.storage`."""
    ptr: Pointer
    """Address of its first byte."""
    size: int
    """Bytes."""
    dev: str
    """Device, "cuda:0" or "cpu"."""
    cap: int = 0
    """Capture whose window met it first."""
    inside: bool = False
    """Born in that window: its memory is the graph's own."""
    space: str = "device"
    """`device`, `pinned`, `pageable`, `managed`."""
    pool: str = ""
    """`general`, or the id of a private pool as torch writes it, "0,1"; empty where it is not known."""
    owner: str = ""
    """Who made it, where that is known: `autocast cache`, `parameter`, `buffer`, `cublas workspace`."""
    watched: bool = True
    """Its life is followed; False: beyond the bound on how many are."""
    stack: int = 0
    """Stack at which it was made; 0: before anything was recorded."""


class Free(Record, tag="free", frozen=True, kw_only=True):
    """Memory died, or moved away from its address."""

    ptr: Pointer
    id: int = 0
    """Id of the storage or allocation."""
    api: str = ""
    stack: int = 0
    noticed: bool = False
    """The stack is where it was noticed, not where it happened."""
    guess: bool = False
    """The stack is where the last known tensor of it died; something unknown had the storage for longer."""
    moved: Pointer = ""
    """The storage lives on at this address."""
    now: str = ""
    """What is at the old address when it was noticed: `cached` (kept by the allocator, nobody's), `reused` (another
    storage's), `unmapped`, empty where it is not known."""
    owner: str = ""
    """Who has the address now, in words, where that is known: `a tensor of shape (64, 64) made at serve.py:31`."""
    exec: int = 0
    """Executable graph before whose replay it was noticed."""
    replay: int = 0
    """Number of that replay, from 1."""


class Rewrite(Record, tag="rewrite", frozen=True, kw_only=True):
    """Host memory that a captured copy reads was written again, or given to somebody else, while replays need it."""

    storage: int
    what: str
    """`written`, `recycled` (the pinned allocator gave the block to another tensor), `freed`."""
    exec: int = 0
    replay: int = 0
    """Number of the replay before or behind which it was noticed, from 1."""
    pending: bool = False
    """That replay was not known to be done: no synchronisation in between."""
    before: int | None = None
    """Version counter then and now, where there is one."""
    after: int | None = None
    stack: int = 0
    noticed: bool = False
    """The stack is where it was noticed, not where it happened."""


class Touch(Record, tag="touch", frozen=True, kw_only=True):
    """Work outside every window that writes or reads memory of a graph: an input filled, an output used."""

    storage: int
    what: str
    """`write`, `read`, `host-read` (the host reads the bytes: `.item()`, `.cpu()`)."""
    name: str = ""
    """Operator or call, `aten::copy_`."""
    stream: int = 0
    """Id of the stream it runs on; 0: the host."""
    ptr: Pointer = ""
    size: int = 0
    """First byte and number of bytes, where they are known."""
    whole: bool = True
    """It covers the whole storage; False: a part (a slice of a padded batch)."""
    version: int | None = None
    stack: int = 0


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
    first_name: str = ""
    """What made the first access, as `name`; "" where that was not noted: of memory that no graph uses, and before the
    first capture."""
    first_stack: int = 0
    """Where the first access was made."""
    stream: int = 0
    """Id of the stream of the second access."""
    name: str = ""
    """Operator or call that made the second access, `aten::mul_` or `cuGraphLaunch`."""
    cap: int = 0
    stack: int = 0
    """Where it was noticed: the second access, or the wait after which the host's write showed."""
