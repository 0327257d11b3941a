"""Conditions of the gate on graphs: captures that are gone, `--fail-on-change`, budgets, expected captures."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cudagraph_doctor.findings import Location
from cudagraph_doctor.gate.conditions import CAPTURES, Condition, parse_size, shown_size
from cudagraph_doctor.report import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudagraph_doctor.gate.config import Budgets, Config
    from cudagraph_doctor.gate.graph_diff import CaptureDiff, GraphDiff
    from cudagraph_doctor.gate.graph_facts import GraphFacts, RunGraphs


def lost_captures(diff: GraphDiff) -> Iterator[Violation]:
    """Captures that completed in the baseline, and now do not begin or do not complete."""
    for facts in diff.gone:
        if facts.status == "completed":
            yield Violation(f"a capture of the baseline is gone: {facts.shown}")
    for pair in diff.captures:
        if pair.before.status == "completed" and pair.after.status not in ("completed", "unfinished"):
            what = f"a capture that completed in the baseline is {pair.after.status} now: {pair.after.shown}"
            yield Violation(what, _place(pair.after))


def changes(diff: GraphDiff, conditions: Sequence[Condition]) -> Iterator[Violation]:
    """The conditions of `--fail-on-change` that do not hold."""
    completed = [sum(f.status == "completed" for f in side) for side in _sides(diff)]
    for condition in conditions:
        name = condition.quantity
        if name == CAPTURES:
            if condition.exceeded(*completed):
                yield Violation(f"{condition.text}: {completed[1]} captures completed, {completed[0]} before")
        elif name == "skips":
            if condition.exceeded(*diff.skips):
                yield Violation(f"{condition.text}: {diff.skips[1]} regions skipped, {diff.skips[0]} before")
        else:
            for pair in diff.captures:
                yield from _of_capture(pair, condition)
            for facts in diff.new:  # what nobody knew is held against nothing
                if name in ("escapes", "modules") and condition.exceeded(0, getattr(facts, name)):
                    yield Violation(
                        f"{condition.text}: {getattr(facts, name)} in a new capture, {facts.shown}", _place(facts)
                    )


def _of_capture(pair: CaptureDiff, condition: Condition) -> Iterator[Violation]:
    name = condition.quantity
    before, after = getattr(pair.before, name), getattr(pair.after, name)
    if before is None and after is None:
        return
    if before is None or after is None:
        side = "in the baseline" if before is None else "now"
        yield Violation(
            f"{condition.text} cannot be decided: {name} not recorded {side}: {pair.after.shown}", _place(pair.after)
        )
    elif condition.exceeded(before, after):
        shown = [shown_size(n) if name == "pool" else f"{n:,}" for n in (before, after)]
        yield Violation(f"{condition.text}: {shown[1]}, {shown[0]} before: {pair.after.shown}", _place(pair.after))


def over_budget(graphs: RunGraphs, budgets: Budgets) -> Iterator[Violation]:
    """What needs more than the configuration allows."""
    pool = parse_size(budgets.pool) if isinstance(budgets.pool, str) else budgets.pool
    for facts in graphs.captures:
        if budgets.nodes is not None and (facts.nodes or 0) > budgets.nodes:
            yield Violation(f"{facts.nodes:,} nodes, budget {budgets.nodes:,}: {facts.shown}", _place(facts))
        if pool is not None and (facts.pool or 0) > pool:
            yield Violation(
                f"pool {shown_size(facts.pool or 0)}, budget {shown_size(pool)}: {facts.shown}", _place(facts)
            )
    for name, limit, number in (
        ("escapes", budgets.escapes, sum(facts.escapes for facts in graphs.captures)),
        ("modules", budgets.modules, sum(facts.modules for facts in graphs.captures)),
        ("skips", budgets.skips, graphs.skips),
    ):
        if limit is not None and number > limit:
            yield Violation(f"{number:,} {name}, budget {limit:,}")


def missing_captures(graphs: RunGraphs, config: Config) -> Iterator[Violation]:
    """Fewer captures completed than `expected-captures` says."""
    done = [facts for facts in graphs.captures if facts.status == "completed"]
    expected = config.expected_captures
    if isinstance(expected, int):
        if len(done) < expected:
            yield Violation(f"{len(done)} captures completed, {expected} expected")
        return
    for pattern, number in expected.items():
        path, _, function = pattern.partition("::")
        found = [f for f in done if fnmatchcase(f.path, path) and (not function or fnmatchcase(f.function, function))]
        if len(found) < number:
            yield Violation(f"{len(found)} captures of {pattern} completed, {number} expected")


def _sides(diff: GraphDiff) -> tuple[list[GraphFacts], list[GraphFacts]]:
    before = [pair.before for pair in diff.captures] + list(diff.gone)
    after = [pair.after for pair in diff.captures] + list(diff.new)
    return before, after


def _place(facts: GraphFacts) -> Location | None:
    return Location(facts.path, facts.line, function=facts.function or None) if facts.path and facts.line else None
