"""Captured work that uses a storage: by the id of the storage, or by its address where an argument has no id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from cudagraph_doctor.session.memory import touches
from cudagraph_doctor.session.pointers import address_of

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Activity, CaptureState, Session
    from cudagraph_doctor.session.storages import StorageState
    from cudagraph_doctor.trace import events


class Use(Struct, frozen=True):
    """One piece of captured work that uses a storage."""

    capture: CaptureState
    activity: Activity
    """The operator, or the CUDA call."""
    tensor: events.Tensor | None = None
    """As which argument of the operator; None: only an address ties them, in a call or in a node's parameters."""
    node: events.Node | None = None
    """The node of the graph, where it could be walked."""


class FirstUses(Struct):
    """The first work on each storage in one window: an operator that computes goes before one that only views it."""

    by_id: dict[int, tuple[Activity, events.Tensor]] = field(default_factory=dict)
    by_place: dict[tuple[str, str], tuple[Activity, events.Tensor]] = field(default_factory=dict)
    """By device and address, of arguments without an id."""


def first_use(session: Session, storage: StorageState, capture: CaptureState) -> Use | None:
    """The first work of a capture that uses a storage: an operator that computes, else a view, else a call."""
    known = session.first_uses.get(capture.id)
    if known is None:
        known = session.first_uses[capture.id] = _first_uses(capture)
    found = known.by_id.get(storage.id) or known.by_place.get((storage.record.dev, storage.record.ptr))
    if found is not None:
        node = next((n for n in session.nodes.get(capture.begin.graph, ()) if n.op == found[0].q), None)
        return Use(capture, found[0], found[1], node)
    for call in capture.calls():
        if any(touch.start < storage.end and storage.start < touch.start + touch.size for touch in touches(call)):
            return Use(capture, call)
    return None


def node_use(session: Session, storage: StorageState, capture: CaptureState) -> Use | None:
    """The first node of a capture's graph with a pointer into a storage that no recorded operator was given."""
    by_q = {activity.q: activity for activity in capture.activities}
    for node in session.nodes.get(capture.begin.graph, ()):
        inside = any(storage.start <= (address_of(ptr) or 0) < storage.end for ptr in (*node.ptrs, *node.words))
        activity = by_q.get(node.op)
        if inside and activity is not None:
            return Use(capture, activity, None, node)
    return None


def _first_uses(capture: CaptureState) -> FirstUses:
    found, views = FirstUses(), FirstUses()
    for op in capture.ops():
        if op.failed:
            continue
        into = found if getattr(op.record, "kind", "") == "compute" else views
        tensors: tuple[events.Tensor, ...] = getattr(op.record, "tensors", ())
        for tensor in tensors:
            if tensor.storage:
                into.by_id.setdefault(tensor.storage, (op, tensor))
            elif tensor.ptr:
                into.by_place.setdefault((tensor.dev, tensor.ptr), (op, tensor))
    return FirstUses({**views.by_id, **found.by_id}, {**views.by_place, **found.by_place})
