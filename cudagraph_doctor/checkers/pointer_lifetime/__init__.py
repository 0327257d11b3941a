"""CGD4xx, pointer_lifetime: what a graph points at, and whether it is still there. A file a rule, its text on top."""

from cudagraph_doctor.checkers.pointer_lifetime.checker import PointerLifetime

__all__ = ["PointerLifetime"]
