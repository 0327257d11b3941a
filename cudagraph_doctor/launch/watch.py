"""Starts the target and waits for it: signals, the time limit, and the end of what it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cudagraph_doctor.errors import TargetError
from cudagraph_doctor.launch.descendants import Descendants, Proc, is_below, signal_name
from cudagraph_doctor.launch.options import TargetEnd
from cudagraph_doctor.launch.signals import Received, Signals, shares_terminal

GRACE = 2.0
"""Seconds that a target has after each signal that should end it."""
DUPLICATE = 0.25
"""Seconds within which a second equal signal is the same one, sent to a group and to its leader (timeout(1))."""
ANSWER = 0.3
"""Seconds in which a process writes its stacks."""
FAREWELL = 1.0
"""Seconds that children have to end after the target."""
UNKILLABLE = 5.0
"""Seconds to wait for a killed process that the kernel does not let go."""
FIRST_LOOK, LAST_LOOK = 0.05, 2.0
"""Seconds between two looks at the tree of processes; they grow."""


@dataclass
class Watched:
    """What was seen of a target."""

    pid: int
    end: TargetEnd
    children: list[Proc] = field(default_factory=list)
    """Every descendant that was seen."""
    running: list[Proc] = field(default_factory=list)
    """Descendants that still run."""


class Watch:
    """One target from its start to its end.

    Args:
        command: what to execute.
        environment: its variables.
        run: id of the run, by which descendants are known.
        timeout: seconds, None for no limit.
        ask_for_stacks: asks recorded processes for their stacks before a hanging target is ended; True if one was.
    """

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        run: str,
        timeout: float | None,
        ask_for_stacks: Callable[[], bool],
    ) -> None:
        self._command = command
        self._environment = environment
        self._run = run
        self._timeout = timeout
        self._ask_for_stacks = ask_for_stacks
        self._status: int | None = None
        self._usage: tuple[float, int] | None = None
        self._interrupts = 0
        self._last: tuple[int, float] = (0, 0.0)
        self._stopped = False
        self._timed_out = False
        self._ending: list[tuple[float, int]] = []

    def run(self) -> Watched:
        """Runs the target to its end.

        Raises:
            TargetError: it cannot be executed.
        """
        with Signals() as signals:
            self._own_group = not shares_terminal()
            began = time.monotonic()
            try:
                # File descriptors are the target's as they were ours: `3>log` works. Ours are close-on-exec.
                child = subprocess.Popen(
                    self._command,
                    env=self._environment,
                    close_fds=False,
                    process_group=0 if self._own_group else None,
                )
            except OSError as error:
                raise TargetError(f"{self._command[0]}: {error.strerror or error}") from None
            signals.hold()
            self._pid = child.pid
            self._family = Descendants(child.pid, self._run)
            self._deadline = began + self._timeout if self._timeout is not None else None
            self._wait(signals)
            child.returncode = 0 if self._status is None else os.waitstatus_to_exitcode(self._status)
            seconds = time.monotonic() - began
            running = self._farewell(signals)
        return Watched(self._pid, self._end(seconds), list(self._family.seen.values()), running)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────

    def _wait(self, signals: Signals) -> None:
        pause, next_look = FIRST_LOOK, 0.0
        while not self._reaped():
            now = time.monotonic()
            if now >= next_look:
                self._family.look()
                next_look, pause = now + pause, min(pause * 2, LAST_LOOK)
            if self._deadline is not None and now >= self._deadline and not self._timed_out:
                self._timed_out = True
                self._end_soon(now + (ANSWER if self._ask_for_stacks() else 0.0), signal.SIGINT)
            if not self._end_further(now):
                return
            until = [next_look, *(at for at, _ in self._ending[:1])]
            if self._deadline is not None and not self._timed_out:
                until.append(self._deadline)
            received = signals.wait(max(0.0, min(until) - now))
            if received is not None:
                self._handle(received)

    def _reaped(self) -> bool:
        try:
            pid, status, usage = os.wait4(self._pid, os.WNOHANG)
        except ChildProcessError:
            return True  # somebody else's waitpid(-1) in this process took it: the status is unknown
        if pid:
            self._status = status
            self._usage = (usage.ru_utime, usage.ru_maxrss * 1024)
        return bool(pid)

    def _handle(self, received: Received) -> None:
        """Passes a signal on, unless the target has it already."""
        now = time.monotonic()
        number, sender = received.number, received.sender
        if self._last[0] == number and now - self._last[1] < DUPLICATE and sender is not None:
            return
        self._last = (number, now)
        by_target = sender is not None and sender > 0 and is_below(sender, self._pid)
        if by_target and not self._own_group:
            return  # it signalled its own group, in which we are guests
        if sender is not None or self._own_group:
            self._send(number)
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts == 2:
                self._stopped = True
                self._ask_for_stacks()
                self._end_soon(now + GRACE / 2, signal.SIGTERM)
            elif self._interrupts > 2:
                self._end_soon(now, signal.SIGKILL)

    # ── ending ───────────────────────────────────────────────────────────────────────────────

    def _end_soon(self, at: float, first: int) -> None:
        """Plans the signals that end the target and its children: `first` at `at`, then stronger ones."""
        steps: list[int] = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
        self._ending = [(at + GRACE * i, step) for i, step in enumerate(steps[steps.index(first) :])]

    def _end_further(self, now: float) -> bool:
        """Sends what is due; False when even SIGKILL has not helped."""
        while self._ending and self._ending[0][0] <= now:
            at, number = self._ending.pop(0)
            if number == 0:
                return False
            if number == signal.SIGINT:
                self._send(number)
            else:
                self._family.kill(number)
            if number == signal.SIGKILL:
                self._ending = [(at + UNKILLABLE, 0)]
        return True

    def _send(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.kill(self._pid, number)

    def _farewell(self, signals: Signals) -> list[Proc]:
        """Waits a little for the target's children; ends them where the target was ended."""
        until = time.monotonic() + FAREWELL
        running = self._family.running()
        if running and (self._timed_out or self._stopped):
            self._family.kill(signal.SIGTERM)
        while running and time.monotonic() < until:
            if (received := signals.wait(0.05)) is not None and received.number in {signal.SIGINT, signal.SIGTERM}:
                break
            running = [proc for proc in running if proc.alive]
        if running and (self._timed_out or self._stopped):
            self._family.kill(signal.SIGKILL)
            time.sleep(0.05)
            running = [proc for proc in running if proc.alive]
        return running

    def _end(self, seconds: float) -> TargetEnd:
        status = self._status
        user, rss = self._usage or (None, None)
        killed = status is not None and os.WIFSIGNALED(status)
        return TargetEnd(
            returncode=os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
            signal=signal_name(os.WTERMSIG(status)) if status is not None and killed else "",
            core=status is not None and killed and os.WCOREDUMP(status),
            timed_out=self._timed_out,
            stopped=self._stopped,
            rss=rss,
            user=user,
            seconds=seconds,
        )
