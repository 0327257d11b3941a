"""Host memory that copies in a graph read: rewritten while a replay may still be reading it?

A captured copy reads its source when the graph runs, not when it is replayed by the host. Tensors count their writes;
a count that moved between two replays, while the first is not done, is a race. Writes past torch (NumPy, ctypes) are
not counted.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudagraph_doctor.probe.context import Context
    from cudagraph_doctor.probe.liveness.storages import Entry
    from cudagraph_doctor.probe.tensor_reference import TensorRef

MOST = 64
"""Host storages of one graph whose writes are counted."""
MOST_TOLD = 200
"""Records of rewritten host memory in a process."""


class Source:
    """A host storage under captured copies; one object, however many graphs read it."""

    __slots__ = ("entry", "mark", "tensor", "version")

    def __init__(self, entry: Entry, tensor: TensorRef, version: int) -> None:
        self.entry = entry
        self.tensor: TensorRef | None = tensor
        self.version = version
        self.mark: Any = None
        """Behind the last replay of any of these graphs, on its stream."""

    def found(self) -> Any:
        """The tensor whose writes are counted, if it still is."""
        return self.tensor() if self.tensor is not None else None


class Staged:
    """The host storages under the copies of one graph."""

    __slots__ = ("mark", "sources")

    def __init__(self, sources: list[Source]) -> None:
        self.sources = sources
        self.mark: Any = None
        """Behind the graph's own last replay."""


def staged_of(entries: list[Entry], torch: Any) -> Staged | None:
    """What to count the writes of; None where there is nothing."""
    sources = []
    with torch._C.DisableTorchFunction():
        for entry in entries[:MOST]:
            for reference in entry.objects:
                tensor = reference()
                version = version_of(tensor)
                if version is not None:
                    if entry.source is None or entry.source.found() is None:
                        entry.source = Source(entry, reference, version)
                    sources.append(entry.source)
                    break
    return Staged(sources) if sources else None


def version_of(tensor: Any) -> int | None:
    """How often a tensor was written; None where it does not count (inference tensors)."""
    try:
        return int(tensor._version)
    except (AttributeError, RuntimeError):
        return None


class HostMemory:
    """Writes `rewrite` records."""

    def __init__(self, context: Context, torch: Any) -> None:
        self._context = context
        self._quiet = torch._C.DisableTorchFunction
        self._left = MOST_TOLD

    def look(self, staged: Staged, executable: int, replay: int) -> None:
        """Before a replay: was a source written since the last one, and was that one done?"""
        written = []
        with self._quiet():
            for source in staged.sources:
                version = version_of(source.found())
                if version is not None and version != source.version:
                    written.append((source, source.version, version))
                    source.version = version
        if not written or self._left <= 0:
            return
        reached = self._context.driver.reached
        early = [one for one in written if one[0].mark is not None and not reached(one[0].mark)]
        stack = self._context.stack() if early else 0
        for source, before, after in early:
            self._left -= 1
            self._context.write(
                "rewrite",
                storage=source.entry.id,
                what="written",
                exec=executable,
                replay=replay,
                pending=True,
                before=before,
                after=after,
                stack=stack,
                noticed=True,
            )

    def replayed(self, staged: Staged, raw_stream: int) -> None:
        """A replay was given to a stream: mark its end there."""
        mark = getattr(self._context.driver, "mark", None)
        staged.mark = mark(raw_stream, staged.mark) if mark is not None else None
        for source in staged.sources:
            source.mark = staged.mark
