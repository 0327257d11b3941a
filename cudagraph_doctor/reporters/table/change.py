"""A fix as changed code: a small diff with the user's own names."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from rich.text import Text

from cudagraph_doctor.reporters.table.foreign import cut, visible, visible_lines
from cudagraph_doctor.reporters.table.source import LONGEST_LINE, folded, source_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cudagraph_doctor.findings import Fix


def changed_code(fix: Fix, sources: Mapping[int, str], width: int) -> list[Text]:
    """Lines of the fix: `-` what goes, `+` what comes, unmarked what stays. Without recorded text, what comes.

    Lines that are longer than the width are continued below, indented.
    """
    old = [visible(line) for line in source_lines(sources, fix.source)[fix.start - 1 : fix.end]]
    new = visible_lines(fix.replacement.removesuffix("\n"))
    return [
        row
        for mark, line, style in _diff(old, new)
        for row in folded(Text(f"{mark} ", style=style), Text(cut(line, LONGEST_LINE), style=style), width)
    ]


def _diff(old: list[str], new: list[str]) -> Iterator[tuple[str, str, str]]:
    """Mark, line and style of each line."""
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if tag == "equal":
            yield from ((" ", line, "dim") for line in old[old_from:old_to])
            continue
        yield from (("-", line, "gone") for line in old[old_from:old_to])
        yield from (("+", line, "added") for line in new[new_from:new_to])
