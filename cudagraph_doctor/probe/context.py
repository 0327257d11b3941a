"""What a hook is given: how to write, where it was called from, and the identities of CUDA's objects.

A hook is a module of `cudagraph_doctor.probe.hooks` with

    NAME      its name in capability and probe-error records
    MODULES   names of the modules that it patches; empty: it patches none, and is installed at the start
    install(module, context) -> Active | Unavailable

`install` is called once for each name in MODULES, after that module *and its top-level package* were imported
completely, with the module; with None where MODULES is empty.
"""

from __future__ import annotations

import itertools

from cudagraph_doctor.probe.guard import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cudagraph_doctor.probe.config import Config
    from cudagraph_doctor.probe.slots import Slots
    from cudagraph_doctor.probe.writer import Writer


class Active:
    """The hook is on."""

    __slots__ = ("versions", "why")

    def __init__(self, why: str = "", versions: dict[str, str] | None = None) -> None:
        self.why = why
        """What it cannot see here, or nothing."""
        self.versions = versions or {}


class Unavailable:
    """The hook is not on, and why."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Ids:
    """Gives out ids, from 1 on, for each class of objects: `ids.next("stream")`."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, itertools.count[int]] = {}

    def next(self, what: str) -> int:
        """The next id of `what`."""
        counts = self._counts
        count = counts.get(what)
        if count is None:
            count = counts.setdefault(what, itertools.count(1))
        return next(count)


class Context:
    """Handed to every hook. One a process; a forked child goes on with its parent's, writing to its own file."""

    def __init__(self, config: Config, writer: Writer) -> None:
        self.config = config
        self.writer = writer
        self.guard = guard
        """Decorates a body of a hook: `@context.guard(NAME)`."""
        self.ids = Ids()
        self.driver: Any = None
        """Answers questions about streams by handle: the simulated device where that is on, else the CUDA driver."""
        self.operator_runs: Callable[[int, int], object] | None = None
        """Told by the hook of operators: number and stack of the one that runs in this thread now; 0, 0 for none."""
        self.pushed_log = False
        """The C probe writes the driver's error log as it comes: nobody has to poll it."""
        self.capabilities: dict[str, dict[str, Any]] = {}
        """The newest capability record of each name, to begin a fresh file with."""
        self._stacks: Any = None
        self.after_fork_callbacks: list[Callable[[], None]] = []

    @property
    def slots(self) -> Slots:
        """Replay slots of this process."""
        return self.writer.slots

    def write(self, kind: str, /, **fields: Any) -> int:
        """Writes a record and returns its sequence number. Never raises."""
        return self.writer.write(kind, fields)

    def stack(self, skip: int = 0) -> int:
        """Id of the Python stack of the caller, without the recorder's own frames and `skip` more; 0 if unknown."""
        stacks = self._stacks
        return int(stacks.stack(skip + 1)) if stacks is not None else 0

    @property
    def stacks(self) -> Any:
        """The table of stacks (`probe.stacks.Stacks`), or None before it is made."""
        return self._stacks

    def use_stacks(self, stacks: Any) -> None:
        """Names the table of stacks."""
        self._stacks = stacks

    def capability(self, name: str, state: str, why: str = "", versions: dict[str, str] | None = None) -> None:
        """Says that a part of the recorder is `on`, `off`, `unavailable` or `removed`, and why."""
        fields: dict[str, Any] = {"name": name, "state": state}
        if why:
            fields["why"] = why
        if versions:
            fields["versions"] = versions
        self.capabilities[name] = fields
        self.writer.write("capability", fields)

    def after_fork(self, callback: Callable[[], None]) -> None:
        """Calls back in a forked child, once its own file has a header: to forget what the parent's file defined."""
        self.after_fork_callbacks.append(callback)
