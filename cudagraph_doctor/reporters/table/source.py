"""A source excerpt: the user's line with its neighbours, and what on it is to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from cudagraph_doctor.reporters.table.foreign import cut, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.reporters.table.theme import Glyphs

NEIGHBOURS = 2
"""Lines shown before and after."""
LONGEST_RANGE = 12
"""Lines of a statement that are shown."""
LONGEST_LINE = 1200
"""Cells of a line that are shown; a generated or minified line may hold a megabyte."""


def excerpt(location: Location, sources: Mapping[int, str], width: int, glyphs: Glyphs, *, color: bool) -> list[Text]:
    """The lines around a location, numbered, the location's own marked; empty where no text was recorded.

    Args:
        location: The place; its columns are offsets in UTF-8, as `code.co_positions()` has them.
        sources: Text of each recorded file, by the id that the location carries.
        width: Columns; longer lines are continued below, indented.
        glyphs: What marks the line.
        color: Whether the code is highlighted.
    """
    first, last = location.line, max(location.line, location.end_line or location.line)
    last = min(last, first + LONGEST_RANGE - 1)
    lines = _numbered(location, sources, first - NEIGHBOURS, last + NEIGHBOURS)
    if not lines:
        return []
    gutter = len(str(max(lines)))
    result: list[Text] = []
    for number, raw in lines.items():
        blamed = first <= number <= last
        shown = cut(visible(raw), LONGEST_LINE)
        body = _highlighted(shown) if color else Text(shown)
        if not blamed:
            body.stylize("dim")
        mark = glyphs.here if blamed else " "
        head = Text(f"{mark} {number:>{gutter}}  ", style="error" if blamed else "faint")
        result += folded(head, body, width)
        if number == first and (line := _underline(raw, location, len(head), width, glyphs)):
            result.append(line)
    return result


def source_lines(sources: Mapping[int, str], source: int | None) -> list[str]:
    """The recorded file's lines, counted as Python counts them: form feeds and the like do not end a line."""
    text = sources.get(source) if source is not None else None
    return [] if text is None else text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _numbered(location: Location, sources: Mapping[int, str], first: int, last: int) -> dict[int, str]:
    """Lines `first` to `last` that exist, without blank ones at the edges."""
    lines = source_lines(sources, location.source)
    found = {n: lines[n - 1] for n in range(max(first, 1), min(last, len(lines)) + 1)}
    if location.line not in found:
        return {location.line: location.code} if location.code is not None else {}
    while not found[min(found)].strip() and min(found) < location.line:
        del found[min(found)]
    while not found[max(found)].strip() and max(found) > location.line:
        del found[max(found)]
    return found


def _highlighted(line: str) -> Text:
    """The line in the terminal's colours. Lexed alone: a wrong guess costs nothing."""
    from rich.syntax import Syntax

    text = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(line)
    text.rstrip()
    return text if text.plain == line.rstrip() else Text(line)


def folded(head: Text, body: Text, width: int) -> list[Text]:
    """The head and the body, the body broken at the width and continued under its own beginning.

    No character is lost or added: it is broken behind the last space that is near enough, else anywhere.
    """
    room = max(width - cell_len(head.plain), 20)
    plain = body.plain
    rows: list[Text] = []
    start, used, space = 0, 0, 0
    for index, character in enumerate(plain):
        cells = cell_len(character)
        if used + cells > room:
            end = space if space > start and cell_len(plain[start:space]) > room * 2 // 3 else index
            rows.append(body[start:end])
            start, used = end, cell_len(plain[end:index])
        used += cells
        if character == " ":
            space = index + 1
    rows.append(body[start:])
    pad = " " * cell_len(head.plain)
    return [Text.assemble(head if n == 0 else pad, row) for n, row in enumerate(rows)]


def _underline(raw: str, location: Location, indent: int, width: int, glyphs: Glyphs) -> Text | None:
    """A row that underlines the blamed columns, where they are known, on one line, and not the whole of it."""
    if location.column is None or location.end_column is None or location.end_line not in (None, location.line):
        return None
    data = raw.encode("utf-8", "surrogatepass")
    before = visible(data[: location.column].decode("utf-8", "replace"))
    through = visible(data[: location.end_column].decode("utf-8", "replace"))
    start, end = cell_len(before), cell_len(through)
    whole = visible(raw)
    if end <= start or indent + cell_len(whole) > width or whole[len(before) : len(through)] == whole.strip():
        return None
    return Text(" " * (indent + start) + glyphs.under * (end - start), style="error")
