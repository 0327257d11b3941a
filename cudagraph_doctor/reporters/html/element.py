"""HTML as strings that say that they are HTML: everything else is text, and is escaped."""

from __future__ import annotations

import re
from html import escape
from typing import TypeAlias

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_VOID = frozenset({"meta", "br", "hr", "input"})


class Html(str):
    """A piece of markup that is safe to write as it is."""

    __slots__ = ()


Content: TypeAlias = "str | Html | None"


def text(foreign: str) -> Html:
    """Any text, shown as it is: markup escaped, control characters and bidirectional overrides spelled out."""
    return Html(escape(_CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), foreign), quote=True))


def element(tag: str, *content: Content, **attributes: str | bool | None) -> Html:
    """`element("td", "a < b", class_="x")`; text among the content and all attribute values are escaped.

    An attribute that is None or False is left out; underscores stand for dashes, a trailing one is dropped.
    """
    told = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Html(f"<{tag}{told}>")
    return Html(f"<{tag}{told}>{joined(*content)}</{tag}>")


def joined(*content: Content) -> Html:
    """Pieces one after the other."""
    return Html("".join(part if isinstance(part, Html) else text(part) for part in content if part is not None))


def prose(foreign: str) -> Html:
    """A sentence in which `backticks` mark code."""
    parts = re.split(r"(`[^`]+`)", foreign)
    return joined(*(element("code", p[1:-1]) if len(p) > 2 and p[0] == p[-1] == "`" else p for p in parts))
