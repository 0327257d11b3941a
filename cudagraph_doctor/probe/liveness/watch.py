"""What is looked at before each replay of one graph: eight bytes for each storage that its work uses."""

from __future__ import annotations

from time import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cudagraph_doctor.probe.liveness.host_memory import Staged
    from cudagraph_doctor.probe.liveness.pool_order import SharedPool
    from cudagraph_doctor.probe.liveness.storages import Entry

SHARE = 20
"""A look may take one part in so many of the time: with many storages, not every one of a burst of replays looks.

The death of a tensor object makes the next replay look at once, and so does a pause: what is seen late is only a
storage that moved away under its tensor (`param.data = ...`) within a burst.
"""
_ALWAYS = 64
"""Looks, the first ones, that are not put off."""


class Watch:
    """The storages of one graph.

    A graph's nodes hold the addresses of its capture, so each difference concerns it for good and is found once.
    """

    __slots__ = (
        "__weakref__", "again", "cached", "due", "entries", "expected", "graph", "looks", "pool", "staged", "told",
        "words",
    )  # fmt: skip

    def __init__(self, graph: int, entries: list[Entry], staged: Staged | None) -> None:
        self.graph = graph
        self.due = 0
        """When the next look is due, CLOCK_MONOTONIC in nanoseconds."""
        self.looks = 0
        self.staged = staged
        """Host memory that copies in the graph read."""
        self.pool: SharedPool | None = None
        """Its memory pool, if other graphs use that too."""
        self.told = 0
        """Replays that were told for the sake of that."""
        self.cached: list[tuple[Entry, int]] = []
        """Dead storages whose memory was nobody's when that was found, with its address."""
        self.again = 0
        """Number of the replay before which those are looked at once more."""
        self._set(entries)

    def changed(self) -> list[tuple[Entry, int]]:
        """The storages that are not where the graph expects them, with the address they had. Nearly always none."""
        # Joining takes 20 ns a storage; comparing one by one in Python, ten times that.
        if b"".join(self.words) == self.expected:
            return []
        entries, expected = self.entries, memoryview(self.expected).cast("Q")
        gone = [(entry, old) for entry, old in zip(entries, expected, strict=True) if entry.word.value != old]
        lost = {entry.id for entry, _ in gone}
        self._set([entry for entry in entries if entry.id not in lost])
        return gone

    def looked(self, since: int) -> None:
        """A look that began at `since` is over."""
        self.looks += 1
        now = monotonic_ns()
        # A host storage is compared each time: whether a replay was still reading when it changed shows only then.
        self.due = 0 if self.looks < _ALWAYS or self.staged is not None else now + SHARE * (now - since)

    def _set(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.words = [entry.word for entry in entries]
        self.expected = b"".join(self.words)
