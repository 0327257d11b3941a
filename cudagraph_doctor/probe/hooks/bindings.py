"""cuda-bindings (`cuda.bindings.runtime`, `cuda.bindings.driver`, and their names before release 13).

Patched when the target has imported them, so that `from cuda.bindings.runtime import cudaMalloc` gets the wrapper. A
call outside capture windows goes straight through unless the table marks it.
"""

from __future__ import annotations

import sys

from cudagraph_doctor.probe import bindings_table as table
from cudagraph_doctor.probe import bindings_values as values
from cudagraph_doctor.probe.bindings_calls import HOOK, Calls
from cudagraph_doctor.probe.bindings_captures import BindingCaptures
from cudagraph_doctor.probe.context import Active
from cudagraph_doctor.probe.patch import patch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = HOOK
AFTER = "torch"
MODULES = (*values.MODULES, AFTER)
_patched: set[tuple[int, str]] = set()
"""Context and name of modules that were patched on the simulated device."""
_made: dict[int, tuple[Calls, BindingCaptures]] = {}


def install(module: ModuleType | None, context: Context) -> Active | None:
    """Patches one module, once; on the simulated device when torch is complete, which imports them on its way."""
    if module is None:
        return None
    if context.config.device != "sim":
        return None if module.__name__ == AFTER else _patch(module, context)
    if context.driver is None:
        return None
    answer = None
    for name in values.MODULES:
        found = sys.modules.get(name)
        if found is not None and (id(context), name) not in _patched:
            _patched.add((id(context), name))
            answer = _patch(found, context)
    return answer


def _patch(module: ModuleType, context: Context) -> Active:
    """Patches the functions of one module that the table names."""
    simulated = context.config.device == "sim"
    if simulated:
        context.driver.simulate_bindings(module)  # before the wrappers: they go around what it puts there
    else:
        _use_driver(context)
    if id(context) not in _made:
        _made[id(context)] = (Calls(context), BindingCaptures(context))
    calls, captures = _made[id(context)]
    wraps = _of_captures(captures)
    if not simulated:  # the simulated device records each call itself
        for specs in (table.RUNTIME, table.DRIVER):
            wraps.update({name: calls.wrap(name, spec) for name, spec in specs.items() if name not in wraps})
        wraps.update({name: calls.wrap_exchange(name) for name in table.EXCHANGE})
        wraps.update(dict.fromkeys(table.NAMED, calls.wrap_named))
        wraps.update(dict.fromkeys(table.KERNEL_OF, calls.wrap_kernel_of))
    for name, wrap in wraps.items():
        patch(module, name, wrap)
    version = values.version_of(module)
    return Active(versions={"cuda-bindings": version} if version else {})


def _of_captures(captures: BindingCaptures) -> dict[str, Any]:
    """The wrappers of the calls of captures and graphs, by name."""
    wraps: dict[str, Any] = {}
    wraps.update({name: captures.begin(name, mode_at) for name, mode_at in table.BEGIN.items()})
    wraps.update({name: captures.end(name) for name in table.END})
    wraps.update(dict.fromkeys(table.INSTANTIATE, captures.instantiate))
    wraps.update(dict.fromkeys(table.UPDATE, captures.update))
    wraps.update(dict.fromkeys(table.EXEC_DESTROY, captures.destroy))
    wraps.update(dict.fromkeys(table.LAUNCH, captures.launch))
    return wraps


def _use_driver(context: Context) -> None:
    """A target without torch asks the driver as well."""
    if context.driver is None:
        from cudagraph_doctor.probe.driver import Driver

        context.driver = Driver()
        context.write("evidence", level="python")
