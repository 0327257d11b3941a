"""`--select` and `--ignore`: which rules are looked at, by code, beginning of a code, slug, or name of a checker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from cudagraph_doctor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cudagraph_doctor.engine.registry import LoadedChecker


_ALIKE = str.maketrans("oil", "011")
"""Letters that are read as digits: CGD1O1 means CGD101."""


class Selection(Struct, frozen=True):
    """The rules that are looked at."""

    rules: frozenset[str]

    def __contains__(self, rule: str) -> bool:
        return rule in self.rules


def resolve(loaded: Sequence[LoadedChecker], select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Selection:
    """The rules that `select` names (all, if it names none), without those that `ignore` names.

    Raises:
        UsageError: a name that is no rule, no slug, no checker and begins no code; the hint says the nearest ones.
    """
    every = frozenset(rule.id for one in loaded for rule in one.rules)
    chosen = [rules_named(loaded, name) for name in select]
    left_out = [rules_named(loaded, name) for name in ignore]
    return Selection((frozenset().union(*chosen) if chosen else every) - frozenset().union(*left_out))


def rules_named(loaded: Sequence[LoadedChecker], name: str) -> frozenset[str]:
    """Ids of the rules that one name means. Raises UsageError if it means none."""
    wanted = name.strip()
    for one in loaded:
        if one.name == wanted:
            return frozenset(rule.id for rule in one.rules)
    code = wanted.upper()
    rules = [rule for one in loaded for rule in one.rules]
    found = {rule.id for rule in rules if rule.id == code or rule.slug == wanted.lower()}
    if not found and code:
        found = {rule.id for rule in rules if rule.id.startswith(code)}
    if not found:
        raise _unknown(loaded, wanted)
    return frozenset(found)


def _unknown(loaded: Sequence[LoadedChecker], name: str) -> UsageError:
    from difflib import get_close_matches

    known = [text for one in loaded for text in (one.name, *(t for r in one.rules for t in (r.id, r.slug)))]
    folded = {text.lower(): text for text in known}
    typed = name.lower().translate(_ALIKE)
    close = get_close_matches(name.lower(), folded, n=len(folded), cutoff=0.5)
    close.sort(key=lambda match: sum(map(str.__eq__, match.translate(_ALIKE), typed)), reverse=True)
    near = [folded[match] for match in close[:3]]
    hint = f"did you mean {' or '.join(near)}?" if near else "`cudagraph-doctor rules` lists them"
    return UsageError(f"no such rule or checker: {name}", hint)
