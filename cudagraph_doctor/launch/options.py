"""What is to be launched, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LaunchOptions:
    """What the user asked for."""

    kind: str
    """`script`, `module`, `code` or `command`."""
    target: str
    """Path of the script, name of the module, the code, or the program."""
    arguments: tuple[str, ...] = ()
    trace: str | None = None
    """Folder of the trace; None: a fresh one below `cudagraph-doctor-trace`."""
    timeout: float | None = None
    """Seconds after which the target is ended."""
    device: str = "auto"
    """`auto`, `cuda` or `sim`."""
    sim_devices: int = 1
    evidence: str = "auto"
    """`auto`, `driver` or `python`."""
    deep: bool = False
    """Record more, at a price: allocation history with stacks, native frames of every launch."""
    keep_going: bool = False
    python: str | None = None
    """Interpreter for the target; None: the first that can import torch."""
    own: tuple[str, ...] = ()
    """Packages and paths that count as the user's own."""
    need_torch: bool = True
    """Refuse an interpreter that cannot import torch, and a machine without a device."""


@dataclass(frozen=True)
class TargetEnd:
    """How the target ended."""

    returncode: int | None = None
    """Its exit status; None where a signal ended it, or it could not be ended."""
    signal: str = ""
    """Name of the signal that ended it."""
    core: bool = False
    """It left a core dump."""
    timed_out: bool = False
    """It was ended because of `--timeout`."""
    stopped: bool = False
    """It was ended because of a second Ctrl-C."""
    rss: int | None = None
    """Largest resident set in bytes."""
    user: float | None = None
    """CPU seconds in user mode."""
    seconds: float = 0.0
    """Wall-clock seconds it ran."""


@dataclass(frozen=True)
class LaunchResult:
    """A finished run."""

    trace: str
    """Folder of the trace, one file a process."""
    end: TargetEnd
    interpreter: str
    """Path of the interpreter; "" for a command."""
    first_line: str
    """What was said before the target began: interpreter, torch, device."""
    notes: tuple[str, ...] = ()
    """What else the user should know, a line each: lost records, processes that still run."""
