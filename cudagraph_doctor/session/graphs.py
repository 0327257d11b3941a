"""Graphs, executable graphs and their replays: which capture a replay runs, and how often it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

if TYPE_CHECKING:
    from cudagraph_doctor.session.captures import Captures
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.trace import events


class Graphs:
    """What is known of graph objects, by id."""

    def __init__(self, session: Session, captures: Captures) -> None:
        self._session = session
        self._captures = captures
        self._places: dict[int, int] = {}
        """Stack of the first replay of each executable graph that was told with one."""
        self._single: dict[int, int] = {}
        """Replays told one by one, by `id` of the capture state."""
        self._total: dict[tuple[int, int], int] = {}
        """Replays over the life of an executable graph, by (id of the capture state, exec)."""

    def graph(self, record: events.Graph) -> None:
        """A graph was seen."""
        self._session.graphs[record.id] = record
        state = self._captures.get(record.cap)
        if state is not None and record.nodes is not None:
            state.nodes = record.nodes

    def exec(self, record: events.Exec) -> None:
        """A graph was instantiated."""
        self._session.execs[record.id] = record
        state = self._captures.of_graph(record.graph)
        if state is not None:
            self._session.exec_captures[record.id] = state

    def replay(self, record: events.Replay) -> events.Replay:
        """A replay was told apart, or counted; a count gets the place of the first replay of its executable graph."""
        if record.stack:
            self._places.setdefault(record.exec, record.stack)
        elif record.exec in self._places:
            record = structs.replace(record, stack=self._places[record.exec])
        self._session.replays.append(record)
        state = self._session.exec_captures.get(record.exec) if record.exec else None
        if state is None:
            graph = record.graph
            known = self._session.execs.get(record.exec)
            if not graph and known is not None:
                graph = known.graph
            state = self._captures.of_graph(graph)
        if state is None:
            return record
        if record.total:
            self._total[id(state), record.exec] = record.count
        else:
            self._single[id(state)] = self._single.get(id(state), 0) + record.count
        if record.exc is not None or record.code:
            state.failed_replays.append(record)
        return record

    def came_back(self, record: events.Replay, outcome: events.Outcome) -> None:
        """A replay that was told as an intention came back: it is told again, complete."""
        replays = self._session.replays
        index = next((i for i in range(len(replays) - 1, -1, -1) if replays[i].q == record.q), None)
        if index is None:
            return
        error = bool(outcome.code) or outcome.exc is not None
        done = structs.replace(record, code=outcome.code, exc=outcome.exc, done=0 if error else record.count)
        replays[index] = done
        state = self._session.exec_captures.get(record.exec) or self._captures.of_graph(record.graph)
        if state is not None and error:
            state.failed_replays.append(done)

    def finish(self) -> None:
        """Adds up the replays of each capture."""
        totals: dict[int, int] = {}
        for (state, _exec), count in self._total.items():
            totals[state] = totals.get(state, 0) + count
        for capture in self._session.captures:
            capture.replays = max(totals.get(id(capture), 0), self._single.get(id(capture), 0))
