"""What the recorder knows of a `torch.cuda.CUDAGraph` object, kept on the object itself: replay must be quick."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudagraph_doctor.probe.arm import Window
    from cudagraph_doctor.probe.context import Context
    from cudagraph_doctor.probe.liveness.watch import Watch
    from cudagraph_doctor.probe.region.looks import RegionWatch

ATTRIBUTE = "_cudagraph_doctor"


class GraphIdentity:
    """Ids of the graph and of its newest executable graph."""

    __slots__ = ("captured", "exec", "id", "raw", "region", "watch", "window", "words")

    def __init__(self, number: int) -> None:
        self.id = number
        self.captured = False
        """It was the object of a capture before: the next one is another graph."""
        self.exec = 0
        self.words: memoryview | None = None
        """Its replay slot (`_wire.SLOT_WORDS`); None until the first replay of an executable graph was recorded."""
        self.raw = -1
        """Raw handle of the stream whose id stands in the slot."""
        self.region: RegionWatch | None = None
        """The Python state that its region read or wrote."""
        self.watch: Watch | None = None
        """What looks after the memory that its nodes point at."""
        self.window: Window | None = None
        """The capture that is open on it."""

    def next_life(self, context: Context) -> None:
        """A capture begins on the object: from now on it is another graph."""
        if self.captured:
            self.id = context.ids.next("graph")
        self.captured = True
        self.exec, self.words, self.raw, self.watch, self.region = 0, None, -1, None, None

    def kept(self, graph: Any) -> bool:
        """Whether torch keeps the cudaGraph_t (`keep_graph=True`, torch 2.8): then nothing is instantiated yet."""
        raw = getattr(graph, "raw_cuda_graph", None)
        if raw is None:
            return False
        try:
            raw()
        except Exception:  # torch refuses it for a graph that is not kept
            return False
        return True


def of_graph(graph: Any, context: Context) -> GraphIdentity:
    """The identity of a graph object, made at first sight."""
    found: GraphIdentity | None = getattr(graph, ATTRIBUTE, None)
    if found is None:
        found = GraphIdentity(context.ids.next("graph"))
        setattr(graph, ATTRIBUTE, found)
    return found
