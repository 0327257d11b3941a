"""Tells which storages a graph uses when its capture ends, and what became of them before a replay."""

from __future__ import annotations

from cudagraph_doctor.probe.arm import windows_of
from cudagraph_doctor.probe.liveness.allocator_map import Allocator, AllocatorMap
from cudagraph_doctor.probe.liveness.host_memory import HostMemory, staged_of
from cudagraph_doctor.probe.liveness.owners import Owners
from cudagraph_doctor.probe.liveness.pool_order import Pools
from cudagraph_doctor.probe.liveness.storages import storages_of
from cudagraph_doctor.probe.liveness.watch import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudagraph_doctor.probe.arm import Window
    from cudagraph_doctor.probe.context import Context
    from cudagraph_doctor.probe.liveness.storages import Entry

MOST_FREES = 4000
"""Records of storages that died under a graph; 250 bytes each."""


class Watcher:
    """Writes `storage` and `free` records."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._storages = storages_of(context)
        self._windows = windows_of(context)
        self._allocator: Allocator | None = None
        self._owners: Owners | None = None
        self._torch: Any = None
        self._host: HostMemory | None = None
        self._left = MOST_FREES
        self.pools = Pools()
        self._seen: AllocatorMap | None = None
        """The snapshot of the newest end of a window, until its graph was told."""

    def start(self, torch: Any) -> None:
        """Torch is there, and its storages can be watched."""
        self._torch = torch
        self._allocator = Allocator(torch)
        self._host = HostMemory(self._context, torch)
        self._owners = Owners(torch)

    # ── the end of a window ─────────────────────────────────────────────────────────────────────
    def settle(self, window: Window) -> Watch | None:
        """Tell the storages of a window whose capture has ended; what is to be looked at before its replays."""
        uses, storages = window.uses, self._storages
        self._seen = None  # of a window whose graph was never told
        if not uses.ids:
            return None
        storages.forget_dead()
        inside = storages.survivors(uses, window.id)
        outside = list(uses.outside.values())
        fresh = [entry for entry in (*outside, *inside) if not entry.told]
        if fresh:
            self._tell(fresh, uses.host)
        entries = [entry for entry in (*outside, *inside) if entry.watched and entry.alive]
        staged = [entry for entry in outside if entry.id in uses.host and entry.alive]
        uses.ids.clear()
        watch = Watch(window.graph, entries, staged_of(staged, self._torch) if staged else None)
        storages.watches.add(watch)
        return watch

    def _tell(self, fresh: list[Entry], staged: set[int]) -> None:
        owners, allocator = self._owners, self._allocator
        seen = allocator.look() if allocator is not None and any(not entry.host for entry in fresh) else None
        self._seen = seen
        names = owners.of_entries(fresh) if owners is not None else {}
        room = self._storages.room()
        for entry in fresh:
            entry.told = True
            fields: dict[str, Any] = {"id": entry.id, "ptr": hex(entry.ptr), "size": entry.size, "dev": entry.dev}
            fields["cap"] = entry.cap
            if entry.inside:
                fields["inside"] = True
            if entry.host:
                fields["space"] = "pinned" if self._pinned(entry, staged) else "pageable"
            elif seen is not None:
                entry.pool = fields["pool"] = seen.pool(entry.ptr)
            if entry.id in names:
                fields["owner"] = names[entry.id]
            if room < 0:
                room += 1
                entry.watched = fields["watched"] = False
            if entry.made:
                fields["stack"] = entry.made
            self._context.write("storage", **fields)

    def ranges(self, watch: Watch | None) -> list[tuple[int, int]]:
        """(address, bytes) of what a graph may point at: the allocator's memory, and the host's under its copies."""
        seen = self._seen or self._snapshot()
        self._seen = None
        found = seen.ranges() if seen is not None else []
        if watch is not None:
            found += [(entry.ptr, entry.size) for entry in watch.entries if entry.host or seen is None]
        return found

    def _pinned(self, entry: Entry, staged: set[int]) -> bool:
        """Asked only of memory that copies use: others are read when the graph is captured, not when it runs."""
        ask = getattr(self._context.driver, "pinned", None) if entry.id in staged else None
        return bool(ask is not None and ask(entry.ptr))

    # ── before a replay ─────────────────────────────────────────────────────────────────────────
    def look(self, watch: Watch, executable: int, replay: int) -> None:
        """Write down what is not where the graph expects it, and host memory that was written too early."""
        self._storages.alarmed = False
        gone = watch.changed()
        if gone:
            watch.cached += self._tell_gone(gone, executable, replay)
            watch.again = 2 * replay
        elif watch.cached and replay >= watch.again:
            watch.again = 2 * replay
            self._look_again(watch, executable, replay)
        if watch.staged is not None and self._host is not None and not self._windows.open:
            self._host.look(watch.staged, executable, replay)

    def replayed(self, watch: Watch, raw_stream: int) -> None:
        """The graph was replayed on a stream."""
        if watch.staged is not None and self._host is not None and not self._windows.open:
            self._host.replayed(watch.staged, raw_stream)

    def _tell_gone(self, gone: list[tuple[Entry, int]], executable: int, replay: int) -> list[tuple[Entry, int]]:
        """Those whose memory is nobody's yet."""
        told = gone[: self._left]
        self._left -= len(told)
        if len(told) < len(gone):
            self._context.write("lost", count=len(gone) - len(told), why="storages that died, beyond the bound")
        seen = self._snapshot() if any(not (entry.host or entry.inside) for entry, _ in told) else None
        here = self._context.stack()
        cached = []
        for entry, old in told:
            fields = self._free(entry, old, here)
            self._now(fields, entry, old, seen)
            self._context.write("free", **fields, exec=executable, replay=replay)
            if self._undecided(fields, entry):
                cached.append((entry, old))
            elif entry.host and fields.get("now") == "reused":
                self._recycled(entry, fields, executable, replay)
        return cached

    def _look_again(self, watch: Watch, executable: int, replay: int) -> None:
        """Has somebody got the memory that was nobody's? It is told once more then."""
        seen = self._snapshot()
        if self._left <= 0:
            return
        here = self._context.stack()
        waiting, watch.cached = watch.cached, []
        for entry, old in waiting:
            fields = self._free(entry, old, here)
            self._now(fields, entry, old, seen)
            if (seen is None and not entry.host) or self._undecided(fields, entry):
                watch.cached.append((entry, old))
                continue
            self._left -= 1
            self._context.write("free", **fields, exec=executable, replay=replay)
            if entry.host:
                self._recycled(entry, fields, executable, replay)

    @staticmethod
    def _undecided(fields: dict[str, Any], entry: Entry) -> bool:
        """The memory is nobody's, or nobody was found."""
        return fields.get("now") == "cached" or (entry.host and "now" not in fields)

    def _recycled(self, entry: Entry, fields: dict[str, Any], executable: int, replay: int) -> None:
        told = {name: fields[name] for name in ("stack", "noticed") if name in fields}
        self._context.write("rewrite", storage=entry.id, what="recycled", exec=executable, replay=replay, **told)

    def _snapshot(self) -> AllocatorMap | None:
        """The allocator's tables, unless a capture is open."""
        return self._allocator.look() if self._allocator is not None and not self._windows.open else None

    def _free(self, entry: Entry, old: int, here: int) -> dict[str, Any]:
        fields: dict[str, Any] = {"ptr": hex(old), "id": entry.id}
        now = entry.word.value or self._elsewhere(entry)
        if now:
            fields["moved"] = hex(now)
        death = entry.death
        if death is None or now:
            fields.update(stack=here, noticed=True)
        else:
            fields["stack"] = death.stack
            if death.api:
                fields["api"] = death.api
            if not death.certain:
                fields["guess"] = True
        return fields

    def _now(self, fields: dict[str, Any], entry: Entry, old: int, seen: AllocatorMap | None) -> None:
        """What is at the old address, and whose."""
        owners = self._owners
        if entry.host:
            owner = owners.of_address(old, host=True) if owners is not None else ""
            if owner:
                fields.update(now="reused", owner=owner)
            return
        if seen is None or not entry.pool:
            return
        state = seen.state(old)
        fields["now"] = "reused" if state == "used" else state
        if state == "used" and owners is not None:
            owner = owners.of_address(old)
            if owner:
                fields["owner"] = owner

    def _elsewhere(self, entry: Entry) -> int:
        """Where the tensor has its memory now, if it is alive and got another storage."""
        tensor = entry.tensor()
        return self._owners.address(tensor) if tensor is not None and self._owners is not None else 0


_of: dict[int, Watcher] = {}


def watcher_of(context: Context) -> Watcher:
    """The watcher of a context: one object a process."""
    found = _of.get(id(context))
    if found is None:
        found = _of[id(context)] = Watcher(context)
    return found
