"""Text that is not ours: source lines, messages, paths, arguments. Shown as it is, never obeyed."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.text import Text

# C0 and C1 controls but the tab; line and paragraph separators; bidirectional overrides and isolates, which can make
# a line read differently from what it does; the byte order mark; lone surrogates, which no encoding can write.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")

TAB = 8
"""Columns of a tab stop, as terminals have them."""


def visible(text: str) -> str:
    r"""Text with control characters spelled as Python spells them (`\x1b`, `\u202e`), and tabs as spaces.

    Right-to-left letters, CJK and combining marks stay. The result holds no newline.
    """
    return expand_tabs(_CONTROL.sub(_escape, text))


def visible_lines(text: str) -> list[str]:
    """Text with line breaks of its own, a list entry each, every line made visible."""
    return [visible(line) for line in re.split(r"\r\n|\r|\n", text)]


def expand_tabs(text: str) -> str:
    """Replace tabs by spaces up to the next tab stop, counting wide characters as the terminal does."""
    if "\t" not in text:
        return text
    line = ""
    for part in re.split(r"(\t)", text):
        line += " " * (TAB - cell_len(line) % TAB) if part == "\t" else part
    return line


def prose(text: str, style: str = "", code: str = "code") -> Text:
    """A sentence in which `backticks` mark code, as in Markdown; an unpaired one is shown as it is."""
    parts = re.split(r"(`[^`]+`)", " ".join(visible_lines(text)))
    result = Text(style=style)
    for part in parts:
        quoted = len(part) > 2 and part.startswith("`") and part.endswith("`")
        result.append(part, style=code if quoted else "")
    return result


def cut(text: str, cells: int) -> str:
    """At most so many cells of text; what is left out is counted."""
    if cell_len(text) <= cells:
        return text
    kept = text[:cells]
    while cell_len(kept) > cells:
        kept = kept[:-1]
    return f"{kept} … ({len(text) - len(kept):,} more characters)"


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
