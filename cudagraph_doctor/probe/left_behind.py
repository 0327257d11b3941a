"""What a failed capture leaves behind in the process: the `state` record."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudagraph_doctor.probe.arm import Window
    from cudagraph_doctor.probe.context import Context
    from cudagraph_doctor.probe.current import Current


def left_behind(context: Context, window: Window, current: Current) -> None:
    """Records whether the capture stream is still current (torch 2.11 leaves it so), its status, and a sticky error."""
    fields: dict[str, Any] = {"cap": window.id, "stream": window.stream}
    fields["stream_current"] = current.stream(window.device) == window.handle
    driver = context.driver
    if driver is not None:
        fields["status"] = driver.status(window.handle)
        sticky = getattr(driver, "sticky", None)
        if callable(sticky):
            fields["sticky"] = sticky()
        elif isinstance(sticky, int):
            fields["sticky"] = sticky
    context.write("state", **fields)
