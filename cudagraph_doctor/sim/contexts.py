"""CUDA contexts of each thread, for users of the driver API.

PyTorch and the runtime work in a device's primary context and make it current in a thread at their first call there;
the driver API does not, and fails with 201 in a thread where nothing is current.
"""

from __future__ import annotations

import threading

from cudagraph_doctor.sim.driver import SimDriver


class Contexts:
    """The stack of current contexts of each thread."""

    PRIMARY = 0x5B00_0000_0000

    def __init__(self, driver: SimDriver) -> None:
        self._driver = driver
        self._stacks: dict[int, list[int]] = {}

    def _stack(self) -> list[int]:
        stack = self._stacks.setdefault(threading.get_ident(), [])
        if not stack and self._driver.thread.context:
            stack.append(self.PRIMARY)
        return stack

    def current(self) -> int:
        """Handle of the current context; 0 if none is."""
        stack = self._stack()
        return stack[-1] if stack else 0

    def create(self) -> int:
        """A new context, which becomes current."""
        context = self._driver.new_handle()
        self._stack().append(context)
        return context

    def push(self, context: int) -> None:
        """Make `context` current on top of what is."""
        self._stack().append(context)

    def pop(self) -> int | None:
        """Make the one below current; the one that was, or None if none was."""
        stack = self._stack()
        return stack.pop() if stack else None

    def set_current(self, context: int) -> None:
        """Replace the current one; 0 leaves none."""
        stack = self._stack()
        if stack:
            stack.pop()
        if context:
            stack.append(context)
