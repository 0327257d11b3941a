"""Whether any statement of the program, but those of the region, sets a tensor in place."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import ROLE_USER
from cudagraph_doctor.checkers.code.expression import called
from cudagraph_doctor.checkers.code.text import parsed
from cudagraph_doctor.session.frames import role

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.session.slots import SlotState


def never_set(session: Session, state: SlotState) -> bool:
    """Whether nothing in the recorded text writes to the slot's tensor: no `pos.zero_()`, `pos[...] = 0`, `out=pos`.

    True only where the text of all of the program's files is known. A tensor that is handed to a function, or that has
    a second name, may be set there: then nothing is claimed.
    """
    name = state.name.partition("[")[0]
    own = _lines_of_the_region(session, state)
    for number, known in session.sources.items():
        if role(session, number) != ROLE_USER:
            continue
        text = session.text(number) if known.text else None
        source = parsed(text) if text is not None else None
        if source is None or source.tree is None:
            return False
        loops = _loop_variables(source.tree)
        for node in ast.walk(source.tree):
            if _sets_many(node, state, loops):
                return False
            if not isinstance(node, (ast.Name, ast.Attribute)) or (number, node.lineno) in own:
                continue
            if (node.attr if isinstance(node, ast.Attribute) else node.id) != name:
                continue
            above = source.parents.get(node)
            if isinstance(node.ctx, ast.Store):
                if isinstance(above, ast.AugAssign):
                    return False
                continue
            if isinstance(above, ast.Attribute) and not _only_reads(above, source.parents.get(above)):
                return False
            if isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store):
                return False
            if isinstance(above, (ast.Call, ast.keyword, ast.Assign, ast.Tuple, ast.List, ast.Dict, ast.Return)):
                return False  # it goes on under another name
    return True


def _lines_of_the_region(session: Session, state: SlotState) -> set[tuple[int, int]]:
    found = {(frame[0], frame[1]) for frame in (*state.record.reads, *state.record.writes)}
    for activity in state.capture.ops() if state.capture is not None else ():
        record = session.stacks.get(activity.stack)
        found.update((frame[0], frame[1]) for frame in (record.frames if record is not None else ()))
    return found


def _loop_variables(tree: ast.Module) -> set[str]:
    targets = [node.target for node in ast.walk(tree) if isinstance(node, (ast.For, ast.comprehension))]
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _sets_many(node: ast.AST, state: SlotState, loops: set[str]) -> bool:
    """`model.load_state_dict(saved)`, `for b in model.buffers(): b.zero_()`: any tensor may be among them."""
    if not isinstance(node, ast.Call):
        return False
    name = called(node)
    if state.record.role and name in {"load_state_dict", "buffers", "named_buffers", "state_dict", "apply"}:
        return True
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place and isinstance(receiver, ast.Name) and receiver.id in loops


def _only_reads(attribute: ast.Attribute, above: ast.AST | None) -> bool:
    """`pos.item()`, `pos.shape`; not `pos.zero_()` and not `pos.data`."""
    if isinstance(above, ast.Call) and above.func is attribute:
        return not (called(above).endswith("_") or called(above) in {"view", "reshape", "detach", "expand"})
    return attribute.attr not in {"data", "T"}
