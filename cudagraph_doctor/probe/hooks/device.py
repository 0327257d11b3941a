"""Which device the target runs on, and by which driver: told once, before the first capture."""

from __future__ import annotations

import sys

from cudagraph_doctor.probe.arm import Part, windows_of
from cudagraph_doctor.probe.context import Active
from cudagraph_doctor.probe.current import Current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from cudagraph_doctor.probe.context import Context

NAME = "device"
MODULES: tuple[str, ...] = ()
SIMULATED = "simulated device"


def install(module: ModuleType | None, context: Context) -> Active | None:
    """Waits for the first capture: then the driver is there, and no window is open yet."""
    if context.config.device == "sim":
        return Active(versions={"device": SIMULATED})
    windows_of(context).add(Device(context))
    return None


class Device(Part):
    """Tells the device that is current when the first capture begins."""

    NAME = NAME

    def __init__(self, context: Context) -> None:
        self._context = context
        self._told = False

    def prepare(self) -> None:
        """A capture is about to begin."""
        ask = getattr(self._context.driver, "device_facts", None)
        if self._told or ask is None:
            return
        self._told = True
        torch: Any = sys.modules.get("torch")
        facts = ask(Current(torch).device() if hasattr(torch, "cuda") else 0)
        if facts:
            self._context.capability(NAME, "on", versions=facts)
