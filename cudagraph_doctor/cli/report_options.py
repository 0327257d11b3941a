"""The options that `run` and `check` share, and what they lead to: a report written, an exit status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from cudagraph_doctor.cli.standard_output import write_standard_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_doctor.report import Report

_OPTIONS = (
    click.option(
        "--format",
        "form",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Format of the report.",
    ),
    click.option("--timeline", is_flag=True, help="Show when each capture's status changed, and across which call."),
    click.option("--output", metavar="FILE", type=click.Path(), help="Write the report to FILE, not to the terminal."),
    click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "note", "never"]),
        default="error",
        show_default=True,
        help="Lowest level of a finding that makes the exit status 1.",
    ),
    click.option("--strict", is_flag=True, help="Findings that are only possible count too."),
    click.option("--select", multiple=True, metavar="CODES", help="Only these rules or checkers; commas between."),
    click.option("--ignore", multiple=True, metavar="CODES", help="Not these rules or checkers; commas between."),
    click.option("--allow-no-capture", is_flag=True, help="A run without any capture is not an error."),
    click.option(
        "--require-evidence", is_flag=True, help="Exit status 3 where evidence is weaker than --evidence asks for."
    ),
    click.option(
        "--require-checked", multiple=True, metavar="CODES", help="Exit status 4 where one of these was not checked."
    ),
    click.option("--own", multiple=True, metavar="PACKAGE|PATH", help="Count this package or folder as your own code."),
)


def report_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the command takes the shared options, as keyword arguments of `ReportOptions`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True)
class ReportOptions:
    """The shared options, as click delivers them."""

    form: str
    timeline: bool
    output: str | None
    fail_on: str
    strict: bool
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    allow_no_capture: bool
    require_evidence: bool
    require_checked: tuple[str, ...]
    own: tuple[str, ...]

    def validate(self) -> None:
        """Everything that can be refused before the target runs.

        Raises:
            UsageError: no such rule or checker; the message names the nearest.
            OutputError: the report could not be written.
        """
        from cudagraph_doctor.engine.registry import load_all
        from cudagraph_doctor.engine.selection import rules_named
        from cudagraph_doctor.reporters.formats import check_writable

        loaded = load_all()
        for name in _names((*self.select, *self.ignore, *self.require_checked)):
            rules_named(loaded, name)
        if self.output is not None:
            check_writable(self.output)

    def diagnose(self, paths: list[str]) -> Report:
        """The report on these traces.

        Raises:
            TraceError: no trace among them can be read.
        """
        from cudagraph_doctor.engine.run import Options, diagnose

        options = Options(
            select=_names(self.select),
            ignore=_names(self.ignore),
            own=self.own,
            timelines=self.timeline or self.form == "json",  # a table has no room for what nobody asked for
        )
        return diagnose(paths, options)

    def finish(self, report: Report, *, evidence: str | None) -> int:
        """Write the report and say with which status to exit.

        Args:
            report: The finished report.
            evidence: The level that --require-evidence means, if it was given.
        """
        from cudagraph_doctor.engine.exit_code import decide
        from cudagraph_doctor.engine.exit_facts import ExitPolicy, exit_facts, lacking_evidence
        from cudagraph_doctor.findings import Severity
        from cudagraph_doctor.report import refused
        from cudagraph_doctor.reporters.formats import Format, write_file

        form = Format(self.form)
        required = evidence if self.require_evidence else None
        report = refused(report, lacking_evidence(report, required))
        if self.output is None:
            write_standard_output(report, form)
        else:
            write_file(report, form, self.output)
        policy = ExitPolicy(
            fail_on=None if self.fail_on == "never" else Severity(self.fail_on),
            strict=self.strict,
            allow_no_capture=self.allow_no_capture,
            require_evidence=required,
            require_checked=self._required(),
        )
        return int(decide(exit_facts(report, policy)))

    def _required(self) -> frozenset[str]:
        from cudagraph_doctor.engine.registry import load_all
        from cudagraph_doctor.engine.selection import rules_named

        names = _names(self.require_checked)
        loaded = load_all() if names else []
        return frozenset(rule for name in names for rule in rules_named(loaded, name))


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    """`--select a,b --select c` names three."""
    return tuple(name.strip() for part in given for name in part.split(",") if name.strip())
