"""Open capture windows, and the one place that notices when a capture's status has changed.

A window is open from the return of the call that began a capture to the call that ends it. While one is open, the parts
of the recorder that cost something are on (operators, C calls, garbage collections); else they are off.

Who breaks a capture is the innermost record across which its status went from active to invalidated, on whichever
thread. Every record that may be it looks at all open captures when it is complete: the first to see the change has it.
"""

from __future__ import annotations

import sys
from _thread import get_ident, get_native_id

from cudagraph_doctor._wire import STATUS_ACTIVE, STATUS_INVALIDATED, STATUS_NONE
from cudagraph_doctor.probe.graphwalk.node_ops import NodeOps
from cudagraph_doctor.probe.guard import outside
from cudagraph_doctor.probe.liveness.storages import Uses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cudagraph_doctor.probe.context import Context
    from cudagraph_doctor.probe.graphwalk.reader import Walk
    from cudagraph_doctor.probe.liveness.watch import Watch
    from cudagraph_doctor.probe.region.looks import RegionWatch

    Changed = list[tuple["Window", int, int]]


class Part:
    """A part of the recorder that is on only while a window is open. Its methods are called guarded."""

    NAME = "arm"

    def prepare(self) -> None:
        """A capture is about to begin, and no window is open."""

    def beginning(self, window: Window) -> None:
        """The calling thread is about to make the call that begins this window's capture."""

    def began(self, window: Window) -> None:
        """A window was opened, by the calling thread."""

    def ended(self, window: Window) -> None:
        """A window is being closed, by the calling thread: its capture has not ended yet."""

    def changed(self, window: Window, q: int) -> None:
        """The status of a capture was seen to have changed, or a call failed: record `q` was the last one."""

    def done(self, window: Window, q: int) -> None:
        """The capture has ended; its outcome was recorded as `q`."""

    def captured(self, window: Window) -> None:
        """The capture has ended well, and the record of its graph was written."""


class Window:
    """One open capture."""

    __slots__ = (
        "blamed",
        "device",
        "graph",
        "handle",
        "id",
        "ident",
        "last",
        "managed",
        "mode",
        "node_ops",
        "passing",
        "region",
        "reserved",
        "status",
        "stream",
        "tid",
        "uses",
        "walk",
        "watch",
    )

    def __init__(self, number: int, handle: int, stream: int, device: int, mode: str, graph: int) -> None:
        self.id = number
        self.handle = handle
        """Raw handle of the origin stream."""
        self.stream = stream
        """Its id."""
        self.device = device
        self.mode = mode
        self.graph = graph
        """Id of the graph object, 0 if it is not known."""
        self.ident = get_ident()
        self.tid = get_native_id()
        self.status: int = STATUS_ACTIVE
        """As last seen, by any thread."""
        self.last = 0
        """Number of the last record after which it was still active."""
        self.blamed = False
        """A record is named as the one across which the status changed."""
        self.managed = False
        """It lies inside a `with torch.cuda.graph(...)` block, whose end tells what was left behind."""
        self.passing: BaseException | None = None
        """The exception with which that block is being left."""
        self.reserved: int | None = None
        """Bytes that torch's allocator held of the device before."""
        self.uses = Uses()
        """The storages that its operators used."""
        self.node_ops = NodeOps()
        """Which operator made which node."""
        self.walk: Walk | None = None
        """Its graph, as it was when the window closed."""
        self.region: RegionWatch | None = None
        """What looks at the Python state of its region before each replay, once the capture has ended."""
        self.watch: Watch | None = None
        """What looks after them before each replay, once the capture has ended."""

    def counts(self) -> dict[str, int]:
        """Nodes and edges of its graph, where it was read: those at the top, not those of child graphs."""
        walk = self.walk
        if walk is None or not walk.whole:
            return {}
        top = {node.handle for node in walk.nodes if not node.parent}
        return {"nodes": len(top), "edges": sum(source in top for source in walk.sources)}


class Windows:
    """The open windows of this process."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.open: tuple[Window, ...] = ()
        """Replaced, never changed: threads iterate over it without a lock."""
        self.newest: dict[int, int] = {}
        """Raw handle of an origin stream → id of the last capture that was open on it."""
        self.operators: dict[int, int] = {}
        """Thread identifier → number of the operator that runs in it; only inside windows."""
        self.pause: Callable[[], None] | None = None
        """Called where a costly body of a hook begins: a watch that would see it all looks away."""
        self.resume: Callable[[], None] | None = None
        self._parts: list[Part] = []
        self._there: bool | None = None
        context.after_fork(self._forked)

    def add(self, part: Part) -> None:
        """A part that goes on and off with the windows."""
        self._parts.append(part)

    def prepare(self) -> bool:
        """Before a capture begins: find the driver, and start reading its error log. False without a driver to ask."""
        driver = self._context.driver
        attach = getattr(driver, "attach", None)
        there = driver is not None and (attach is None or attach())
        if there and attach is not None:
            driver.remember_context()
        if there is not self._there:
            self._there = there
            if there:
                self._context.capability("status", "on")
            else:
                self._context.capability("status", "unavailable", "the driver's library is not mapped in this process")
        if there and not self.open:
            for part in self._parts:
                self._call(part, part.prepare)
        return there

    def beginning(self, window: Window) -> None:
        """The next call of this thread begins the capture: its intention is written."""
        for part in self._parts:
            self._call(part, part.beginning, window)

    def enter(self, window: Window) -> None:
        """The capture has begun: open its window."""
        self.open = (*self.open, window)
        self.newest[window.handle] = window.id
        for part in self._parts:
            self._call(part, part.began, window)

    def leave(self, window: Window) -> bool:
        """The capture is about to end: close its window. False if it was closed before."""
        if window not in self.open:
            return False
        self.open = tuple(other for other in self.open if other is not window)
        for part in reversed(self._parts):
            self._call(part, part.ended, window)
        return True

    # ── questions ───────────────────────────────────────────────────────────────────────────────
    def mine(self) -> Window | None:
        """The newest window that the calling thread opened."""
        if self.open:
            ident, tid = get_ident(), get_native_id()
            for window in reversed(self.open):
                if window.ident == ident and window.tid == tid:  # an identifier alone is given again
                    return window
        return None

    def here(self) -> Window | None:
        """The window that the calling thread is in: its own, else the newest of any thread."""
        return self.mine() or (self.open[-1] if self.open else None)

    def of_stream(self, handle: int) -> Window | None:
        """The window whose capture a stream belongs to, by the origin stream or by the driver's id of the capture."""
        open_now = self.open
        for window in open_now:
            if window.handle == handle:
                return window
        driver = self._context.driver
        if not open_now or driver is None or not driver.status(handle):
            return None
        if len(open_now) == 1:
            return open_now[0]
        number = driver.capture_info(handle)[1]
        return next((window for window in open_now if driver.capture_info(window.handle)[1] == number), None)

    # ── status ──────────────────────────────────────────────────────────────────────────────────
    def changed(self) -> Changed | None:
        """The captures whose status is another one than last seen, with the status before and now.

        Claims them: no other thread gets the same change. About 1 µs for each open window.
        """
        found: Changed | None = None
        status = self._context.driver.status
        for window in self.open:
            now = status(window.handle)
            before = window.status
            if now is not None and now != before:
                window.status = now  # nothing between the comparison and this lets go of the GIL
                found = [*(found or []), (window, before, now)]
        return found

    def look(self, q: int, by: str, *, across: bool = True) -> None:
        """Look at all open captures and record what has changed.

        Args:
            q: number of the record that is complete now, or that is about to begin.
            by: who looks: `op`, `pycall`, `call` or `end`.
            across: the record is complete: a change lies across it. Else it was found before the record began.
        """
        found = self.changed()
        if found:
            self.tell(found, q if across else 0, by)
        if across:
            for window in self.open:
                if window.status == STATUS_ACTIVE:
                    window.last = q

    def tell(self, found: Changed, across: int, by: str) -> None:
        """Write `capture-status` records of changes that `changed` found."""
        for window, before, after in found:
            fields: dict[str, Any] = {"cap": window.id, "before": before, "after": after, "by": by}
            if across:
                fields["across"] = across
                window.blamed = True
            else:
                fields["since"] = window.last
                fields["threads"] = self._other_threads()
            q = self._context.write("capture-status", **fields)
            self.failed(window, q)
            if after == STATUS_NONE:  # ended behind our back
                self.leave(window)

    def failed(self, window: Window, q: int) -> None:
        """Record `q` tells of a failed call or a change of status: who can say more about it, does."""
        for part in self._parts:
            self._call(part, part.changed, window, q)

    def done(self, window: Window, q: int) -> None:
        """The capture has ended, well or not, and its outcome is record `q`."""
        for part in self._parts:
            self._call(part, part.done, window, q)

    def captured(self, window: Window) -> None:
        """The capture has made a graph, which was told."""
        for part in self._parts:
            self._call(part, part.captured, window)

    def returned(self, q: int, window: Window, before: int | None, after: int | None) -> None:
        """Name the call across which a change lies that another thread noticed first, and could not explain.

        The call has come back in this thread and saw the change itself: a second record says so.
        """
        if before == STATUS_ACTIVE and after == STATUS_INVALIDATED and not window.blamed:
            window.blamed = True
            self._context.write("capture-status", cap=window.id, before=before, after=after, by="call", across=q)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────
    def _call(self, part: Part, method: Callable[..., None], *args: Any) -> None:
        """Call one part. It has its own guard: a part that fails is taken out, the others and the window are not."""
        with outside():
            self._context.guard(part.NAME)(method)(*args)

    def _other_threads(self) -> list[tuple[int, int]]:
        stacks = self._context.stacks
        if stacks is None:
            return []
        known = getattr(sys.modules.get("threading"), "_active", {})
        natives = {ident: getattr(thread, "native_id", None) or 0 for ident, thread in list(known.items())}
        return [(natives.get(ident, 0), stack) for ident, stack in stacks.others()]

    def _forked(self) -> None:
        """No capture of the parent goes on in a forked child."""
        self.open = ()
        self.operators.clear()
        self.newest.clear()


_of: dict[int, Windows] = {}


def windows_of(context: Context) -> Windows:
    """The windows of a context: one object a process."""
    found = _of.get(id(context))
    if found is None:
        found = _of[id(context)] = Windows(context)
    return found
