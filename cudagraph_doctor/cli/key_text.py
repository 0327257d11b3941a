"""The graph keys of a run as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.frozen_values.graph_key import SiteKey, graph_keys
from cudagraph_doctor.checkers.frozen_values.uses import Role
from cudagraph_doctor.checkers.wording.words import at, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudagraph_doctor.session.model import Session

_NAMED = 8
"""Values and replays shown of one slot."""
_ROLES = {
    Role.EXTENT: "sizes depend on it",
    Role.OPERAND: "it is an argument of captured work",
    Role.BRANCH: "it decides what is captured",
}


def key_text(sessions: Sequence[Session]) -> tuple[str, bool]:
    """The report, and whether every key is complete."""
    lines: list[str] = []
    complete = True
    for session in sessions:
        if session.captures and not session.has("region"):
            lines.append(f"process {session.header.pid}: not checked: {session.why_not(('region',))}")
            continue
        for site in graph_keys(session):
            complete = complete and site.complete
            lines += [*_of_site(site), ""]
    if not lines:
        lines = ["No graph was captured."]
    return _printable("\n".join(lines).rstrip()), complete


def _of_site(site: SiteKey) -> Iterator[str]:
    count = len(site.captures)
    yield f"{place(site.place) or 'unknown line'}: {count} graph{'s' if count != 1 else ''} captured"
    in_graphs = [part for part in site.parts if part.role is not None]
    idle = [
        part for part in site.parts if part.role is None and all(value.lstrip("-").isdigit() for value in part.values)
    ]
    if site.nodes is not None:
        differing, total = site.nodes
        yield f"  {differing} of {total} nodes differ among the graphs (kernel, grid or size)"
    if in_graphs:
        yield "  belongs to the key: differs among the graphs, and captured work depends on it"
        for part in in_graphs:
            assert part.role is not None
            yield f"    {part.path} = {_values(part.values)}   {_ROLES[part.role]}{at(part.place)}"
    if idle:
        yield "  differs among the graphs, but no captured work depends on it"
        for part in idle[:_NAMED]:
            yield f"    {part.path} = {_values(part.values)}"
        if len(idle) > _NAMED:
            yield f"    and {len(idle) - _NAMED} more"
    if site.missing:
        yield "  missing from the key: in the graphs, and changed without another graph being captured for it"
        for found in site.missing:
            change = found.change
            now = change.value if change is not None else found.state.record.left
            since = f" by replay {change.replay}" if change is not None and change.replay else ""
            yield f"    {found.state.path} = {found.state.record.value}, is {now}{since}   {_ROLES[found.use.role]}"
    if site.misfits:
        yield "  replays of a graph that was captured for another value"
        for misfit in site.misfits[:_NAMED]:
            other = f"; graph {misfit.fitting} was captured for that" if misfit.fitting else "; no graph is"
            yield (
                f"    graph {misfit.graph} ({misfit.path} = {misfit.captured}), its replay {misfit.replay}: "
                f"{misfit.path} is {misfit.now}{other}"
            )
        if len(site.misfits) > _NAMED:
            yield f"    and {len(site.misfits) - _NAMED} more"
    if site.complete and (in_graphs or not site.misfits):
        yield "  complete, as far as this run shows" if count > 1 else "  nothing of it changed in this run"


def _values(values: tuple[str, ...]) -> str:
    shown = list(dict.fromkeys(values))
    return ", ".join(shown[:_NAMED]) + (f", … ({len(shown)} values)" if len(shown) > _NAMED else "")


def _printable(text: str) -> str:
    """A trace may hold anything: no control characters reach the terminal."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )
