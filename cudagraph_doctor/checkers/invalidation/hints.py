"""What the stack and the source text say of a refused call that nobody named."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_doctor.checkers.code.expression import called, dotted
from cudagraph_doctor.checkers.code.reads import is_read, is_upload
from cudagraph_doctor.checkers.code.text import source_of
from cudagraph_doctor.checkers.invalidation import context
from cudagraph_doctor.checkers.invalidation.calls import family_of
from cudagraph_doctor.session.apis import Family

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session


class Hint(NamedTuple):
    """What a line does that a capture refuses."""

    api: str
    """Name of a call whose family is known; empty where only the kind is."""
    kind: str
    """`read`, `upload`, `wait`, `query` or `call`."""


def hint_of_stack(session: Session, stack: int) -> Hint | None:
    """From the library frames below the user's line: torch's formatting, `synchronize`, queries."""
    if context.under_formatting(session, stack):
        return Hint("", "read")
    for frame in context.frames(session, stack):
        if not re.search(r"(?:^|[:/])torch/", frame.path):
            break
        name = frame.function.rpartition(".")[2]
        if name == "synchronize":
            return Hint(
                "torch.cuda.synchronize" if "cuda/__init__" in frame.path else "torch.cuda.Event.synchronize", "wait"
            )
        if name == "query":
            return Hint("torch.cuda.Event.query", "query")
        if name in {"tolist", "__array__", "__repr__", "__format__", "__contains__"}:
            return Hint("", "read")
    return None


def hint_of_line(session: Session, location: Location | None) -> Hint | None:
    """From the expressions of the user's line."""
    source = source_of(session, location)
    statement = source.statement_at(location.line) if location is not None else None
    return hint_of(source.expressions(statement)) if statement is not None else None


def hint_of(nodes: Iterable[ast.AST]) -> Hint | None:
    """The first expression that does something a capture refuses; None where none is known to."""
    kinds: dict[str, Hint] = {}
    for node in nodes:
        if not isinstance(node, ast.expr):
            continue
        name = called(node)
        if name and family_of(name) is not Family.OTHER:
            return Hint(name, "call")
        if name in {"synchronize", "query"} and isinstance(node, ast.Call):
            whole = dotted(node.func).endswith("cuda.synchronize")
            api = "torch.cuda.synchronize" if whole else f"torch.cuda.Event.{name}"
            kinds.setdefault("wait", Hint(api, "wait" if name == "synchronize" else "query"))
        elif is_read(node):
            kinds.setdefault("read", Hint("", "read"))
        elif is_upload(node):
            kinds.setdefault("upload", Hint("", "upload"))
    return kinds.get("wait") or kinds.get("read") or kinds.get("upload")
