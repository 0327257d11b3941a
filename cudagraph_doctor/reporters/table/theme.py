"""Styles and glyphs: few, and meaningful without colour too."""

from __future__ import annotations

from dataclasses import dataclass

from rich.box import Box
from rich.theme import Theme

from cudagraph_doctor.findings import Severity

# The terminal's own sixteen colours: the user chose them so that they can be read.
THEME = Theme(
    {
        "error": "bold red",
        "warning": "bold yellow",
        "note": "bold cyan",
        "good": "bold green",
        "faint": "bright_black",
        "code": "cyan",
        "place": "bold",
        "label": "bold",
        "gone": "red",
        "added": "green",
    },
    inherit=True,
)


# Left border only: right-to-left text and characters of doubtful width would break a right-hand border.
_OPEN_BOX = Box("╭── \n│   \n├── \n│   \n├── \n├── \n│   \n╰── \n")
_OPEN_ASCII_BOX = Box("+-- \n|   \n+-- \n|   \n+-- \n+-- \n|   \n+-- \n", ascii=True)


@dataclass(frozen=True)
class Glyphs:
    """What is drawn, for streams that can and cannot write it."""

    bad: str = "✗"
    warn: str = "!"
    good: str = "✓"
    dot: str = "·"
    arrow: str = "→"
    ellipsis: str = "…"
    here: str = "▸"
    under: str = "▔"
    box: Box = _OPEN_BOX


ASCII = Glyphs(
    bad="x",
    good="ok",
    dot="|",
    arrow="->",
    ellipsis="...",
    here=">",
    under="^",
    box=_OPEN_ASCII_BOX,
)
UNICODE = Glyphs()


def level_style(level: Severity) -> str:
    """The theme's style for a level: they have the same names."""
    return level.value
