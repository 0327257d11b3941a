"""A rule's text for a terminal: Markdown is readable as it is, so it is shown as it is, headings apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Container

    from cudagraph_doctor.findings import Rule


def terminal_text(rule: Rule, known: Container[str]) -> str:
    """Title, one-sentence summary, and the rule's own text; bold headings where the terminal has them."""
    title = click.style(f"{rule.id} {rule.slug}", bold=True)
    lines = [f"{title}  ({rule.level.value})", rule.what, ""]
    fenced = False
    for line in rule.text.strip().splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced:
            lines.append(f"    {line}")
        elif line.startswith("#"):
            lines.append(click.style(line.lstrip("# "), bold=True))
        else:
            lines.append(line)
    others = [other for other in rule.see_also if other in known]  # rules of checkers that are not installed
    if others:
        lines += ["", "See also: " + ", ".join(others)]
    return "\n".join(lines)
