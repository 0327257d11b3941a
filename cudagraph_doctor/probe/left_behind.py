"""What a failed capture leaves behind in the process: the `state` record."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudagraph_doctor.probe.arm import Window
    from cudagraph_doctor.probe.context import Context
    from cudagraph_doctor.probe.current import Current


def left_behind(context: Context, window: Window, current: Current) -> None:
    """Records whether the capture stream is still current (torch 2.11 leaves it so), its status, and a sticky error.

    And what the allocator got for the capture and has not given back. Whether a generator was left in capture mode,
    torch does not tell.
    """
    fields: dict[str, Any] = {"cap": window.id, "stream": window.stream}
    fields["stream_current"] = current.stream(window.device) == window.handle
    fields["pool"] = _kept(window, current)
    driver = context.driver
    if driver is not None:
        fields["status"] = driver.status(window.handle)
        sticky = getattr(driver, "sticky", None)
        if callable(sticky):
            fields["sticky"] = sticky()
        elif isinstance(sticky, int):
            fields["sticky"] = sticky
    context.write("state", **fields)


def _kept(window: Window, current: Current) -> str:
    """The memory that torch's allocator holds more of than before, in words; "" if it does not tell."""
    now = current.reserved(window.device)
    if now is None or window.reserved is None:
        return ""
    more = now - window.reserved
    return f"{more / 2**20:.1f} MiB reserved since the capture began are still held" if more > 0 else "none"
