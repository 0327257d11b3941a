"""CGD3xx, module_loading: modules and kernels loaded, unloaded, compiled or tuned inside a capture."""

from cudagraph_doctor.checkers.module_loading.checker import ModuleLoading

__all__ = ["ModuleLoading"]
