"""Options and configuration together: everything that can be refused is, before the target runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cudagraph_doctor.cli.report_options import ReportOptions, names
from cudagraph_doctor.errors import UsageError

if TYPE_CHECKING:
    from cudagraph_doctor.engine.registry import LoadedChecker
    from cudagraph_doctor.engine.selection import Selection
    from cudagraph_doctor.gate.apply import Request
    from cudagraph_doctor.gate.conditions import Condition
    from cudagraph_doctor.gate.config import Configuration
    from cudagraph_doctor.gate.graph_facts import RunGraphs
    from cudagraph_doctor.report import Report, Roots
    from cudagraph_doctor.reporters.formats import Format

_RELATIVE = "{what} needs a baseline to compare with: give --baseline FILE"


@dataclass(frozen=True)
class Settings:
    """What a diagnosis is to be, decided."""

    loaded: list[LoadedChecker]
    selection: Selection
    own: tuple[str, ...]
    request: Request
    form: Format
    output: str | None
    files: tuple[tuple[Format, str], ...]
    timelines: bool
    asked_for_timelines: bool
    allow_no_capture: bool
    require_evidence: bool
    require_checked: frozenset[str]

    @classmethod
    def of(cls, options: dict[str, Any], *, for_baseline: bool = False) -> Settings:
        """Settles the options against the configuration.

        Args:
            options: of `report_options`, as click delivers them.
            for_baseline: to write or prune one: the facts of graphs are wanted, and nothing is held against another.

        Raises:
            UsageError: a code, a key, a condition, a configuration or a baseline that is not understood.
            OutputError: a report could not be written.
        """
        from cudagraph_doctor.engine.registry import load_all
        from cudagraph_doctor.engine.selection import resolve, rules_named
        from cudagraph_doctor.gate.roots import find_roots
        from cudagraph_doctor.reporters.files import check_writable
        from cudagraph_doctor.reporters.formats import Format

        given = ReportOptions(**options)
        roots = find_roots()
        configuration = _configuration(given, roots.cwd)
        config = configuration.config
        loaded = load_all()
        if configuration.path:
            from cudagraph_doctor.gate.config_file import check_codes

            check_codes(configuration, partial(rules_named, loaded))
        selection = resolve(loaded, names(given.select) or config.select, (*names(given.ignore), *config.ignore))
        required = [rules_named(loaded, name) for name in names(given.require_checked) or config.require_checked]
        files = tuple(_report_file(text) for text in given.reports)
        output = [] if given.output is None else [given.output]
        check_writable([*output, *(path for _form, path in files)])
        form = Format(given.form)
        written = (form, *(one for one, _path in files))
        return cls(
            loaded=loaded,
            selection=selection,
            own=given.own or config.own,
            request=_request(given, configuration, roots, for_baseline=for_baseline),
            form=form,
            output=given.output,
            files=files,
            timelines=given.timeline or any(one.shows_timelines for one in written),
            asked_for_timelines=given.timeline,
            allow_no_capture=given.allow_no_capture or bool(config.allow_no_capture),
            require_evidence=given.require_evidence,
            require_checked=frozenset().union(*required),
        )

    def diagnose(self, paths: list[str]) -> tuple[Report, RunGraphs | None]:
        """The report on these traces, after the gate, and the facts of the graphs where they were needed.

        Raises:
            TraceError: no trace among them can be read.
        """
        from msgspec.structs import replace

        from cudagraph_doctor.cli.progress import progress
        from cudagraph_doctor.engine.run import read_sessions, report_on
        from cudagraph_doctor.engine.selection import rules_named
        from cudagraph_doctor.gate.anchor import anchor
        from cudagraph_doctor.gate.apply import apply

        with progress("diagnosing"):
            sessions, unreadable = read_sessions(paths, self.own)
            anchor(sessions, self.request.roots)
            report = report_on(sessions, self.loaded, self.selection, extra_limits=unreadable)
            if self.timelines:
                from cudagraph_doctor.session.timeline import timelines_of

                report = replace(
                    report, timelines=tuple(line for session in sessions for line in timelines_of(session))
                )
            return apply(report, sessions, self.request, partial(rules_named, self.loaded))

    def finish(self, report: Report, *, evidence: str | None) -> int:
        """Write the reports and say with which status to exit.

        Args:
            report: The finished report.
            evidence: The level that --require-evidence means, if it was given.
        """
        from cudagraph_doctor.cli.written_reports import write_reports
        from cudagraph_doctor.engine.exit_facts import lacking_evidence
        from cudagraph_doctor.report import refused

        required = evidence if self.require_evidence else None
        report = refused(report, lacking_evidence(report, required))
        report = self.decided(report, required)
        write_reports(report, self)
        assert report.gate.exit_code is not None
        return report.gate.exit_code

    def decided(self, report: Report, required: str | None = None) -> Report:
        """The report with its exit status."""
        from msgspec.structs import replace

        from cudagraph_doctor.engine.exit_code import decide
        from cudagraph_doctor.engine.exit_facts import ExitPolicy, exit_facts

        policy = ExitPolicy(
            allow_no_capture=self.allow_no_capture,
            require_evidence=required,
            require_checked=self.require_checked,
        )
        code = decide(exit_facts(report, policy))
        return replace(report, gate=replace(report.gate, exit_code=int(code), meaning=code.meaning))


def _configuration(given: ReportOptions, cwd: str) -> Configuration:
    from cudagraph_doctor.gate.config import Configuration
    from cudagraph_doctor.gate.config_file import find_configuration, read_configuration

    if given.no_config and given.config is not None:
        raise UsageError("--config and --no-config exclude each other", "give one of them")
    if given.no_config:
        return Configuration(root=cwd)
    return read_configuration(given.config) if given.config is not None else find_configuration(cwd)


def _request(given: ReportOptions, configuration: Configuration, roots: Roots, *, for_baseline: bool) -> Request:
    from cudagraph_doctor.findings import Severity
    from cudagraph_doctor.gate.apply import Request
    from cudagraph_doctor.report import Gate

    config = configuration.config
    fail_on = given.fail_on or config.fail_on or "error"
    path = given.baseline
    if path is None and config.baseline is not None:
        path = os.path.join(configuration.root, config.baseline)
    given_conditions = given.fail_on_change or config.fail_on_change
    if for_baseline:
        if given.baseline is not None or given.fail_on_change:
            raise UsageError("a baseline is made from a run alone", "leave --baseline and --fail-on-change out")
        path, given_conditions = None, ()
    baseline = None
    if path is not None:
        from cudagraph_doctor.gate.baseline import read

        baseline = read(path)
    conditions: tuple[Condition, ...] = ()
    if given_conditions:
        from cudagraph_doctor.gate.conditions import ABSOLUTE, parse_conditions

        conditions = parse_conditions(",".join(given_conditions))
        if baseline is None or baseline.graphs is None:
            for condition in conditions:
                if condition.percent or condition.quantity not in ABSOLUTE:
                    what = _RELATIVE.format(what=condition.text)
                    raise UsageError(what, "cudagraph-doctor baseline write FILE makes it")
    return Request(
        configuration=configuration,
        roots=roots,
        gate=Gate(
            fail_on=None if fail_on == "never" else Severity(fail_on), strict=given.strict or bool(config.strict)
        ),
        baseline=baseline,
        baseline_path=path or "",
        conditions=conditions,
        graphs=for_baseline,
    )


def _report_file(text: str) -> tuple[Format, str]:
    from cudagraph_doctor.gate.nearest import did_you_mean
    from cudagraph_doctor.reporters.formats import Format

    name, equals, path = text.partition("=")
    known = [form.value for form in Format]
    if not equals or not path:
        raise UsageError(f"--report {text}: expected FORMAT=FILE", "an example: --report sarif=out.sarif")
    if name not in known:
        raise UsageError(f"--report {text}: no such format: {name}", did_you_mean(name, known))
    return Format(name), path
