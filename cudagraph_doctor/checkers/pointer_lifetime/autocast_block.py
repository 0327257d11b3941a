"""The autocast block that a capture stands in: a `with` statement or a decorator, also behind a context manager."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import called
from cudagraph_doctor.checkers.code.memory_names import written_by
from cudagraph_doctor.checkers.code.text import EMPTY, SourceText, source_of

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session

CAST = "aten::_to_copy"
"""The operator by which autocast casts a weight."""
_WEIGHT = re.compile(r"(?:^|[._])(?:weights?|bias|params?|parameters?)(?:\.data)?$")


@dataclass(frozen=True)
class AutocastBlock:
    """Where autocast was entered."""

    place: Location
    call: str
    """`torch.autocast("cuda", dtype=torch.float16)` as written; the context manager's call where that enters it."""
    direct: bool
    """It is autocast's own call, to which `cache_enabled=False` can be added."""
    source: SourceText = EMPTY
    statement: ast.AST | None = None
    """The `with` statement, or the decorated function."""

    @property
    def without_cache(self) -> str:
        """The call with the cache off; empty where it is not autocast's own."""
        if not self.direct or not self.call.endswith(")"):
            return ""
        return f"{self.call[:-1]}{'' if self.call.endswith('()') else ', '}cache_enabled=False)"


def autocast_block(session: Session, stack: int) -> AutocastBlock | None:
    """The innermost autocast block around any user frame of a stack, innermost frame first."""
    first = session.location(stack)
    for frame in (first, *session.callers(stack)) if first is not None else ():
        source = source_of(session, frame)
        statement = source.statement_at(frame.line)
        around = (statement, *source.ancestors(statement)) if statement is not None else ()
        found = next((call for node in around for call in _entered(node) if _autocast(source, call)), None)
        if found is not None:
            place = replace(
                frame, line=_line(source, found), end_line=None, column=None, end_column=None, code=None, function=None
            )
            block = source.enclosing(found, ast.With, ast.FunctionDef)
            return AutocastBlock(place, source.segment(found), "autocast" in called(found), source, block)
    return None


def weights_written(block: AutocastBlock, after: int) -> int:
    """The line of the block, behind a line, at which weights are changed in place; 0 for none that shows."""
    lines = [
        node.lineno
        for node in ast.walk(block.statement or ast.Module([], []))
        if isinstance(node, ast.stmt) and node.lineno > after and _changes_weights(block.source, node)
    ]
    return min(lines, default=0)


def _changes_weights(source: SourceText, statement: ast.stmt) -> bool:
    if any(_WEIGHT.search(name) for name in written_by(source, statement)):
        return True
    calls = [node for node in source.expressions(statement) if isinstance(node, ast.Call)]
    return any(
        called(call) == "load_state_dict" or (called(call) == "step" and "optim" in source.segment(call.func).lower())
        for call in calls
    )


def _entered(node: ast.AST | None) -> list[ast.Call]:
    """The calls that a `with` statement enters, or that decorate a function."""
    items = [item.context_expr for item in getattr(node, "items", ())] if isinstance(node, ast.With) else []
    return [call for call in (*items, *getattr(node, "decorator_list", ())) if isinstance(call, ast.Call)]


def _autocast(source: SourceText, call: ast.Call) -> bool:
    """Whether a call makes an autocast block: by itself, or as a context manager of this file that does."""
    name = called(call)
    if "autocast" in name:
        return True
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == name
        and any("autocast" in called(inner) for inner in ast.walk(node))
        for node in ast.walk(source.tree or ast.Module([], []))
    )


def _line(source: SourceText, call: ast.Call) -> int:
    """The line of the `with` statement; of a decorator its own."""
    above = source.enclosing(call, ast.With, ast.FunctionDef, ast.ClassDef)
    return above.lineno if isinstance(above, ast.With) else call.lineno
