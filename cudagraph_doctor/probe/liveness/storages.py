"""The storages that operators of capture windows used: one number for each, as long as it may be asked for.

Nothing here keeps memory of the target alive. A weak reference to a storage keeps only the few bytes of its
`StorageImpl` from being given to another one, so that their address names one storage.
"""

from __future__ import annotations

import ctypes
import sys
import weakref

from cudagraph_doctor.probe.tensor_reference import refer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cudagraph_doctor.probe.context import Context
    from cudagraph_doctor.probe.liveness.host_memory import Source
    from cudagraph_doctor.probe.liveness.storage_layout import Layout
    from cudagraph_doctor.probe.liveness.watch import Watch
    from cudagraph_doctor.probe.tensor_reference import TensorRef

MOST = 20_000
"""Storages that are watched at a time."""
MOST_IN_WINDOW = 200_000
"""Storages that get a number in one window: each holds 100 bytes of a dead one until the window ends."""


class WeakImpl:
    """A weak reference to a storage, given back with this object."""

    __slots__ = ("_give_back", "address")

    def __init__(self, address: int, give_back: Callable[[int], None]) -> None:
        self.address = address
        self._give_back = give_back

    def __del__(self) -> None:
        self._give_back(self.address)


class Death:
    """Where the last known tensor of a storage died."""

    __slots__ = ("api", "certain", "stack")

    def __init__(self, stack: int, api: str, *, certain: bool) -> None:
        self.stack = stack
        self.api = api
        self.certain = certain
        """Nothing else had the storage then."""


class Entry:
    """A storage that a window's work used."""

    __slots__ = (
        "__weakref__", "cap", "death", "dev", "host", "id", "impl", "inside", "made", "objects", "pool", "ptr", "size",
        "source", "told", "watched", "word",
    )  # fmt: skip

    def __init__(self, number: int, impl: WeakImpl, word: Any, size: int, dev: str, cap: int) -> None:
        self.id = number
        self.impl = impl
        self.word = word
        """Eight bytes of memory: the address, 0 when it is freed."""
        self.size = size
        self.dev = dev
        self.host = dev == "cpu"
        self.cap = cap
        self.ptr = word.value
        self.inside = False
        self.pool = ""
        self.made = 0
        """Stack of the operator that made it, where a window saw that."""
        self.objects: list[TensorRef] = []
        self.death: Death | None = None
        self.source: Source | None = None
        """What counts its writes, if it is host memory under a captured copy."""
        self.told = False
        self.watched = True

    @property
    def alive(self) -> bool:
        """Its memory is still its own, wherever that lies now."""
        return bool(self.word.value)

    def tensor(self) -> Any:
        """A tensor of it, if one that the window met still is."""
        for reference in self.objects:
            found = reference()
            if found is not None:
                return found
        return None

    def let_go(self, reference: TensorRef) -> None:
        """Drop a reference to a tensor of it."""
        # By identity: two references that are alive compare their tensors, element by element.
        self.objects = [other for other in self.objects if other is not reference]
        if self.source is not None and self.source.tensor is reference:
            self.source.tensor = None


class Uses:
    """The storages that one window's operators used."""

    __slots__ = ("host", "ids", "inside", "outside")

    def __init__(self) -> None:
        self.ids: dict[int, int] = {}
        """Address of the StorageImpl → number."""
        self.outside: dict[int, Entry] = {}
        """By number, those that came from outside."""
        self.inside: list[Any] = []
        """Of each one born in it: number, weak reference, bytes, device, stack; not as a tuple, of which the target's
        garbage collector would count each."""
        self.host: set[int] = set()
        """Numbers of host storages that copies between host and device use."""


class Storages:
    """All storages that are known, of a process."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._by_impl: dict[int, Entry] = {}
        self._give_back: Any = None
        self._use_count: Any = None
        self._layout: Layout | None = None
        self.watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        self.alarmed = False
        """Every watch is due."""
        self._died = context.guard("storages")(self._object_died)

    def start(self, torch: Any, layout: Layout) -> None:
        """From now on storages get numbers."""
        self._give_back = torch.UntypedStorage._free_weak_ref
        self._use_count = torch._C._storage_Use_Count
        self._layout = layout

    # ── in a window ─────────────────────────────────────────────────────────────────────────────
    def meet(self, uses: Uses, tensor: Any, storage: Any, impl: int, dev: str, cap: int) -> int:
        """The number of a storage that a window's operator received and that the window had not met."""
        entry = self._by_impl.get(impl)
        if entry is None:
            if self._layout is None or len(uses.ids) >= MOST_IN_WINDOW:
                return 0
            entry = self._enter(storage._weak_ref(), storage.nbytes(), dev, cap)
        if not entry.objects or entry.objects[-1]() is not tensor:
            entry.objects.append(refer(tensor, entry, self._died))
            base = tensor._base
            if base is not None:
                entry.objects.append(refer(base, entry, self._died))
        uses.ids[impl] = entry.id
        uses.outside[entry.id] = entry
        return entry.id

    def born(self, uses: Uses, storage: Any, impl: int, dev: str, stack: int) -> int:
        """The number of a storage that an operator of the window returned and that the window had not met."""
        known = self._by_impl.get(impl)
        if known is not None:  # it came from outside, by a way that no argument shows
            uses.ids[impl] = known.id
            return known.id
        if self._layout is None or len(uses.ids) >= MOST_IN_WINDOW:
            return 0
        number = uses.ids[impl] = self._context.ids.next("storage")
        uses.inside.extend((number, storage._weak_ref(), storage.nbytes(), dev, stack))
        return number

    def number(self, impl: int) -> int:
        """The number of a known storage by the address of its StorageImpl; 0 if it has none."""
        entry = self._by_impl.get(impl)
        return entry.id if entry is not None else 0

    # ── at the end of a window ──────────────────────────────────────────────────────────────────
    def survivors(self, uses: Uses, cap: int) -> list[Entry]:
        """The storages born in the window that something still has, by now known like those from outside."""
        found: list[Entry] = []
        if self._layout is None:
            return found
        offset, facts = self._layout.offset, iter(uses.inside)
        for number, weak, size, dev, stack in zip(facts, facts, facts, facts, facts, strict=True):
            if not ctypes.c_uint64.from_address(weak + offset).value or weak in self._by_impl:
                self._give_back(weak)
                continue
            entry = self._by_impl[weak] = self._entry(number, WeakImpl(weak, self._give_back), size, dev, cap)
            entry.inside, entry.made = True, stack
            found.append(entry)
        uses.inside.clear()
        return found

    def forget_dead(self) -> None:
        """Drop those that are gone; watches that have them keep them for their own last look."""
        for impl, entry in list(self._by_impl.items()):
            if not entry.alive:
                del self._by_impl[impl]

    def room(self) -> int:
        """How many more may be watched."""
        return MOST - sum(entry.watched for entry in self._by_impl.values())

    # ── later ───────────────────────────────────────────────────────────────────────────────────
    def alarm(self) -> None:
        """Let every watch look before the next replay of its graph."""
        if not self.alarmed:
            self.alarmed = True
            for watch in list(self.watches):
                watch.due = 0

    def _enter(self, weak: int, size: int, dev: str, cap: int) -> Entry:
        number = self._context.ids.next("storage")
        entry = self._entry(number, WeakImpl(weak, self._give_back), size, dev, cap)
        self._by_impl[weak] = entry
        return entry

    def _entry(self, number: int, impl: WeakImpl, size: int, dev: str, cap: int) -> Entry:
        assert self._layout is not None
        return Entry(number, impl, ctypes.c_uint64.from_address(impl.address + self._layout.offset), size, dev, cap)

    def _object_died(self, reference: TensorRef) -> None:
        """A tensor's Python object dies. Its storage does so with it if nothing else has it."""
        entry: Any = reference.holder()
        if entry is None:
            return
        entry.let_go(reference)
        if self._layout is None or entry.objects:
            return
        last = self._use_count(entry.impl.address) <= self._layout.last
        entry.death = Death(self._context.stack(), _api(), certain=last)
        self.alarm()


def _api() -> str:
    """The call in which a tensor dies, where that says who had it."""
    frame = sys._getframe(2).f_back  # beyond `_object_died` and its guard
    ours = frame is not None and frame.f_code.co_filename.endswith(_AUTOCAST)
    return "torch.clear_autocast_cache" if ours else ""


_AUTOCAST = ("torch/amp/autocast_mode.py", "torch\\amp\\autocast_mode.py")


_of: dict[int, Storages] = {}


def storages_of(context: Context) -> Storages:
    """The storages of a context: one object a process."""
    found = _of.get(id(context))
    if found is None:
        found = _of[id(context)] = Storages(context)
    return found
