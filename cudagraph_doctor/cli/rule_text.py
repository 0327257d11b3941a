"""A rule's text for a terminal: Markdown is readable as it is; paragraphs are wrapped anew, headings are bold."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from cudagraph_doctor.findings import Rule

_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")


def terminal_text(rule: Rule, known: Container[str], width: int) -> str:
    """Title, one-sentence summary, and the rule's own text, at most `width` columns wide but for code."""
    title = click.style(f"{rule.id} {rule.slug}", bold=True)
    lines = [f"{title}  ({rule.level.value})", *_wrapped(rule.what, width), "", *_body(rule.text, width)]
    others = [other for other in rule.see_also if other in known]  # rules of checkers that are not installed
    if others:
        lines += ["", *_wrapped("See also: " + ", ".join(others), width)]
    return "\n".join(lines)


def _body(text: str, width: int) -> Iterator[str]:
    paragraph: list[str] = []
    fenced = False
    for line in [*text.strip().splitlines(), ""]:
        fence, heading = line.startswith("```"), line.startswith("#")
        prose = bool(line) and not (fenced or fence or heading or line.startswith("|"))
        if paragraph and (not prose or _ITEM.match(line)):
            yield from _wrapped(" ".join(paragraph), width)
            paragraph = []
        if fence:
            fenced = not fenced
        elif fenced:
            yield f"    {line}"
        elif heading:
            yield click.style(line.lstrip("# "), bold=True)
        elif prose:
            paragraph.append(line if not paragraph else line.strip())
        else:
            yield line


def _wrapped(paragraph: str, width: int) -> list[str]:
    """Lines of a paragraph or of a list's item, whose further lines stand under its first word."""
    item = _ITEM.match(paragraph)
    return textwrap.wrap(
        paragraph,
        width,
        subsequent_indent=" " * len(item[0]) if item else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
