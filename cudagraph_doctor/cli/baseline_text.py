"""A baseline for people to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.gate.conditions import shown_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.gate.baseline import Baseline


def baseline_lines(baseline: Baseline) -> Iterator[str]:
    """Known findings by file, then the captures."""
    total = sum(known.count for known in baseline.findings)
    yield f"{total} known findings"
    for known in sorted(baseline.findings, key=lambda known: (known.path, known.rule)):
        where = known.path or "no Python line"
        function = f" in {known.function}" if known.function not in ("", "<module>") else ""
        yield _printable(f"  {known.count:>4} × {known.rule}  {where}{function}  ({known.trigger})")
        for code in known.code:
            yield _printable(f"           {code}")
    if baseline.graphs is None:
        return
    yield f"{len(baseline.graphs.captures)} captures"
    for facts in baseline.graphs.captures:
        parts = [facts.status, f"{facts.nodes if facts.nodes is not None else '?'} nodes"]
        if facts.edges is not None:
            parts.append(f"{facts.edges} edges")
        if facts.pool is not None:
            parts.append(f"pool {shown_size(facts.pool)}")
        parts += [
            f"{number} {name}" for name, number in (("escapes", facts.escapes), ("modules", facts.modules)) if number
        ]
        yield _printable(f"  {facts.shown}: {', '.join(parts)}")
        for group in facts.groups:
            yield _printable(f"    {group.count:>4} × {group.name}  {group.path}:{group.line}")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
