"""The calling thread's current device and stream, as torch keeps them: no CUDA call that matters to a capture."""

from __future__ import annotations

from os import getpid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Current:
    """Asks torch which device and stream are current."""

    __slots__ = ("_device", "_raw", "_ready_in", "_torch")

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._ready_in = 0
        self._raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self._device = getattr(torch._C, "_cuda_getDevice", None)

    @property
    def ready(self) -> bool:
        """CUDA is initialised: asking does not initialise it."""
        if self._ready_in != getpid():  # it stays so, but not across a fork
            if not self._torch.cuda.is_initialized():
                return False
            self._ready_in = getpid()
        return True

    def device(self) -> int:
        """Index of the current device."""
        if not self.ready:
            return 0
        return int(self._device()) if self._device is not None else int(self._torch.cuda.current_device())

    def stream(self, device: int) -> int:
        """Raw handle of the current stream of a device; 0, the default stream, before CUDA is initialised."""
        if not self.ready:
            return 0
        if self._raw is not None:
            return int(self._raw(device))
        return int(self._torch.cuda.current_stream(device).cuda_stream)

    def reserved(self, device: int) -> int | None:
        """Bytes that torch's allocator holds of a device, used or not; None where it does not tell.

        The allocator only copies its counters: legal in every capture mode.
        """
        try:
            return int(self._torch._C._cuda_memoryStats(device)["reserved_bytes"]["all"]["current"])
        except Exception:  # another allocator, with other counters
            return None
