"""When a graph died: its executable graphs were destroyed, by torch's object or by the driver's own call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.session.apis import Family, base_name, family

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Activity, CaptureState, Session


def alive_at(session: Session, capture: CaptureState, q: int) -> bool:
    """Whether the graph of a completed capture could still be replayed at a point of the trace.

    As far as it is known: a graph of which no end was recorded is alive.
    """
    told = {destroy.id: destroy.q for destroy in session.destroyed if destroy.what == "exec"}
    execs = [number for number, state in session.exec_captures.items() if state is capture]
    if execs and all(told.get(number, q) < q for number in execs):
        return False
    ended: dict[str, bool] = {}
    graph = ""
    for call in _calls(session, capture.end.q if capture.end is not None else capture.first_q, q):
        handle, made = getattr(call.record, "ptr", ""), call.outcome.ptr if call.outcome is not None else ""
        if family(call.name) is Family.END and not graph:
            graph = made
        elif family(call.name) is Family.INSTANTIATE and graph and handle == graph and made:
            ended[made] = False
        elif base_name(call.name) == "cuGraphDestroy" and handle == graph:
            graph = "-"  # what comes under the same handle is another graph
        elif base_name(call.name) == "cuGraphExecDestroy" and handle in ended:
            ended[handle] = True
    return not ended or not all(ended.values())


def _calls(session: Session, since: int, until: int) -> list[Activity]:
    """The driver's calls of a part of the trace, in order, each once."""
    found = {
        a.q: a
        for a in (*session.outside, *(a for capture in session.captures for a in capture.activities))
        if since <= a.q < until and a.kind == "call" and getattr(a.record, "layer", "") == "driver"
    }
    return [found[q] for q in sorted(found)]
