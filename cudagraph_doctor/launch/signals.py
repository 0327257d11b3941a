"""Signals of the launcher, taken one by one while it waits for the target.

At a terminal the target shares the launcher's process group: Ctrl-C and Ctrl-Z reach both from the kernel, reading the
terminal works, and the shell's job control sees one job. Anywhere else the target leads a group of its own. Either way
a signal that somebody sends to the launcher alone is passed on; one that the terminal sent, or the target itself, is
not: so each reaches the target once.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
FROM_KERNEL = 0x80
"""`si_code` of a signal that the kernel sent, as a terminal does (SI_KERNEL, sigaction(2))."""


class Received:
    """A signal, and where it came from."""

    __slots__ = ("number", "sender")

    def __init__(self, number: int, sender: int | None) -> None:
        self.number = number
        self.sender = sender
        """Process id of the sender; None for the kernel; -1 if unknown."""


class Signals:
    """A block in which the signals of `FORWARDED` are held and handed out by `wait`.

    Signals that were ignored before stay ignored, here and in the target: `nohup` means what it says. Outside of the
    main thread nothing is held, since Python takes signals in the main thread alone.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._early: list[int] = []
        self._mask: set[int | signal.Signals] | None = None
        self._held: set[int] = set()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in FORWARDED:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if self._mask is not None:
            while self.wait(0) is not None:
                pass  # meant for a target that is gone
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def hold(self) -> None:
        """Holds the signals from now on. After the target was started: it must not inherit the mask."""
        if self._before:
            self._held = {*self._before, signal.SIGCHLD}
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._held)

    def wait(self, seconds: float) -> Received | None:
        """The next signal other than SIGCHLD; None after `seconds`, or when a child ended."""
        if self._early:
            return Received(self._early.pop(0), -1)
        if not self._held:
            threading.Event().wait(min(seconds, 0.02))
            return None
        found = signal.sigtimedwait(self._held, seconds)
        if found is None or found.si_signo == signal.SIGCHLD:
            return None
        return Received(found.si_signo, None if found.si_code == FROM_KERNEL else found.si_pid)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        """Before the signals are held, or when another thread of this process took one."""
        self._early.append(number)


def shares_terminal() -> bool:
    """Whether this process has a controlling terminal, so that the target has to stay in its group."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
