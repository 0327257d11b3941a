"""CGD2xx, context_binding: devices, contexts and streams that do not belong together."""

from cudagraph_doctor.checkers.context_binding.checker import ContextBinding

__all__ = ["ContextBinding"]
