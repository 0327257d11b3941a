"""Pairs intentions with their outcomes, and finds out what ran inside what.

On one thread activities nest: a CUDA call inside an operator inside a call from Python. An operator's interval is known
(intention and outcome); a `pycall` is written after it returned, and holds what the same line ran directly before.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from cudagraph_doctor.session.model import Activity

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Intention
    from cudagraph_doctor.trace import events

_RECENT = 16
"""How many activities of a thread may have run inside one call from Python and still be linked to it."""
_DEEPEST = 1000
"""Intentions without an outcome kept of a thread: more than Python's stack holds, few enough for a hostile trace."""
_GRAPH_KINDS = ("capture", "capture-end", "exec", "replay")


class Activities:
    """The activities in flight, by thread."""

    def __init__(self) -> None:
        self._open: defaultdict[int, list[Activity]] = defaultdict(list)
        self._recent: defaultdict[int, deque[Activity]] = defaultdict(lambda: deque(maxlen=_RECENT))
        self._by_q: dict[int, Activity] = {}

    def intend(self, record: Intention) -> Activity:
        """An intention: what follows on this thread runs inside it until its outcome."""
        stack = self._open[record.tid]
        if len(stack) >= _DEEPEST:
            stack.clear()  # nothing nests so deep: their outcomes were lost
        activity = self._by_q[record.q] = Activity(record, inside=stack[-1] if stack else None)
        stack.append(activity)
        return activity

    def intend_graph(self, record: Intention) -> Activity:
        """An intention on graphs. They never nest: one still open on this thread came back, its outcome was lost."""
        stack = self._open[record.tid]
        for index, open_one in enumerate(stack):
            if open_one.kind in _GRAPH_KINDS:
                del stack[index:]
                break
        return self.intend(record)

    def complete(self, record: Intention) -> Activity:
        """A record that carries its own outcome."""
        activity = self._new(record, op=getattr(record, "op", 0))
        self._recent[record.tid].append(activity)
        return activity

    def finish(self, outcome: events.Outcome) -> Activity | None:
        """The activity that an outcome completes; None where the intention was lost or is already complete."""
        activity = self._by_q.get(outcome.of)
        if activity is None or activity.outcome is not None:
            return None
        activity.outcome = outcome
        tid = activity.record.tid
        stack = self._open[tid]
        if stack and stack[-1] is activity:
            del stack[-1]
        elif activity in stack:
            # Whatever was intended inside it and has no outcome came back too: its outcome was lost.
            del stack[stack.index(activity) :]
        self._recent[tid].append(activity)
        return activity

    def python_call(self, record: events.PyCall) -> Activity:
        """A call from Python, seen after it returned: takes in what the same stack did directly before."""
        activity = self._new(record, op=0)
        recent = self._recent[record.tid]
        for earlier in reversed(recent):
            if not record.stack or earlier.stack != record.stack or earlier.kind == "pycall":
                break
            if earlier.inside is activity.inside:
                earlier.inside = activity
        recent.append(activity)
        return activity

    def find(self, q: int) -> Activity | None:
        """The activity of a record that is still remembered."""
        return self._by_q.get(q)

    def forget(self) -> None:
        """Drops what cannot be asked for any more: called when no capture is open."""
        self._recent.clear()
        self._by_q = {a.q: a for stack in self._open.values() for a in stack}

    def unreturned(self) -> list[Activity]:
        """Intentions without an outcome, oldest first: the newest of a thread is what the thread died or hangs in."""
        return sorted((a for stack in self._open.values() for a in stack), key=lambda a: a.q)

    def _new(self, record: Intention, *, op: int) -> Activity:
        inside = self._by_q.get(op) if op else None
        if inside is None:
            stack = self._open.get(record.tid)
            inside = stack[-1] if stack else None
        activity = Activity(record, inside=inside)
        self._by_q[record.q] = activity
        return activity
