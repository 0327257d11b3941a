"""`cudagraph-doctor check TRACE`."""

from __future__ import annotations

from typing import Any

import click

from cudagraph_doctor.cli.report_options import report_options
from cudagraph_doctor.cli.settings import Settings


@click.command("check")
@click.argument("traces", nargs=-1, required=True, type=click.Path(), metavar="TRACE...")
@report_options
@click.option(
    "--evidence",
    type=click.Choice(["driver", "python", "simulated"]),
    default="driver",
    show_default=True,
    help="What --require-evidence asks for.",
)
@click.option("--follow", is_flag=True, help="Keep reading a growing trace; print new findings as they come.")
def command(traces: tuple[str, ...], evidence: str, follow: bool, **options: Any) -> int:
    """Diagnose traces that were recorded before, on any machine.

    TRACE is a trace file, a folder of them (one run), or a packed trace; of a folder of runs, such as
    cudagraph-doctor-trace, the newest is taken. A trace that is still being written is diagnosed as far as it goes.
    """
    settings = Settings.of(options)
    from cudagraph_doctor.cli.newest_run import newest_runs

    runs = newest_runs(traces)
    if follow:
        from cudagraph_doctor.cli.follow import follow_findings

        report = follow_findings(lambda: settings.diagnose(runs)[0])
    else:
        report, _graphs = settings.diagnose(runs)
    return settings.finish(report, evidence=evidence)
