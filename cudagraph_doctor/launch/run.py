"""One run: interpreter, device, folder, target, seal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

from cudagraph_doctor.errors import TargetError
from cudagraph_doctor.launch import device, environment_variables, folder, interpreter
from cudagraph_doctor.launch.command_line import command_line
from cudagraph_doctor.launch.hang import ask_for_stacks
from cudagraph_doctor.launch.options import LaunchOptions, LaunchResult
from cudagraph_doctor.launch.seal_run import seal_run
from cudagraph_doctor.launch.watch import Watch

DRIVER_PRICE = (
    "driver evidence: from the first capture on, CUPTI makes each graph launch slower by some 0.2 µs a node"
    " (docs/native-probe.md); --evidence python does not"
)
"""Measured on an H200: 2.8 → 57 µs for 300 nodes. Said before a run: nobody shall take its times for the target's."""


def tell(line: str) -> None:
    """Says a line on standard error, away from the target's output; a closed one is no reason to stop."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"cudagraph-doctor: {line}", file=sys.stderr, flush=True)


def run(options: LaunchOptions, say: Callable[[str], None] = tell) -> LaunchResult:
    """Runs the target to its end and completes its trace.

    Args:
        options: what to run, and how.
        say: told the first line before the target begins, and notes after it ended.

    Raises:
        UsageError: there is no such script or interpreter, or the trace folder cannot be used.
        TargetError: the target cannot be started here, or left no trace; in the latter case it has run.
    """
    clean = environment_variables.clean(dict(os.environ))
    chosen = None
    if options.kind != "command":
        command_line(options, "")
        chosen = interpreter.choose(options.python, clean, need_torch=options.need_torch)
    command = command_line(options, chosen.path if chosen is not None else "")
    if options.need_torch:
        where = device.choose(options.device, options.sim_devices, chosen, device.see_gpus())
    else:
        where = device.Device("sim" if options.device == "sim" else "cuda", "")
    trace, unwritable = folder.make(options.trace, options.target if options.kind != "code" else "code")
    first_line = ", ".join(part for part in (chosen.name if chosen else command[0], where.told) if part)
    say(first_line)
    if options.evidence == "driver" and where.name == "cuda":
        say(DRIVER_PRICE)

    run_id = os.urandom(8).hex()
    environment = environment_variables.recorded(clean, options, trace=trace, run=run_id, device=where.name)
    watched = Watch(command, environment, run_id, options.timeout, lambda: ask_for_stacks(trace)).run()

    sealed = seal_run(trace, watched)
    for note in sealed.notes:
        say(note)
    if sealed.no_simulation:
        raise TargetError(f"the simulated device does not work here: {sealed.no_simulation}")
    if not sealed.files:
        raise _no_trace(trace, unwritable or sealed.why_empty)
    return LaunchResult(
        trace=trace,
        end=watched.end,
        interpreter=chosen.path if chosen is not None else "",
        first_line=first_line,
        notes=sealed.notes,
    )


def _no_trace(trace: str, unwritable: str) -> TargetError:
    """The target ran, and there is nothing to check."""
    if unwritable:
        return TargetError(
            f"the target ran but left no trace: {trace} cannot be written ({unwritable})",
            "Name a folder that can be written with --trace DIR.",
        )
    return TargetError(
        f"the target ran but left no trace in {trace}",
        "A Python that ignores PYTHONPATH (-E, -I, -S), or is older than 3.11, is not recorded; newer ones are after"
        " `import cudagraph_doctor.auto`.",
    )
