"""Everything the gate does to one run's report, in the one order that is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cudagraph_doctor.findings import Severity
from cudagraph_doctor.gate.fingerprints import fingerprinted
from cudagraph_doctor.gate.suppressions import suppress_inline, suppress_per_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cudagraph_doctor.gate.baseline import Baseline
    from cudagraph_doctor.gate.conditions import Condition
    from cudagraph_doctor.gate.config import Configuration
    from cudagraph_doctor.gate.graph_facts import RunGraphs
    from cudagraph_doctor.gate.suppressions import RulesNamed
    from cudagraph_doctor.report import Gate, Report, Roots, Violation
    from cudagraph_doctor.session.model import Session


class Request(Struct, frozen=True):
    """What the user's files and options ask of the gate."""

    configuration: Configuration
    roots: Roots
    gate: Gate
    baseline: Baseline | None = None
    baseline_path: str = ""
    conditions: tuple[Condition, ...] = ()
    graphs: bool = False
    """The facts of the graphs are wanted whatever the gate needs."""


def apply(
    report: Report, sessions: Sequence[Session], request: Request, rules_named: RulesNamed
) -> tuple[Report, RunGraphs | None]:
    """Levels first, for they decide what counts; then what is suppressed, known, and broken."""
    config, root = request.configuration.config, request.configuration.root
    report = replace(report, roots=request.roots, gate=request.gate)
    report = _levelled(report, config.severity, rules_named)
    report = fingerprinted(report, root)
    report = suppress_per_file(report, config.per_file_ignores, root, rules_named)
    report = suppress_inline(report, sessions, rules_named)
    if request.baseline is not None:
        from cudagraph_doctor.gate import baseline

        report = baseline.apply(report, request.baseline, request.baseline_path)
    if not _needs_graphs(request):  # a pass over all activities, and a third of the gate's imports
        return report, None
    from cudagraph_doctor.gate.graph_facts import graphs_of

    graphs = graphs_of(sessions, report, root)
    violations = (*report.gate.violations, *_violations(graphs, request))
    return replace(report, gate=replace(report.gate, violations=violations)), graphs


def _violations(graphs: RunGraphs, request: Request) -> Iterator[Violation]:
    from cudagraph_doctor.gate import limits
    from cudagraph_doctor.gate.graph_diff import diff
    from cudagraph_doctor.gate.graph_facts import RunGraphs

    config = request.configuration.config
    yield from limits.over_budget(graphs, config.budgets)
    yield from limits.missing_captures(graphs, config)
    before = request.baseline.graphs if request.baseline is not None else None
    if before is not None:
        yield from limits.lost_captures(diff(before, graphs))
    yield from limits.changes(diff(before or RunGraphs(), graphs), request.conditions)


def _needs_graphs(request: Request) -> bool:
    config = request.configuration.config
    compared = request.baseline is not None and request.baseline.graphs is not None
    limited = config.budgets != type(config.budgets)() or bool(config.expected_captures)
    return request.graphs or compared or limited or bool(request.conditions)


def _levelled(report: Report, levels: Mapping[str, str], rules_named: RulesNamed) -> Report:
    """The configuration's levels. The order of the findings follows them."""
    if not levels:
        return report
    wanted = {rule: Severity(level) for name, level in levels.items() for rule in rules_named(name)}
    findings = [replace(f, level=wanted.get(f.rule.id, f.level)) for f in report.findings]
    findings.sort(key=lambda finding: (finding.confidence.rank, finding.level.rank))
    return replace(report, findings=tuple(findings))
