"""Starts the recorder in this process: opens the trace, says what is on, and waits for torch to be imported."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from functools import partial

from cudagraph_doctor._wire import ENV_CONFIG
from cudagraph_doctor.probe import config as configuration
from cudagraph_doctor.probe import guard
from cudagraph_doctor.probe.context import Active, Context, Unavailable
from cudagraph_doctor.probe.exceptions import Uncaught
from cudagraph_doctor.probe.faults import Faults
from cudagraph_doctor.probe.header import header
from cudagraph_doctor.probe.imports import AfterImport, initialising
from cudagraph_doctor.probe.writer import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.config import Config

STATUS_NO_SIMULATION = 3
"""Exit status of a target that was to run on the simulated device and cannot; the trace says why."""

BRING_CUDA = frozenset({"torch", "cuda", "triton", "cupti", "cupy", "jax", "jaxlib", "numba", "pycuda", "tensorflow"})
"""Packages with which CUDA comes into a process. A Python that imports none of them gets no hook."""

BINDINGS = ("cuda.bindings.runtime", "cuda.bindings.driver")

_recorder: Recorder | None = None


def start_from_environment() -> None:
    """Starts recording if the environment asks for it: what the sitecustomize door calls."""
    config = configuration.from_environment()
    if config is not None and not _is_the_tool_itself():
        start(config)


def start_automatically() -> None:
    """Starts recording because the target imported `cudagraph_doctor.auto`, unless it is recorded already."""
    recorder = start(configuration.automatic())
    recorder.uncaught.install_once()


def start(config: Config) -> Recorder:
    """Starts recording, once a process."""
    global _recorder
    if _recorder is None:
        _recorder = Recorder(config)
        _recorder.begin()
    return _recorder


def current() -> Recorder | None:
    """The recorder of this process."""
    return _recorder


def after_site() -> None:
    """The target's own sitecustomize has run: what it put into `sys.excepthook` is now wrapped."""
    if _recorder is not None:
        _recorder.uncaught.install_once()


class Recorder:
    """The pieces of a recorded process."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._how = config.how
        if config.launcher and os.getppid() != config.launcher:
            self._how = "child"
        self._parent = ""
        self.writer = Writer(config.trace, self._first)
        self.context = Context(config, self.writer)
        self.uncaught = Uncaught(self.context)
        self.faults = Faults(self.writer)
        self.imports = AfterImport()
        guard.report_failures_to(self._report)

    def begin(self) -> None:
        """Turns everything on that does not need torch."""
        context = self.context
        if not self.writer.slots.persistent:
            context.capability("slots", "off", "no shared file: replay counts are lost if the process is killed")
        guard.guard("faults")(self._begin_faults)()
        guard.guard("stacks")(self._begin_stacks)()
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self._at_exit)
        if self.config.device == "sim":
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # nothing may reach a real GPU with host pointers
        self.imports.before(BRING_CUDA, self._begin_hooks)
        self.imports.start()

    # ── parts ────────────────────────────────────────────────────────────────────────────────

    def _first(self) -> list[tuple[str, dict[str, Any]]]:
        """Records that a fresh file begins with."""
        records = [("header", header(self.config, self._how, self._parent))]
        if hasattr(self, "context"):
            records += [("capability", fields) for fields in self.context.capabilities.values()]
        return records

    def _begin_faults(self) -> None:
        try:
            why = self.faults.start()
        except OSError as error:
            why = str(error)
        told = {"signal": str(self.faults.signal)} if self.faults.signal else None
        self.context.capability("faults", "off" if why else "on", why, told)

    def _begin_stacks(self) -> None:
        from cudagraph_doctor.probe.stacks import Stacks

        stacks = Stacks(self.context)
        self.context.use_stacks(stacks)
        self.context.after_fork(stacks.reset)

    def _begin_hooks(self) -> None:
        """Finds the hooks and installs each when its modules are there; a process without CUDA pays for none."""
        self.imports.watch("torch", guard.guard("device")(self._torch_imported))
        if self.config.device == "sim":
            for name in BINDINGS:
                self.imports.watch(name, guard.guard("device")(self._bindings_imported))
        from cudagraph_doctor.probe import hooks

        # Not pkgutil: it costs 10 ms, most of them for `inspect`.
        files = {file for folder in hooks.__path__ for file in os.listdir(folder)}
        for name in sorted(file.removesuffix(".py") for file in files if file.endswith(".py") and file[0] != "_"):
            guard.guard(name)(self._begin_hook)(name)

    def _begin_hook(self, name: str) -> None:
        hook = __import__(f"cudagraph_doctor.probe.hooks.{name}", fromlist=["install"])
        if not hasattr(hook, "install"):
            return  # a part of another hook
        install = guard.guard(hook.NAME)(self._install)
        with guard.outside():  # this body is guarded already, and a guarded body inside another does nothing
            if not hook.MODULES:
                install(hook, None)
            for module in hook.MODULES:
                self.imports.watch(module, partial(install, hook))

    def _install(self, hook: Any, module: ModuleType | None) -> None:
        if module is not None and module.__name__.partition(".")[0] == "torch" and not _is_pytorch():
            return
        answer = hook.install(module, self.context)
        if isinstance(answer, Unavailable):
            self.context.capability(hook.NAME, "unavailable", answer.reason)
        elif isinstance(answer, Active):
            self.context.capability(hook.NAME, "on", answer.why, answer.versions)

    def _torch_imported(self, torch: ModuleType) -> None:
        """Runs before the hooks of torch: chooses the device that they will ask."""
        if not _is_pytorch():
            file = os.path.basename(getattr(torch, "__file__", None) or "?")
            self.context.capability("torch", "unavailable", f"the module named torch is {file}, not PyTorch")
            return
        if self.config.device == "sim":
            self._simulate()
            self.context.write("evidence", level="simulated")
            return
        self._use_driver()
        self.context.write("evidence", level="python")

    def _bindings_imported(self, module: ModuleType) -> None:
        """The simulated device computes with torch: it is imported for a target that only has cuda-bindings too."""
        if self.context.driver is not None or "torch" in sys.modules:
            return
        others = (sys.modules.get(name) for name in BINDINGS)
        if any(initialising(other) for other in others if other is not module):
            return  # the runtime's module imports the driver's: it calls again when it is complete
        with guard.outside():  # the import calls `_torch_imported`
            try:
                importlib.import_module("torch")
            except ImportError:
                self._simulate()

    def _use_driver(self) -> None:
        from cudagraph_doctor.probe.driver import Driver

        self.context.driver = Driver()

    def _simulate(self) -> None:
        """Puts the simulated device under torch; where that cannot be, the run ends here and the launcher says why."""
        try:
            from cudagraph_doctor.probe.simulated import make_emit

            sim = __import__("cudagraph_doctor.sim", fromlist=["install"])
            self.context.driver = sim.install(
                self.config.sim_devices,
                make_emit(self.context),
                where=self.context.stack,
                keep_going=bool(self.config.get("keep_going")),
            )
        except Exception as error:
            why = str(error) or type(error).__name__
            self.context.capability("sim", "unavailable", why)
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    continue
            os._exit(STATUS_NO_SIMULATION)
        self.context.capability("sim", "on")

    # ── what happens to the process ──────────────────────────────────────────────────────────

    def _forked(self) -> None:
        guard.forget_other_threads()
        self._parent, self._how = self.writer.name, "fork"
        for step in (self.writer.fork, self.faults.fork, self.uncaught.forget, *self.context.after_fork_callbacks):
            guard.guard("fork")(step)()

    def _at_exit(self) -> None:
        guard.guard("exit")(self._settle)()

    def _settle(self) -> None:
        self.uncaught.settle()
        self.writer.settle()
        if self.config.how != "run":
            self._seal()

    def _seal(self) -> None:
        """No launcher waits for this process, so it seals its own trace, as far as it knows its end."""
        from cudagraph_doctor._wire import SLOT_WORDS

        for slot in self.writer.slots.used():
            words = dict(zip(SLOT_WORDS, slot, strict=True))
            counts = {"exec": words["exec"], "count": words["begun"], "done": words["done"], "stream": words["stream"]}
            self.context.write("replay", **counts, total=True)
        self.faults.settle()
        self.writer.slots.remove()
        self.context.write("seal")

    def _report(self, state: guard.HookState, error: BaseException) -> None:
        self.context.write(
            "probe-error",
            hook=state.name,
            error=f"{type(error).__name__}: {error}"[:500],
            count=state.failures,
            removed=state.removed,
            where=guard.where(error),
        )
        if state.removed:
            self.context.capability(state.name, "removed", f"failed {state.failures} times")


def _is_pytorch() -> bool:
    """Whether the imported `torch` is PyTorch, and not a `torch.py` of the target's."""
    return hasattr(sys.modules.get("torch"), "__path__")


def _is_the_tool_itself() -> bool:
    """Whether this process is `cudagraph-doctor` and was started by hand: the tool does not record itself."""
    if os.environ.get(ENV_CONFIG):
        return False
    arguments = getattr(sys, "orig_argv", [])
    name = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return name.startswith("cudagraph-doctor") or "cudagraph_doctor" in arguments[1:3]
