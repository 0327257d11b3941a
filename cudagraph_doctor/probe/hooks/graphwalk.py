"""The graph of each capture: read when its window closes, written when the capture has ended well."""

from __future__ import annotations

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.probe.arm import Part, Window, windows_of
from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.graphwalk.pointers import KnownMemory
from cudagraph_doctor.probe.graphwalk.recorder import GraphRecorder
from cudagraph_doctor.probe.graphwalk.simulated import walk_of
from cudagraph_doctor.probe.liveness.watcher import watcher_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from cudagraph_doctor.probe.context import Context

NAME = "graphwalk"
MODULES = ()


def install(module: ModuleType | None, context: Context) -> Active | Unavailable | None:
    """Reads graphs from the first window on; whether that works is told then."""
    windows_of(context).add(Graphs(context))
    return None


class Graphs(Part):
    """Reads and writes graphs."""

    NAME = NAME

    def __init__(self, context: Context) -> None:
        self._context = context
        self._recorder = GraphRecorder(context)
        self._told = ""

    def prepare(self) -> None:
        """Can the graph of a capture be read here?"""
        reads = getattr(self._context.driver, "reads_graphs", None)
        why = "" if reads is not None and reads() else "the driver does not tell the graph of an open capture"
        state = "unavailable" if why else "on"
        if state != self._told:
            self._told = state
            self._context.capability(NAME, state, why)

    def ended(self, window: Window) -> None:
        """The capture is about to end: read its graph as it is."""
        if window.status == STATUS_ACTIVE and self._told == "on":
            driver = self._context.driver
            described = getattr(driver, "graph_of_capture", None)
            window.walk = walk_of(described(window.handle)) if described else driver.read_graph(window.handle)

    def captured(self, window: Window) -> None:
        """The capture has ended well, and its graph was told."""
        walk, window.walk = window.walk, None
        if walk is not None:
            memory = KnownMemory(watcher_of(self._context).ranges(window.watch))
            self._recorder.write(walk, window.graph, window.node_ops, memory)
