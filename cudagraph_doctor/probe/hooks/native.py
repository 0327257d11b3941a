"""Driver evidence: the C probe (`probe/native`), armed at the first sign of a capture.

Nothing is loaded or subscribed before a hook of Python's sees a capture about to begin. From then on the probe sees
every capture itself, whoever begins it. It is given up for good when a profiler needs CUPTI (`hooks/profiler.py`).
"""

from __future__ import annotations

import atexit
import os
import threading
from _thread import get_native_id

from cudagraph_doctor.probe.arm import Part, Window, windows_of
from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.native_loader import LIBRARY, REASONS, Library, UnloadableError, trace_of
from cudagraph_doctor.probe.native_maps import Mapped, foreign_tool, mapped, one_of
from cudagraph_doctor.probe.running_operator import running_operator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from cudagraph_doctor.probe.context import Context

NAME = "driver"
MODULES: tuple[str, ...] = ()

AUTO = "python"
"""Evidence that `--evidence auto` takes. The only place that decides."""


def install(module: ModuleType | None, context: Context) -> Active | Unavailable | None:
    """Waits for the first capture, if driver evidence is wanted."""
    if context.config.device == "sim":
        return None
    wanted = str(context.config.get("evidence", "auto"))
    if (AUTO if wanted == "auto" else wanted) != "driver":
        return None
    if os.environ.get("KINETO_USE_DAEMON"):
        return Unavailable("CUPTI belongs to the profiler's daemon (KINETO_USE_DAEMON is set)")
    probe = native_probe(context)
    probe.wanted = True
    windows_of(context).add(probe)
    context.after_fork(probe.forked)
    atexit.register(probe.stop)
    return None


class NativeProbe(Part):
    """The C probe of this process: off, armed, or given up."""

    NAME = NAME

    def __init__(self, context: Context) -> None:
        self._context = context
        self._library: Library | None = None
        self._given_up = ""
        self.wanted = False
        """Driver evidence was asked for."""
        self._arming = threading.Lock()  # two threads may begin their captures at one time
        self._trace = (-1, 0, 0)
        self._written: set[tuple[str, int]] = set()

    @property
    def armed(self) -> bool:
        """The probe is subscribed."""
        return self._library is not None

    # ── what the windows tell ───────────────────────────────────────────────────────────────────
    def prepare(self) -> None:
        """The first sign of a capture: subscribe."""
        with self._arming:
            if self._library is None and not self._given_up:
                self._try()

    def _try(self) -> None:
        try:
            self._library, version = self._arm()
        except (UnloadableError, OSError) as error:
            self._give_up(str(error), state="unavailable")
            return
        self._context.pushed_log = bool(self._library.quick.cgd_logs())
        if self._context.pushed_log:
            self._context.capability("log", "on")
        self._context.operator_runs = running_operator(self._library.quick.cgd_operator_words)
        self._context.capability(NAME, "on", versions={"cupti": version})
        self._context.write("evidence", level="driver")

    def beginning(self, window: Window) -> None:
        """The next capture that this thread begins is this window's."""
        if self._library is not None:
            self._library.quick.cgd_announce(get_native_id(), window.id)

    def done(self, window: Window, q: int) -> None:
        """The capture has ended: write down what its stacks and return addresses refer to."""
        if self._library is not None:
            self._library.quick.cgd_announce(get_native_id(), 0)  # it may never have come to the driver
            self.settle(self._library)

    # ── what others ask for ─────────────────────────────────────────────────────────────────────
    def release(self, to: str) -> None:
        """Gives CUPTI to somebody else, for good: Kineto subscribes once and stays, and a second one is refused."""
        library, self._library = self._library, None
        if library is not None:
            library.release()
            self.settle(library)
            self._withdraw()
            self._context.write("hand-over", what="cupti", to=to, why="only one subscriber is allowed")
            self._context.write("evidence", level="python", why=f"{to} took CUPTI")
        if self.wanted and not self._given_up:
            self._give_up(f"{to} uses CUPTI", state="off")

    def settle(self, library: Library) -> None:
        """Completes what callbacks could only write raw: source files, and the libraries around return addresses."""
        stacks = self._context.stacks
        for number, path in library.new_files():
            if stacks is not None:
                stacks._frames._record(number, path, "")
        if library.quick.cgd_fresh_addresses():
            self._write_libraries(mapped())
        file = self._context.writer._file
        if file is not None and file._identity != self._trace[1:]:
            self._use_trace(library)

    def stop(self) -> None:
        """The interpreter ends: what the driver still does then is no part of the run."""
        if self._library is not None:
            self._library.quick.cgd_stop()
            self.settle(self._library)

    def forked(self) -> None:
        """In a forked child the C probe is off: CUDA does not work there."""
        self._library, self._given_up = None, self._given_up or "off in a forked process"
        self._withdraw()

    # ── the parts ───────────────────────────────────────────────────────────────────────────────
    def _arm(self) -> tuple[Library, str]:
        libraries = mapped()
        tool = foreign_tool(libraries)
        if tool:
            raise UnloadableError(f"{tool} is attached: only one CUDA tool works at a time")
        cupti, driver = one_of(libraries, "cupti"), one_of(libraries, "cuda")
        if cupti is None:
            raise UnloadableError("libcupti is not mapped: this torch has CUPTI linked in, or comes without it")
        if driver is None:
            raise UnloadableError("libcuda is not mapped")
        library = Library(str(self._context.config.get("native_library") or LIBRARY))
        libraries = mapped()  # the probe among them
        self._trace = library.configure(self._context, cupti, driver, libraries)
        code, version, holder = library.arm()
        if code != 0:
            raise UnloadableError(holder or REASONS.get(code, f"cuptiSubscribe failed with {code}"))
        self._write_libraries(libraries)
        return library, version

    def _withdraw(self) -> None:
        """Others do their part again."""
        self._context.pushed_log = False
        self._context.operator_runs = None

    def _give_up(self, why: str, *, state: str) -> None:
        self._given_up = why
        self._context.capability(NAME, state, why)

    def _write_libraries(self, libraries: list[Mapped]) -> None:
        for library in libraries:
            key = (library.path, library.begin)
            if key not in self._written:
                self._written.add(key)
                number = len(self._written)
                self._context.write(
                    "library", id=number, name=library.name, base=hex(library.begin), end=hex(library.end)
                )

    def _use_trace(self, library: Library) -> None:
        """The trace is another file now (`Descriptor.recover`)."""
        old = self._trace
        try:
            self._trace = trace_of(self._context)
        except OSError:
            return
        library.quick.cgd_use_trace(*self._trace)
        try:
            found = os.fstat(old[0])
            if (found.st_dev, found.st_ino) == old[1:]:
                os.close(old[0])
        except OSError:
            pass


_of: dict[int, NativeProbe] = {}


def native_probe(context: Context) -> NativeProbe:
    """The C probe of a context: one object a process."""
    found = _of.get(id(context))
    if found is None:
        found = _of[id(context)] = NativeProbe(context)
    return found
