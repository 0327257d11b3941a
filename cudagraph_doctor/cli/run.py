"""`cudagraph-doctor run script.py`."""

from __future__ import annotations

from typing import Any

import click

from cudagraph_doctor.cli.report_options import ReportOptions, report_options
from cudagraph_doctor.cli.target_arguments import TargetCommand, target_from


@click.command(
    "run",
    cls=TargetCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.option("-m", "module", is_flag=True, help="Run a module, as `python -m` does.")
@click.option("-c", "code", is_flag=True, help="Run code, as `python -c` does.")
@click.option("--trace", metavar="DIR", type=click.Path(), help="Keep the trace in DIR.")
@report_options
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Stop after S seconds.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cuda", "sim"]),
    default="auto",
    show_default=True,
    help="A real GPU, or the simulated device; auto simulates only where there is neither GPU nor driver.",
)
@click.option(
    "--sim-devices", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N", help="Simulated devices."
)
@click.option(
    "--evidence",
    type=click.Choice(["auto", "driver", "python"]),
    default="auto",
    show_default=True,
    help="How to observe: through the driver, through Python, or the stronger that works.",
)
@click.option("--keep-going", is_flag=True, help="Go on after a refused call and list all obstacles of the region.")
@click.option("--python", metavar="PATH", type=click.Path(), help="The interpreter to run the target with.")
@click.argument("target", nargs=-1, type=click.UNPROCESSED, metavar="TARGET [ARGS]...")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    module: bool,
    code: bool,
    target: tuple[str, ...],
    trace: str | None,
    timeout: float | None,
    device: str,
    sim_devices: int,
    evidence: str,
    keep_going: bool,
    python: str | None,
    **options: Any,
) -> int:
    """Run a script, module or command, and diagnose its CUDA graph captures.

    The script runs as under `python script.py`: same arguments, output and behaviour. Everything after its name is its
    own. `-- COMMAND` runs any command and follows its Python children.
    """
    what = target_from(ctx, module=module, code=code, target=target)
    chosen = ReportOptions(**options)
    chosen.validate()

    from cudagraph_doctor import launch

    outcome = launch.run(
        launch.LaunchOptions(
            kind=what.kind,
            target=what.name,
            arguments=what.arguments,
            trace=trace,
            timeout=timeout,
            device=device,
            sim_devices=sim_devices,
            evidence=evidence,
            keep_going=keep_going,
            python=python,
            own=chosen.own,
        )
    )
    click.echo(f"cudagraph-doctor: trace in {outcome.trace}", err=True)
    report = chosen.diagnose([outcome.trace])
    wanted = "simulated" if report.device.backend == "sim" and evidence == "auto" else evidence
    return chosen.finish(report, evidence="driver" if wanted == "auto" else wanted)
