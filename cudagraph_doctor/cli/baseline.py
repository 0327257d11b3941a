"""`cudagraph-doctor baseline write|show|prune FILE`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from cudagraph_doctor.cli.launch_options import LaunchChoice, launch_options
from cudagraph_doctor.cli.report_options import report_options
from cudagraph_doctor.cli.settings import Settings
from cudagraph_doctor.cli.target_arguments import TargetCommand
from cudagraph_doctor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_doctor.gate.baseline import Known
    from cudagraph_doctor.gate.graph_facts import RunGraphs
    from cudagraph_doctor.report import Report


class FileThenTarget(TargetCommand):
    """A first word that is no option is FILE; then come options and target, as for `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take FILE from the front: click would take everything behind it for the target's own."""
        given = list(args)
        if not given or given[0].startswith("-"):
            if not {"-h", "--help"} & set(given):
                raise click.UsageError("name the file to write first: baseline write FILE [OPTIONS] TARGET", ctx)
        else:
            ctx.params["path"] = given.pop(0)
        return super().parse_args(ctx, given)


@click.group("baseline")
def command() -> None:
    """Record what is known, so that a gate fails only on what is new."""


@command.command(
    "write",
    cls=FileThenTarget,
    context_settings={"allow_interspersed_args": False},
    options_metavar="FILE [OPTIONS]",
)
@click.option("--from", "sources", multiple=True, metavar="TRACE", type=click.Path(), help="Read TRACE; run nothing.")
@launch_options
@report_options
@click.argument("target", nargs=-1, type=click.UNPROCESSED, metavar="TARGET [ARGS]...")
@click.pass_context
def write(ctx: click.Context, /, path: str, target: tuple[str, ...], sources: tuple[str, ...], **options: Any) -> int:
    """Write what is found now, and the graphs, to FILE.

    FILE stands first, then options and target as for `run`; or `--from TRACE` names a trace instead of a target.
    Nothing is written where the diagnosis is incomplete, or nothing was captured.
    """
    if options["repeat"] != 1:
        raise UsageError("a baseline is written from one run", "leave --repeat out")
    report, graphs, settings = _diagnosed(ctx, target, sources, options)
    report = settings.decided(report)
    code = report.gate.exit_code
    if code not in (0, 1):
        settings.finish(report, evidence=None)
        click.echo(f"cudagraph-doctor: no baseline written: {report.gate.meaning}", err=True)
        return int(code or 0)
    from cudagraph_doctor.gate import baseline

    written = baseline.baseline_of(report, graphs, settings.request.configuration.root)
    baseline.write(written, path)
    known = sum(known.count for known in written.findings)
    click.echo(f"{path}: {known} known findings, {len(graphs.captures)} captures")
    return 0


@command.command("show")
@click.argument("path", metavar="FILE", type=click.Path())
def show(path: str) -> int:
    """Show what FILE knows: findings and captures."""
    from cudagraph_doctor.cli.baseline_text import baseline_lines
    from cudagraph_doctor.gate.baseline import read

    for line in baseline_lines(read(path)):
        click.echo(line)
    return 0


@command.command("prune")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--from", "sources", multiple=True, metavar="TRACE", type=click.Path(), help="Keep what TRACE still has.")
@report_options
@click.pass_context
def prune(ctx: click.Context, /, path: str, sources: tuple[str, ...], **options: Any) -> int:
    """Take out of FILE what is no longer so.

    Without a trace: entries of rules that are not installed any more, and of files that are gone. With `--from TRACE`
    also findings that the trace does not have, though their rules were checked.
    """
    from cudagraph_doctor.gate import baseline

    before = baseline.read(path)
    if sources:
        report, _graphs, settings = _diagnosed(ctx, (), sources, options)
        report = settings.decided(report)
        if report.gate.exit_code not in (0, 1):
            raise UsageError(f"the trace shows too little to prune by: {report.gate.meaning}", "use a complete run")
        keep = _seen(report, settings)
    else:
        keep = _possible(Settings.of(options, for_baseline=True))
    after, dropped = baseline.prune(before, keep)
    if dropped:
        baseline.write(after, path)
    left = sum(known.count for known in after.findings)
    click.echo(f"{path}: {dropped} taken out, {left} known findings left")
    return 0


def _diagnosed(
    ctx: click.Context, words: tuple[str, ...], sources: tuple[str, ...], options: dict[str, Any]
) -> tuple[Report, RunGraphs, Settings]:
    choice = LaunchChoice.taken_from(options) if "repeat" in options else None
    if sources and words:
        raise UsageError("--from TRACE and a target exclude each other", "give one of them")
    what = choice.target(ctx, words) if choice is not None and not sources else None
    settings = Settings.of(options, for_baseline=True)
    if what is not None and choice is not None:
        report, graphs = settings.diagnose(list(choice.traces(what, settings.own)))
    else:
        from cudagraph_doctor.cli.newest_run import newest_runs

        report, graphs = settings.diagnose(newest_runs(sources))
    assert graphs is not None
    return report, graphs, settings


def _seen(report: Report, settings: Settings) -> Callable[[Known], int]:
    from cudagraph_doctor.gate.fingerprints import identity

    root = settings.request.configuration.root
    counts: dict[tuple[str, str, str, str], int] = {}
    for finding in report.findings:
        key = identity(finding, root, report.roots)
        counts[key] = counts.get(key, 0) + 1
    checked = {rule.rule for checker in report.checkers for rule in checker.rules if rule.checked}

    def keep(known: Known) -> int:
        if known.rule not in checked:
            return known.count
        return counts.get((known.rule, known.path, known.function, known.trigger), 0)

    return keep


def _possible(settings: Settings) -> Callable[[Known], int]:
    root = settings.request.configuration.root
    rules = {rule.id for one in settings.loaded for rule in one.rules}

    def keep(known: Known) -> int:
        gone = bool(known.path) and ":" not in known.path and not os.path.exists(os.path.join(root, known.path))
        return 0 if gone or known.rule not in rules else known.count

    return keep
