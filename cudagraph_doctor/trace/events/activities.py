"""What threads did: operators, calls, and how they ended."""

from cudagraph_doctor.trace.events.base import Pointer, Raised, Record, Tensor


class Op(Record, tag="op", frozen=True, kw_only=True):
    """A torch operator is about to run inside a capture window. An intention."""

    name: str
    """`aten::copy_`."""
    overload: str = "default"
    stack: int = 0
    via: int = 0
    """Thread whose stack this is, where another one runs the operator (autograd)."""
    stream: int = 0
    """Id of the current stream of the operator's device."""
    on: int | None = None
    """Status of that stream before."""
    cap: int = 0
    """Capture whose window this is."""
    before: int | None = None
    """Status of that capture's origin stream before."""
    kind: str = "compute"
    """`compute`, `view` (no work on the device), `alloc` (memory only), `host` (no CUDA tensor)."""
    tensors: tuple[Tensor, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    """(place, value) of numbers, strings, dtypes, devices among the arguments; at most 200 characters each."""
    device: int | None = None
    """CUDA device the work goes to."""


class PyCall(Record, tag="pycall", frozen=True, kw_only=True):
    """A call of a C function from Python inside a capture window, across which something happened; seen after it."""

    name: str
    """Qualified name: `torch._C._cuda_synchronize`, `torch._C.Generator.manual_seed`."""
    stack: int = 0
    cap: int = 0
    before: int | None = None
    after: int | None = None
    exc: Raised | None = None


class Call(Record, tag="call", frozen=True, kw_only=True):
    """A CUDA API call. Complete when it has a `code`; otherwise an intention."""

    api: str
    """Name as called: `cuStreamSynchronize`, `cudaMalloc`."""
    layer: str = "driver"
    """Who saw it: `driver` (CUPTI), `bindings` (cuda-bindings), `torch` (torch's Python classes), `sim`."""
    code: int | None = None
    cap: int = 0
    """Capture concerned: the one the stream belongs to, else the open one that the call conflicts with."""
    before: int | None = None
    after: int | None = None
    stream: int = 0
    on: int | None = None
    """Status of `stream` before."""
    event: int = 0
    other: int = 0
    """Second stream: the one whose work a wait waits for."""
    handle: Pointer = ""
    """Raw handle of the stream, from a writer that knows no ids; `stream` is then 0."""
    event_handle: Pointer = ""
    """As `handle`, of the event."""
    inflight: bool = False
    """It was under way when it began to be watched: what was before it is not known."""
    took: int | None = None
    """Nanoseconds."""
    driver_id: int = 0
    """The driver's own id of the capture sequence that its stream belongs to."""
    no_stack: str = ""
    """Why there is no stack."""
    stack: int = 0
    via: int = 0
    op: int = 0
    """`q` of the operator inside which it was made."""
    lib: str = ""
    """Native library that called."""
    ctx: int = 0
    device: int | None = None
    size: int | None = None
    """Bytes, where the call has a size."""
    ptr: Pointer = ""
    ptrs: tuple[Pointer, ...] = ()
    """Words of a kernel's parameters that may be pointers."""
    kernel: str = ""
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    smem: int | None = None
    node: int = 0
    """Id of the node it created."""
    node_handle: Pointer = ""
    """As `handle`, of the node."""
    returns: tuple[Pointer, ...] = ()
    """Native return addresses outside of CUDA's own libraries, innermost first; `library` records say whose."""
    mode: str = ""
    """Capture mode of the calling thread, where it exchanged it."""
    exc: Raised | None = None


class Outcome(Record, tag="outcome", frozen=True, kw_only=True):
    """How the intention `of` ended."""

    of: int
    code: int | None = None
    after: int | None = None
    exc: Raised | None = None
    tensors: tuple[Tensor, ...] = ()
    """Results of an operator."""
    node: int = 0
    nodes: int | None = None
    node_handle: Pointer = ""
    """Raw handle of the node that a call created."""
    ptr: Pointer = ""
    """Handle or address that a call made."""
    took: int | None = None
    """Nanoseconds that a call took."""


class Launch(Record, tag="launch", frozen=True, kw_only=True):
    """A kernel launch, where it is recorded apart from its call."""

    kernel: str
    stream: int = 0
    on: int | None = None
    cap: int = 0
    function: int = 0
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    smem: int = 0
    ptrs: tuple[Pointer, ...] = ()
    node: int = 0
    stack: int = 0
    op: int = 0


class Copy(Record, tag="copy", frozen=True, kw_only=True):
    """A copy or memset between two ranges."""

    src: Pointer = ""
    dst: Pointer = ""
    size: int
    direction: str = ""
    """`h2d`, `d2h`, `d2d`, `h2h`, `set`."""
    pinned: bool = False
    blocking: bool = False
    stream: int = 0
    on: int | None = None
    cap: int = 0
    node: int = 0
    stack: int = 0
    op: int = 0
