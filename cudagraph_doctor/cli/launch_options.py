"""The options that say how a target is run, and the runs that they lead to: for `run` and `baseline write`."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from cudagraph_doctor.cli.target_arguments import target_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cudagraph_doctor.cli.target_arguments import Target
    from cudagraph_doctor.report import Report

_OPTIONS = (
    click.option("-m", "module", is_flag=True, help="Run a module, as `python -m` does."),
    click.option("-c", "code", is_flag=True, help="Run code, as `python -c` does."),
    click.option("--trace", metavar="DIR", type=click.Path(), help="Keep the trace in DIR."),
    click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Stop after S seconds."),
    click.option(
        "--repeat",
        type=click.IntRange(1, 1000),
        default=1,
        show_default=True,
        metavar="N",
        help="Run the target N times and say in how many runs each finding was seen.",
    ),
    click.option(
        "--device",
        type=click.Choice(["auto", "cuda", "sim"]),
        default="auto",
        show_default=True,
        help="A real GPU, or the simulated device; auto simulates only where there is neither GPU nor driver.",
    ),
    click.option(
        "--sim-devices",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        metavar="N",
        help="Simulated devices.",
    ),
    click.option(
        "--evidence",
        type=click.Choice(["auto", "driver", "python"]),
        default="auto",
        show_default=True,
        help="How to observe: through the driver, through Python, or the stronger that works.",
    ),
    click.option("--deep", is_flag=True, help="Record more: stacks of all allocations, native frames of every launch."),
    click.option("--keep-going", is_flag=True, help="Go on after a refused call and list all obstacles of the region."),
    click.option("--python", metavar="PATH", type=click.Path(), help="The interpreter to run the target with."),
)


def launch_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the command takes these options, as keyword arguments of `LaunchChoice`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True)
class LaunchChoice:
    """The options, as click delivers them."""

    module: bool
    code: bool
    trace: str | None
    timeout: float | None
    repeat: int
    device: str
    sim_devices: int
    evidence: str
    deep: bool
    keep_going: bool
    python: str | None

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> LaunchChoice:
        """Takes its own out of a command's options."""
        return cls(**{name: options.pop(name) for name in cls.__dataclass_fields__})

    def target(self, ctx: click.Context, words: tuple[str, ...]) -> Target:
        """What the command line names. Raises click.UsageError for none or two."""
        return target_from(ctx, module=self.module, code=self.code, target=words)

    def traces(self, target: Target, own: tuple[str, ...]) -> Iterator[str]:
        """Runs the target, as often as was asked for; yields the folder of each run's trace.

        Raises:
            UsageError, TargetError: as `launch.run`.
        """
        from cudagraph_doctor import launch

        for number in range(1, self.repeat + 1):
            if self.repeat > 1 and sys.stderr is not None and sys.stderr.isatty():
                click.echo(f"cudagraph-doctor: run {number} of {self.repeat}", err=True)
            outcome = launch.run(
                launch.LaunchOptions(
                    kind=target.kind,
                    target=target.name,
                    arguments=target.arguments,
                    trace=self._folder(number),
                    timeout=self.timeout,
                    device=self.device,
                    sim_devices=self.sim_devices,
                    evidence=self.evidence,
                    deep=self.deep,
                    keep_going=self.keep_going,
                    python=self.python,
                    own=own,
                )
            )
            click.echo(f"cudagraph-doctor: trace in {outcome.trace}", err=True)
            yield outcome.trace

    def wanted_evidence(self, report: Report) -> str:
        """The level that --require-evidence means."""
        wanted = "simulated" if report.device.backend == "sim" and self.evidence == "auto" else self.evidence
        return "driver" if wanted == "auto" else wanted

    def _folder(self, number: int) -> str | None:
        if self.trace is None or self.repeat == 1:
            return self.trace
        return os.path.join(self.trace, f"run-{number:0{len(str(self.repeat))}}")
