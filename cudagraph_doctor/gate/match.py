"""Which capture of one run is which of another: by place, then by file, then by what its graph holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudagraph_doctor.gate.graph_facts import GraphFacts


class Matched(Struct, frozen=True):
    """Captures of two runs, put side by side."""

    pairs: tuple[tuple[GraphFacts, GraphFacts], ...]
    gone: tuple[GraphFacts, ...]
    """Of the first run, without one in the second."""
    new: tuple[GraphFacts, ...]


def match(before: Sequence[GraphFacts], after: Sequence[GraphFacts]) -> Matched:
    """Pairs captures; a function that was renamed or moved to another file is still recognised.

    Each pass takes what the passes before it left, in order.
    """
    left, right = list(before), list(after)
    pairs: list[tuple[GraphFacts, GraphFacts]] = []
    passes: tuple[Callable[[GraphFacts], object], ...] = (
        lambda facts: facts.site,
        lambda facts: (facts.path, facts.key, facts.rank, _content(facts)),
        lambda facts: (facts.path, facts.key, facts.rank),
        _content,
    )
    for key in passes:
        waiting: dict[object, list[GraphFacts]] = {}
        for facts in right:
            waiting.setdefault(key(facts), []).append(facts)
        for facts in list(left):
            found = waiting.get(key(facts))
            if found:
                other = found.pop(0)
                pairs.append((facts, other))
                left = [one for one in left if one is not facts]
                right = [one for one in right if one is not other]
    order = {id(facts): number for number, facts in enumerate(before)}
    pairs.sort(key=lambda pair: order[id(pair[0])])
    return Matched(tuple(pairs), tuple(left), tuple(right))


def _content(facts: GraphFacts) -> object:
    """What the graph holds; an empty graph is like no other."""
    if not facts.groups:
        return id(facts)
    return facts.status, tuple(sorted((group.kind, group.name, group.count) for group in facts.groups))
