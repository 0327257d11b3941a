"""Tensors of the program that a region replaces by ones it makes from them: `self.kv = torch.cat([self.kv, new])`."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.text import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.session.slots import SlotState

_REPLAYS = 2


@dataclass(frozen=True)
class Rebound:
    """A slot that the region rebinds, and the shape of what it leaves there."""

    state: SlotState
    after: tuple[int, ...]


def rebound_inside(session: Session) -> Iterator[Rebound]:
    """Slots that outlive the region, read and then bound to a tensor of the graph, the old one never written again."""
    if not session.has("touches"):
        return  # the program may copy the new tensor back into the old one, unseen
    made = {(out.record.cap, out.record.ptr): out.record.shape for out in session.outputs.values() if out.record.ptr}
    for storage in session.storages.values():
        if storage.record.inside:
            made.setdefault((storage.record.cap, storage.record.ptr), ())
    written: defaultdict[int, list[int]] = defaultdict(list)
    for touch in session.touches:
        if touch.what == "write":
            written[touch.storage].append(touch.q)
    seen: set[object] = set()
    for state in session.slots.values():
        record, capture = state.record, state.capture
        if capture is None or capture.replays < _REPLAYS or not (record.written and record.left_ptr and record.ptr):
            continue
        output = made.get((record.cap, record.left_ptr))
        if not state.is_input or output is None or record.left_ptr == record.ptr or not _outlives(session, state):
            continue
        if record.storage and any(q > capture.last_q for q in written[record.storage]):
            continue  # the program writes the old one itself before a replay
        if any(change.refreshed or change.ptr not in {"", record.left_ptr} for change in state.changes):
            continue
        place = record.writes[-1][:2] if record.writes else state.path
        if (state.path, place) not in seen:
            seen.add((state.path, place))
            yield Rebound(state, output)


def _outlives(session: Session, state: SlotState) -> bool:
    """Whether the store is meant for later: to an attribute, an element, or a name declared global or nonlocal.

    `x = layer(x)` at the level of the script only uses a name again.
    """
    record = state.record
    if record.kind in {"attribute", "item"}:
        return True
    for number, line, *_ in record.writes:
        text = session.text(number)
        source = parsed(text) if text is not None else None
        statement = source.statement_at(line) if source is not None else None
        scope = source.enclosing(statement, ast.FunctionDef, ast.AsyncFunctionDef) if source and statement else None
        if scope is not None and any(
            isinstance(node, (ast.Global, ast.Nonlocal)) and state.path in node.names for node in ast.walk(scope)
        ):
            return True
    return False
