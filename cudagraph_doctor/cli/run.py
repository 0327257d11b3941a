"""`cudagraph-doctor run script.py`."""

from __future__ import annotations

from typing import Any

import click

from cudagraph_doctor.cli.launch_options import LaunchChoice, launch_options
from cudagraph_doctor.cli.report_options import report_options
from cudagraph_doctor.cli.settings import Settings
from cudagraph_doctor.cli.target_arguments import TargetCommand


@click.command(
    "run",
    cls=TargetCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@launch_options
@report_options
@click.argument("target", nargs=-1, type=click.UNPROCESSED, metavar="TARGET [ARGS]...")
@click.pass_context
def command(ctx: click.Context, /, target: tuple[str, ...], **options: Any) -> int:
    """Run a script, module or command, and diagnose its CUDA graph captures.

    The script runs as under `python script.py`: same arguments, output and behaviour. Everything after its name is its
    own. `-- COMMAND` runs any command and follows its Python children.
    """
    choice = LaunchChoice.taken_from(options)
    what = choice.target(ctx, target)
    settings = Settings.of(options)
    reports = [settings.diagnose([trace])[0] for trace in choice.traces(what, settings.own)]
    report = reports[0]
    if choice.repeat > 1:
        from cudagraph_doctor.gate.repeat import combine

        report = combine(reports)
    return settings.finish(report, evidence=choice.wanted_evidence(report))
