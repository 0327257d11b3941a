"""A recorded source file, parsed: the way from a line and a column to the statement and expression there."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from cudagraph_doctor.session.frames import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session

Block = list[ast.stmt]


@dataclass(frozen=True)
class SourceText:
    """The text of one file and its syntax tree; both may be missing."""

    lines: tuple[str, ...]
    tree: ast.Module | None
    parents: dict[ast.AST, ast.AST] = field(repr=False)

    @property
    def text(self) -> str:
        """The whole text, lines joined by newlines."""
        return "\n".join(self.lines)

    def segment(self, node: ast.AST) -> str:
        """The text of a node on one line: as written where it is short, else as `ast` writes it."""
        found = ast.get_source_segment(self.text, node) if self.lines else None
        if found is None or "\n" in found:
            return ast.unparse(node)
        return found

    def statement_at(self, line: int) -> ast.stmt | None:
        """The innermost statement that stands on a line; for a compound statement only its header counts."""
        best: ast.stmt | None = None
        for node in self._statements():
            first, last = node.lineno, header_end(node)
            if first <= line <= last and (best is None or node.lineno >= best.lineno):
                best = node
        return best

    def test_starting_at(self, line: int, column: int) -> tuple[ast.stmt, ast.expr] | None:
        """The `if`, `while` or `assert` that starts here, and its test.

        Python 3.11 gives the jump on a test the position of the whole statement.
        """
        for node in self._statements():
            if (node.lineno, node.col_offset) == (line, column) and isinstance(node, (ast.If, ast.While, ast.Assert)):
                return node, node.test
        return None

    def expressions(self, statement: ast.stmt) -> Iterator[ast.expr]:
        """The expressions of a statement, of a compound one only those of its header, outermost first."""
        bodies = {id(child) for block in blocks(statement) for child in block}
        queue: list[ast.AST] = [statement]
        while queue:
            node = queue.pop(0)
            if isinstance(node, ast.expr):
                yield node
            queue.extend(child for child in ast.iter_child_nodes(node) if id(child) not in bodies)

    def expression_at(self, line: int, column: int, end_line: int | None, end_column: int | None) -> ast.expr | None:
        """The expression with exactly this extent, else the smallest that covers it. Columns are UTF-8 offsets."""
        wanted = (line, column), (end_line or line, end_column if end_column is not None else column)
        best: ast.expr | None = None
        for node in self._expressions():
            start, end = (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)
            covers = start <= wanted[0] and wanted[1] <= end
            if covers and (best is None or _extent(node) <= _extent(best)):
                best = node
        return best

    def enclosing(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        """The innermost node of one of these kinds around a node, not the node itself."""
        above = self.parents.get(node)
        while above is not None and not isinstance(above, kinds):
            above = self.parents.get(above)
        return above

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def block_of(self, statement: ast.stmt) -> Block:
        """The list of statements that a statement stands in."""
        above = self.parents.get(statement)
        if above is not None:
            for block in blocks(above):
                if statement in block:
                    return block
        return [statement]

    def _statements(self) -> Iterator[ast.stmt]:
        return (n for n in ast.walk(self.tree) if isinstance(n, ast.stmt)) if self.tree is not None else iter(())

    def _expressions(self) -> Iterator[ast.expr]:
        return (n for n in ast.walk(self.tree) if isinstance(n, ast.expr)) if self.tree is not None else iter(())


EMPTY = SourceText((), None, {})


def source_of(session: Session, location: Location | None) -> SourceText:
    """The text of the file that a location lies in; empty where it was not recorded."""
    record = session.sources.get(location.source) if location is not None and location.source is not None else None
    text = text_of(record) if record is not None else None
    return parsed(text) if text is not None else EMPTY


@lru_cache(maxsize=64)
def parsed(text: str) -> SourceText:
    """A text with its syntax tree; without one where it is not Python that this interpreter reads."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = tuple(text.split("\n"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user's invalid escapes are not ours to complain about
            tree = ast.parse(text)
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return SourceText(lines, None, {})
    return SourceText(lines, tree, parents)


def blocks(node: ast.AST) -> Iterator[Block]:
    """The lists of statements inside a compound statement, a module or a handler."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def header_end(statement: ast.stmt) -> int:
    """Last line of a statement's header: the line before its first inner statement, or its own last line."""
    inner = [child for block in blocks(statement) for child in block]
    if not inner:
        return statement.end_lineno or statement.lineno
    return max(statement.lineno, min(_first_line(child) for child in inner) - 1)


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _extent(node: ast.expr) -> tuple[int, int]:
    lines = (node.end_lineno or node.lineno) - node.lineno
    return lines, (node.end_col_offset or 0) - node.col_offset if lines == 0 else 0
