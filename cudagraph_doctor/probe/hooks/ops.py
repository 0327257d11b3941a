"""Torch operators inside capture windows, by a dispatch mode that is on the capturing thread only while one is open.

The mode travels with torch's thread-local state, so backward's worker threads have it too. It hands every operator on
unchanged, higher-order ones included, and is invisible to Dynamo: `ignore_compile_internals` (torch 2.9) or, before
that, being an infra mode keeps compilation going under it, and its own code is never compiled.
"""

from __future__ import annotations

from _thread import get_ident, get_native_id

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.probe.arm import Part, Window, windows_of
from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.cuda_codes import raised
from cudagraph_doctor.probe.current import Current
from cudagraph_doctor.probe.dispatch_mode import mode_class
from cudagraph_doctor.probe.objects import streams_of
from cudagraph_doctor.probe.operator_facts import OperatorFacts, facts_of
from cudagraph_doctor.probe.tensor_summary import Summaries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "ops"
MODULES = ("torch",)


def install(module: ModuleType | None, context: Context) -> Active | Unavailable:
    """Goes on and off with the windows."""
    torch: Any = module
    if not hasattr(torch._C, "_push_on_torch_dispatch_stack"):
        return Unavailable("this torch has no dispatch modes")
    windows_of(context).add(Operators(context, torch))
    return Active()


class Running:
    """An operator that is running."""

    __slots__ = ("args", "ident", "outer", "q", "shows_results", "window")

    def __init__(self, q: int, window: Window, ident: int, outer: int) -> None:
        self.q = q
        self.window = window
        self.ident = ident
        self.outer = outer
        """Number of the operator inside which it runs."""
        self.args: tuple[Any, ...] = ()
        self.shows_results = False


class Operators(Part):
    """Records each operator: before it runs, and how it ended."""

    NAME = NAME

    def __init__(self, context: Context, torch: Any) -> None:
        self._context = context
        self._torch = torch
        self._windows = windows_of(context)
        self._streams = streams_of(context)
        self._current = Current(torch)
        self._summaries = Summaries(torch, self._pinned)
        self._write = context.writer.write
        self.known: dict[Any, OperatorFacts] = {}
        self._quiet = torch._C.DisableTorchFunction
        self._modes: dict[int, Any] = {}
        guard = context.guard(NAME)
        self.before = guard(self._before)
        self.after = guard(self._after)
        self.learn = guard(self._learn)

    # ── on and off ──────────────────────────────────────────────────────────────────────────────
    def began(self, window: Window) -> None:
        """Push a mode on this thread's stack, one for all windows of the thread."""
        if window.ident in self._modes:
            return
        mode = mode_class(self._torch)(self)
        mode.__enter__()
        self._modes[window.ident] = mode

    def ended(self, window: Window) -> None:
        """Pop it with the thread's last window, if it is on top; else leave the stack alone and say so."""
        if any(other.ident == window.ident for other in self._windows.open):
            return
        mode = self._modes.pop(window.ident, None)
        if mode is None:
            return
        mode.live = False
        if get_native_id() != window.tid:
            self._lost("the capture was ended by another thread than began it")
        elif not mode.on_top():
            self._lost("another dispatch mode was on top at the end of the window")
        else:
            mode.__exit__(None, None, None)

    def _lost(self, why: str) -> None:
        """The mode stays on a stack that is not ours to change; from now on it only hands operators on."""
        self._context.capability(NAME, "on", f"{why}: the recorder's mode stays on that thread's stack, idle")

    # ── what the mode calls ─────────────────────────────────────────────────────────────────────
    def _learn(self, operator: Any) -> OperatorFacts:
        found = self.known[operator] = facts_of(operator, self._torch)
        return found

    def _before(self, facts: OperatorFacts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Running | None:
        windows = self._windows
        window = windows.here()
        if window is None:
            return None
        windows.pause()
        with self._quiet():
            summary = self._summaries.of_arguments(args, kwargs, facts.written)
        if summary.imaginary:
            windows.resume()
            return None
        windows.look(0, "op", across=False)
        fields: dict[str, Any] = {"name": facts.name, "cap": window.id, "before": window.status}
        if facts.overload != "default":
            fields["overload"] = facts.overload
        ident = get_ident()
        if ident == window.ident:
            fields["stack"] = self._context.stack()
        else:
            self._on_worker(fields, window)
        kind = facts.kind
        if summary.device is None:
            kind = kind if kind == "alloc" and "pin_memory" in facts.name else "host"
        else:
            self._on_device(fields, window, summary.device)
        if kind != "compute":
            fields["kind"] = kind
        if summary.tensors:
            fields["tensors"] = summary.tensors
        if summary.values:
            fields["values"] = summary.values
        running = Running(self._write("op", fields), window, ident, windows.operators.get(ident, 0))
        windows.operators[ident] = running.q
        if self._context.operator_runs is not None:
            self._context.operator_runs(running.q, fields.get("stack", 0))
        running.shows_results = kind in {"compute", "alloc"}
        running.args = args if running.shows_results else ()
        windows.resume()
        return running

    def _after(self, running: Running, results: Any, error: BaseException | None) -> None:
        windows, window = self._windows, running.window
        windows.pause()
        if running.outer:
            windows.operators[running.ident] = running.outer
        else:
            windows.operators.pop(running.ident, None)
        if self._context.operator_runs is not None:
            self._context.operator_runs(running.outer, 0)
        fields: dict[str, Any] = {"of": running.q}
        changed = windows.changed()
        fields["after"] = window.status
        if error is not None:
            fields["exc"] = raised(error)
            if "code" in fields["exc"]:
                fields["code"] = fields["exc"]["code"]
        elif running.shows_results:
            with self._quiet():
                tensors = self._summaries.of_results(results, running.args)
            if tensors:
                fields["tensors"] = tensors
        q = self._write("outcome", fields)
        running.args = ()
        if changed:
            windows.tell(changed, running.q, "op")
        elif error is not None:
            windows.failed(window, q)
        if window.status == STATUS_ACTIVE:
            window.last = running.q
        windows.resume()

    # ── the parts ───────────────────────────────────────────────────────────────────────────────
    def _on_worker(self, fields: dict[str, Any], window: Window) -> None:
        """A backward worker has no Python stack: the line is the capturing thread's, which waits in `backward`."""
        own = self._context.stack()
        stacks = self._context.stacks
        fields["stack"] = own or (stacks.of_thread(window.ident) if stacks is not None else 0)
        if not own:
            fields["via"] = window.tid

    def _on_device(self, fields: dict[str, Any], window: Window, device: int) -> None:
        if device < 0:
            device = self._current.device()
        handle = self._current.stream(device)
        fields["device"] = device
        fields["stream"] = self._streams.id(handle, device)
        fields["on"] = window.status if handle == window.handle else self._context.driver.status(handle)

    def _pinned(self, told: dict[str, Any], address: int) -> bool | None:
        ask = getattr(self._context.driver, "pinned", None)
        return ask(address) if ask is not None else None
