"""`torch.cuda.CUDAGraph.replay`: the hot path of an inference server, so a replay writes six words and no record.

The first replay of an executable graph, one that fails and one inside a capture window are told in `replay` records
with their line; all others are counted in a slot of shared memory, which names a replay that never came back, too.
"""

from __future__ import annotations

from _thread import get_native_id
from time import monotonic_ns

from cudagraph_doctor.probe.arm import windows_of
from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.cuda_codes import raised
from cudagraph_doctor.probe.current import Current
from cudagraph_doctor.probe.graph_identity import GraphIdentity, of_graph
from cudagraph_doctor.probe.liveness.watcher import Watcher, watcher_of
from cudagraph_doctor.probe.objects import streams_of
from cudagraph_doctor.probe.patch import patch
from cudagraph_doctor.probe.tracebacks import hide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context
    from cudagraph_doctor.probe.liveness.watch import Watch
    from cudagraph_doctor.probe.region.looks import RegionWatch

NAME = "replay"
MODULES = ("torch",)
BEGUN, DONE, LAST, STREAM, TID = 1, 2, 3, 4, 5
"""Positions in `_wire.SLOT_WORDS`."""


def install(module: ModuleType | None, context: Context) -> Active | Unavailable:
    """Patches `replay`."""
    torch: Any = module
    graph = getattr(torch.cuda, "CUDAGraph", None)
    if graph is None or not hasattr(graph, "replay"):
        return Unavailable("this torch has no torch.cuda.CUDAGraph")
    patch(graph, "replay", Replays(context, torch).wrap)
    return Active()


class Replays:
    """Records and counts replays."""

    def __init__(self, context: Context, torch: Any) -> None:
        self._context = context
        self._windows = windows_of(context)
        self._streams = streams_of(context)
        self._current = Current(torch)
        self._raw = getattr(torch._C, "_cuda_getCurrentRawStream", None) or self._current.stream
        self._device = getattr(torch._C, "_cuda_getDevice", None) or self._current.device
        self._watcher: Watcher | None = None
        guard = context.guard(NAME)
        self._before = guard(self._told_before)
        self._after = guard(self._told_after)
        self._failed = guard(self._told_failure)
        self._moved = guard(self._other_stream)
        self._look = context.guard("storages")(self._looked)
        self._behind = context.guard("storages")(self._replayed)
        self._look_at_region = context.guard("region")(self._looked_at_region)

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`replay()`."""
        windows, clock, thread = self._windows, monotonic_ns, get_native_id
        raw_stream, device_of, look = self._raw, self._device, self._look
        behind = self._behind
        look_at_region = self._look_at_region

        def replay(graph: Any) -> Any:
            try:
                known = graph._cudagraph_doctor
                words, watch, now = known.words, known.watch, clock()
                if watch is not None and watch.due <= now:
                    look(known, watch, now)
                region = known.region
                if region is not None:
                    region.replays += 1
                    if region.replays >= region.next or region.due <= now:
                        look_at_region(known, region)
            except AttributeError:
                words = watch = None
            if words is None or windows.open:
                try:
                    return told(graph)
                except BaseException as error:
                    hide(error)
                    raise
            words[BEGUN] += 1
            words[LAST] = now
            words[TID] = thread()
            if raw_stream(device_of()) != known.raw:
                self._moved(known)
            try:
                result = original(graph)
            except BaseException as error:
                self._failed(known, error)
                hide(error)
                raise
            words[DONE] += 1
            if watch is not None and (watch.staged is not None or watch.pool is not None):
                behind(known, watch)
            return result

        def told(graph: Any) -> Any:
            begun = self._before(graph)
            try:
                result = original(graph)
            except BaseException as error:
                self._after(graph, begun, error)
                raise
            self._after(graph, begun, None)
            behind(of_graph(graph, self._context), None)
            return result

        return replay

    def _looked(self, known: GraphIdentity, watch: Watch, now: int) -> None:
        """What became of the memory that the graph points at, before it runs once more."""
        if self._watcher is None:
            self._watcher = watcher_of(self._context)
        replay = known.words[BEGUN] + 1 if known.words is not None else 1
        self._watcher.look(watch, known.exec, replay)
        watch.looked(now)

    @staticmethod
    def _looked_at_region(known: GraphIdentity, region: RegionWatch) -> None:
        """What became of the Python state that its region read, before it runs once more."""
        region.look(known.exec)

    def _replayed(self, known: GraphIdentity, watch: Watch | None) -> None:
        """A replay came back; without `watch`, it was told already."""
        told, watch = watch is None, watch or known.watch
        if watch is None or self._windows.open:
            return
        if watch.staged is not None and self._watcher is not None:
            self._watcher.replayed(watch, known.raw)
        if watch.pool is not None:
            before = watch.pool.news(watch, known.exec, known.raw)
            if before is not None and not told:
                self._context.write("replay", **self._facts(known), after=before, done=1, code=0)

    def _other_stream(self, known: GraphIdentity) -> None:
        device = self._device()
        known.raw = self._raw(device)
        if known.words is not None:
            known.words[STREAM] = self._streams.id(known.raw, device)

    def _told_before(self, graph: Any) -> tuple[int, bool]:
        context = self._context
        known = of_graph(graph, context)
        first = known.words is None
        window = self._windows.mine()
        if window is None and not first:
            return 0, False
        fields = self._facts(known)
        fields["first"] = first
        if known.watch is not None and known.watch.pool is not None:
            fields["after"] = known.watch.pool.last[0]
        if window is not None:
            fields["cap"] = window.id
            self._windows.look(0, "call", across=False)
        return context.write("replay", **fields), first

    def _told_after(self, graph: Any, begun: tuple[int, bool] | None, error: BaseException | None) -> None:
        context, known = self._context, of_graph(graph, self._context)
        q, _first = begun or (0, False)
        if known.words is None and known.exec:
            known.words = context.slots.open(known.exec)
            self._other_stream(known)
        words = known.words
        if words is not None:
            words[BEGUN] += 1
            words[LAST] = monotonic_ns()
            words[TID] = get_native_id()
            words[DONE] += error is None
        if not q:
            if error is not None:
                self._told_failure(known, error)
            return
        fields: dict[str, Any] = {"of": q, "code": 0}
        if error is not None:
            fields["exc"] = raised(error)
            fields["code"] = fields["exc"].get("code")
        window = self._windows.mine()
        self._windows.look(q, "call")
        if window is not None:
            fields["after"] = window.status
        context.write("outcome", **fields)
        if error is not None and window is not None:
            self._windows.failed(window, q)

    def _told_failure(self, known: GraphIdentity, error: BaseException) -> None:
        fields = self._facts(known)
        fields["done"] = 0
        fields["exc"] = raised(error)
        fields["code"] = fields["exc"].get("code")
        self._context.write("replay", **fields)

    def _facts(self, known: GraphIdentity) -> dict[str, Any]:
        device = self._current.device()
        raw = self._current.stream(device)
        fields: dict[str, Any] = {
            "exec": known.exec,
            "graph": known.id,
            "stream": self._streams.id(raw, device, quiet=bool(self._windows.open)),
            "stack": self._context.stack(),
        }
        if self._context.driver is not None:
            fields["on"] = self._context.driver.status(raw)
        return fields
