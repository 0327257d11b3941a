"""Graphs, their nodes and edges, executable graphs and their replays."""

from cudagraph_doctor.trace.events.base import Pointer, Raised, Record


class Graph(Record, tag="graph", frozen=True, kw_only=True):
    """A graph object: of torch, or a raw cudaGraph_t."""

    id: int
    handle: Pointer = ""
    cap: int = 0
    nodes: int | None = None
    edges: int | None = None
    kept: bool = False
    """The user asked torch to keep the graph (`keep_graph=True`)."""
    pool: str = ""
    """Its memory pool as torch writes it, "0,1"; empty where it is not known."""
    stack: int = 0


class Node(Record, tag="node", frozen=True, kw_only=True):
    """A node of a graph."""

    id: int
    graph: int
    type: str
    kernel: str = ""
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    smem: int | None = None
    regs: int | None = None
    static_smem: int | None = None
    """Bytes of shared memory that the kernel's code declares."""
    max_smem: int | None = None
    """Bytes of dynamic shared memory that a launch of the kernel may ask for."""
    local: int | None = None
    """Bytes of local memory of a thread."""
    ptrs: tuple[Pointer, ...] = ()
    """Parameters that are addresses of known memory, each once."""
    words: tuple[Pointer, ...] = ()
    """Words inside structures by value, and inside packed parameters, that would be such addresses."""
    opaque: bool = False
    """Its parameters are packed by a library; the operator's arguments stand in."""
    src: Pointer = ""
    """Of a copy: first byte read."""
    dst: Pointer = ""
    """Of a copy or memset: first byte written; of an allocation or free: its address."""
    size: int = 0
    """Bytes of a copy, memset or allocation."""
    op: int = 0
    """Operator record during which it was made; 0: outside of operators, or not known."""
    parent: int = 0
    """Node in whose child graph, or conditional body, it lies."""
    handle: Pointer = ""
    context: Pointer = ""
    """Handle of the context that the kernel runs in."""
    ctx: int = 0


class Edge(Record, tag="edge", frozen=True, kw_only=True):
    """A dependency between two nodes."""

    graph: int
    source: int
    target: int
    type: str = "full"


class Exec(Record, tag="exec", frozen=True, kw_only=True):
    """A graph was instantiated."""

    id: int
    graph: int = 0
    handle: Pointer = ""
    code: int | None = None
    flags: int = 0
    stack: int = 0
    slot: int | None = None
    """Index of its replay slot."""


class Update(Record, tag="update", frozen=True, kw_only=True):
    """An executable graph was updated, or that was refused."""

    exec: int
    graph: int = 0
    code: int = 0
    result: str = ""
    node: int = 0
    stack: int = 0


class Replay(Record, tag="replay", frozen=True, kw_only=True):
    """Replays of one executable graph: one that is told apart (a first one, a failed one), or a count from its slot."""

    exec: int
    graph: int = 0
    count: int = 1
    """Replays begun."""
    done: int | None = None
    """Replays that came back; fewer than `count` names a fatal or hanging one."""
    first: bool = False
    code: int | None = None
    exc: Raised | None = None
    stream: int = 0
    on: int | None = None
    """Status of the stream it was launched on; not 0: a replay inside a capture."""
    cap: int = 0
    stack: int = 0
    after: int = 0
    """Executable graph of the same memory pool that was replayed last before it, where several graphs use the pool."""
    total: bool = False
    """Written at the end from the slot: `count` is the number over the life of the process."""
