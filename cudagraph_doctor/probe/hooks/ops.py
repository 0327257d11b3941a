"""Torch operators inside capture windows, by a dispatch mode that is on the capturing thread only while one is open.

The mode travels with torch's thread-local state, so backward's worker threads have it too. It hands every operator on
unchanged, higher-order ones included, and is invisible to Dynamo: `ignore_compile_internals` (torch 2.9) or, before
that, being an infra mode keeps compilation going under it, and its own code is never compiled.
"""

from __future__ import annotations

from _thread import get_ident, get_native_id
from sys import _getframe

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.probe.arm import Part, Window, windows_of
from cudagraph_doctor.probe.context import Active, Unavailable
from cudagraph_doctor.probe.cuda_codes import raised
from cudagraph_doctor.probe.current import Current
from cudagraph_doctor.probe.dispatch_mode import mode_class
from cudagraph_doctor.probe.liveness.storages import storages_of
from cudagraph_doctor.probe.objects import streams_of
from cudagraph_doctor.probe.operator_facts import OperatorFacts, facts_of
from cudagraph_doctor.probe.tensor_summary import Summaries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "ops"
MODULES = ("torch",)
COPIES = frozenset({"aten::copy_", "aten::_to_copy", "aten::_copy_from", "aten::_copy_from_and_resize"})
"""Operators that may put a copy between host and device into the graph; others take a value from the host at once."""
_DEPTH = 4
"""Frames of ours between a body's helper and the line that called the operator: it, the body, its guard, the mode."""


def install(module: ModuleType | None, context: Context) -> Active | Unavailable:
    """Goes on and off with the windows."""
    torch: Any = module
    if not hasattr(torch._C, "_push_on_torch_dispatch_stack"):
        return Unavailable("this torch has no dispatch modes")
    windows_of(context).add(Operators(context, torch))
    return Active()


class Running:
    """An operator that is running."""

    __slots__ = ("args", "handle", "ident", "outer", "q", "stack", "window")

    def __init__(self, q: int, window: Window, ident: int, outer: int, stack: int) -> None:
        self.q = q
        self.window = window
        self.ident = ident
        self.outer = outer
        """Number of the operator inside which it runs."""
        self.stack = stack
        self.handle: int | None = None
        """Raw handle of the stream on which it puts work, if it does."""
        self.args: tuple[Any, ...] | None = None
        """Its arguments, where its results are told: those that it gives back are no results."""


class Operators(Part):
    """Records each operator: before it runs, and how it ended."""

    NAME = NAME

    def __init__(self, context: Context, torch: Any) -> None:
        self._context = context
        self._torch = torch
        self._windows = windows_of(context)
        self._streams = streams_of(context)
        self._current = Current(torch)
        self._summaries = Summaries(torch, self._pinned, storages_of(context))
        self._write = context.writer.write
        self._write_text = context.writer.write_text
        self._frontier: Callable[[int], int] = _nothing
        self.known: dict[int, OperatorFacts] = {}
        """Facts by the identity of the operator, which they hold: its `__hash__` is a function in Python."""
        self._modes: dict[int, Any] = {}
        guard = context.guard(NAME)
        self.before = guard(self._before)
        self.after = guard(self._after)
        self.learn = guard(self._learn)

    # ── on and off ──────────────────────────────────────────────────────────────────────────────
    def prepare(self) -> None:
        """Who tells the nodes that operators make."""
        self._frontier = getattr(self._context.driver, "frontier", _nothing)

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
        found = self.known[id(operator)] = facts_of(operator, self._torch)
        return found

    def _before(self, facts: OperatorFacts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Running | None:
        windows = self._windows
        open_now = windows.open
        if not open_now:
            return None
        window = windows.here() if len(open_now) > 1 else open_now[0]
        if window is None:
            return None
        pause = windows.pause
        if pause is not None:
            pause()
        summary = self._summaries.of_arguments(args, kwargs, facts.written, window.uses, window.id)
        if summary.imaginary:
            self._resume()
            return None
        changed = windows.changed()
        if changed is not None:
            windows.tell(changed, 0, "op")
        ident = get_ident()
        stack, via = self._place(window, ident)
        text = f'{facts.told},"cap":{window.id},"before":{window.status},"stack":{stack}{via}'
        kind = facts.kind
        device = summary.device
        handle: int | None = None
        if device is None:
            kind = kind if kind == "alloc" and "pin_memory" in facts.name else "host"
        else:
            told, handle = self._on_device(window, device)
            text += told
        if kind != "compute":
            text += f',"kind":"{kind}"'
        if summary.tensors:
            text += f',"tensors":[{",".join(summary.tensors)}]'
        if summary.values:
            text += f',"values":[{",".join(summary.values)}]'
        if summary.staged and device is not None and facts.name in COPIES:
            window.uses.host.update(summary.staged)
        if kind == "compute" and handle is not None:
            window.node_ops.mark(self._frontier(handle), 0)
        q = self._write_text("op", text)
        running = Running(q, window, ident, windows.operators.get(ident, 0), stack)
        windows.operators[ident] = q
        tell = self._context.operator_runs
        if tell is not None:
            tell(q, stack)
        if kind == "compute":
            running.handle = handle
        if kind == "compute" or kind == "alloc":  # noqa: PLR1714 - twice as fast as a set
            running.args = args
        if pause is not None:
            self._resume()
        return running

    def _after(self, running: Running, results: Any, error: BaseException | None) -> None:
        windows, window = self._windows, running.window
        if windows.pause is not None:
            windows.pause()
        changed = windows.changed()
        outer = running.outer
        if outer:
            windows.operators[running.ident] = outer
        else:
            windows.operators.pop(running.ident, None)
        tell = self._context.operator_runs
        if tell is not None:
            tell(outer, 0)
        if error is not None:
            fields: dict[str, Any] = {"of": running.q, "after": window.status, "exc": raised(error)}
            if "code" in fields["exc"]:
                fields["code"] = fields["exc"]["code"]
            q = self._write("outcome", fields)
        else:
            text = f',"of":{running.q},"after":{window.status}'
            if running.args is not None:
                tensors = self._summaries.of_results(results, running.args, window.uses, window.id, running.stack)
                if tensors:
                    text += f',"tensors":[{",".join(tensors)}]'
            q = self._write_text("outcome", text)
            if running.handle is not None and window.status == STATUS_ACTIVE:
                window.node_ops.mark(self._frontier(running.handle), running.q)
        if changed is not None:
            windows.tell(changed, running.q, "op")
        elif error is not None:
            windows.failed(window, q)
        if window.status == STATUS_ACTIVE:
            window.last = running.q
        self._resume()

    # ── the parts ───────────────────────────────────────────────────────────────────────────────
    def _resume(self) -> None:
        resume = self._windows.resume
        if resume is not None:
            resume()

    def _place(self, window: Window, ident: int) -> tuple[int, str]:
        """Id of the stack of the operator's line, and `via` as text where that is another thread's.

        A backward worker has no Python stack: the line is the capturing thread's, which waits in `backward`.
        """
        stacks = self._context.stacks
        if stacks is None:
            return 0, ""
        try:
            own = int(stacks.of(_getframe(_DEPTH)))
        except ValueError:  # the interpreter's first frame is ours
            own = 0
        if own or ident == window.ident:
            return own, ""
        return int(stacks.of_thread(window.ident)), f',"via":{window.tid}'

    def _on_device(self, window: Window, device: int) -> tuple[str, int]:
        """Device, stream and its status as text, and the stream's raw handle."""
        if device < 0:
            device = self._current.device()
        handle = self._current.stream(device)
        if handle == window.handle:
            return f',"device":{device},"stream":{window.stream},"on":{window.status}', handle
        on = self._context.driver.status(handle)
        stream = self._streams.id(handle, device)
        return f',"device":{device},"stream":{stream},"on":{"null" if on is None else on}', handle

    def _pinned(self, address: int) -> bool | None:
        ask = getattr(self._context.driver, "pinned", None)
        return ask(address) if ask is not None else None


def _nothing(_stream: int) -> int:
    """A driver that does not tell nodes."""
    return 0
