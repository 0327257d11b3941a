"""The processes that a target started: found through /proc, so that none is adopted and no parent changes.

A process is the target's if it stands below the target in the tree of processes, was seen there once, or carries the
run's id in its environment (which a daemon keeps when it leaves the tree).
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass, field, replace

ARGUMENTS_LIMIT = 2000
"""Bytes of a command line that are kept."""


@dataclass(frozen=True)
class Proc:
    """One life of a process id."""

    pid: int
    start: int
    """Clock ticks after boot."""
    ppid: int = field(compare=False, default=0)
    argv: tuple[str, ...] = field(compare=False, default=())
    """Its command line, where it was asked for."""

    @property
    def alive(self) -> bool:
        """It still runs; a zombie does not."""
        found = _stat(self.pid)
        return found is not None and found[0] == self and found[1] not in "ZX"

    def kill(self, number: int) -> None:
        """Sends a signal, unless the process is gone."""
        if self.alive:
            with contextlib.suppress(OSError):
                os.kill(self.pid, number)


class Descendants:
    """Keeps track of the target and what it started."""

    def __init__(self, target: int, run: str) -> None:
        self.target = target
        self._run = run.encode()
        self.seen: dict[int, Proc] = {}

    def look(self) -> None:
        """Walks the tree once and remembers what stands below the target. About 20 µs a process on the machine."""
        processes = {proc.pid: proc for proc in _all()}
        below: dict[int, list[Proc]] = {}
        for proc in processes.values():
            below.setdefault(proc.ppid, []).append(proc)
        roots = [pid for pid, proc in self.seen.items() if processes.get(pid) == proc]
        waiting = [self.target, *roots]
        visited: set[int] = set()
        while waiting:
            pid = waiting.pop()
            if pid in visited:
                continue
            visited.add(pid)
            for proc in below.get(pid, ()):
                self.seen[proc.pid] = replace(proc, argv=_command_line(proc.pid))
                waiting.append(proc.pid)

    def running(self) -> list[Proc]:
        """Every descendant that still runs, the target left out."""
        self.look()
        for proc in _all():
            if proc.pid not in self.seen and proc.pid not in {self.target, os.getpid()} and self._carries_run(proc.pid):
                self.seen[proc.pid] = proc
        return [proc for proc in self.seen.values() if proc.pid != self.target and proc.alive]

    def kill(self, number: int) -> None:
        """Sends a signal to every descendant that still runs, and to the target."""
        for proc in self.running():
            proc.kill(number)
        with contextlib.suppress(OSError):
            os.kill(self.target, number)

    def _carries_run(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment:
                return self._run in environment.read()
        except OSError:
            return False


def find(pid: int) -> Proc | None:
    """The process that has this id now."""
    found = _stat(pid)
    return found[0] if found is not None else None


def is_below(pid: int, ancestor: int) -> bool:
    """Whether a process stands below another one, or is it."""
    for _ in range(100):
        if pid == ancestor:
            return True
        found = _stat(pid)
        if found is None or found[0].ppid <= 1:
            return False
        pid = found[0].ppid
    return False


def signal_name(number: int) -> str:
    """`SIGSEGV`; `signal 61` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _all() -> list[Proc]:
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []
    return [found[0] for pid in pids if (found := _stat(pid)) is not None]


def _command_line(pid: int) -> tuple[str, ...]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            words = line.read(ARGUMENTS_LIMIT).rstrip(b"\0").split(b"\0")
        return tuple(word.decode("utf-8", "replace") for word in words)
    except OSError:
        return ()


def _stat(pid: int) -> tuple[Proc, str] | None:
    """A process and its state letter, from /proc (proc_pid_stat(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        return Proc(pid, int(fields[19]), int(fields[1])), fields[0].decode("ascii")
    except (OSError, ValueError, IndexError):
        return None
