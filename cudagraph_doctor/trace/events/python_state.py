"""Python state that a captured region read or wrote, and who holds what it returned."""

from cudagraph_doctor.trace.events.base import Frame, Pointer, Record


class Slot(Record, tag="slot", frozen=True, kw_only=True):
    """A Python slot that a captured region read or wrote, and what it held when the region first touched it."""

    id: int
    path: str
    """As the user writes it: `self.layers[3].scale`, `options["penalty"]`."""
    kind: str
    """`global`, `local`, `cell`, `attribute`, `item`."""
    cap: int = 0
    read: bool = True
    written: bool = False
    first: str = "read"
    """Which came first in the region: `read` makes it an input of the region, `write` something of its own."""
    type: str = ""
    """Qualified type of the value: `int`, `torch.Tensor`, `torch.nn.Parameter`, `list`."""
    value: str = ""
    """repr of a number, bool, string, None or tuple of such, at most 200 characters; `len 3` for a container."""
    ptr: Pointer = ""
    """Of a tensor: its first byte."""
    storage: int = 0
    """Of a tensor: id of its storage, as `Tensor.storage`."""
    shape: tuple[int, ...] = ()
    version: int | None = None
    """Of a tensor: its version counter; None where it has none."""
    role: str = ""
    """`parameter`, `buffer` (registered with a module), empty otherwise."""
    left: str = ""
    """What the slot held when the region ended, where the region wrote it; as `value`."""
    left_ptr: Pointer = ""
    reads: tuple[Frame, ...] = ()
    """Where the region read it, with columns, in order, at most 8; source ids as in a stack."""
    writes: tuple[Frame, ...] = ()
    stack: int = 0
    """Stack of the first access."""


class SlotChange(Record, tag="slot-change", frozen=True, kw_only=True):
    """A look before a replay found something else in a watched slot than the region had read."""

    slot: int
    value: str = ""
    ptr: Pointer = ""
    type: str = ""
    storage: int = 0
    shape: tuple[int, ...] = ()
    exec: int = 0
    replay: int = 0
    """Number of the replay before which the look was, from 1."""
    refreshed: bool | None = None
    """Of a tensor slot: the captured tensor is still being written since the last look; None: cannot be known."""
    stack: int = 0
    """Stack of the store that changed it; 0: not known."""
    guess: bool = False
    """The store was inferred from the source text, not seen."""
    given: str = ""
    """The slot itself did not change: the frame that replays was handed another tensor under the same key, by this
    path (`args[1]["text_embeds"]`), and nothing was copied into the captured one."""


class SlotUse(Record, tag="slot-use", frozen=True, kw_only=True):
    """Code outside the region read a slot that the region writes: it counts on a side effect that replay skips."""

    slot: int
    exec: int = 0
    replay: int = 0
    """Replays begun by then."""
    stack: int = 0
    guess: bool = False
    """The read was found in the source text, not seen."""


class Output(Record, tag="output", frozen=True, kw_only=True):
    """A tensor made in a capture window that something outside refers to when the window has ended."""

    id: int
    cap: int
    storage: int
    ptr: Pointer = ""
    shape: tuple[int, ...] = ()
    path: str = ""
    """The name or slot that holds it."""
    role: str = ""
    """`result` (bound anew by the region each time it runs), `lazy` (a slot that was empty before the region: a table
    built on first use), `state` (a slot that held another tensor before), empty where it is not known."""
    stack: int = 0
    """Operator that made it."""


class Held(Record, tag="held", frozen=True, kw_only=True):
    """Something still refers to an output of a replay when the next replay is about to overwrite it."""

    output: int
    exec: int = 0
    replay: int = 0
    """Number of the replay about to begin, from 1."""
    holder: str = ""
    """Who: `results` (list), `self.cache["last"]`."""
    holder_type: str = ""
    """`list`, `dict`, `attribute`, `local`."""
    count: int = 0
    """References to the output or to views of it beyond those of the capture."""
    stack: int = 0
    """Where it was put there; 0: not known."""
    guess: bool = False
    read_stack: int = 0
    """Where it was read after having been overwritten; 0: not seen."""
