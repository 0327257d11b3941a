"""The calling thread's current device and stream, as torch keeps them: no CUDA call that matters to a capture."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Current:
    """Asks torch which device and stream are current."""

    __slots__ = ("_device", "_raw", "_torch")

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self._device = getattr(torch._C, "_cuda_getDevice", None)

    @property
    def ready(self) -> bool:
        """CUDA is initialised: asking does not initialise it."""
        return bool(self._torch.cuda.is_initialized())

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
