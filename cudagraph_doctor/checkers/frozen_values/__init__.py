"""CGD6xx, frozen_values: what a graph froze of the host's state, and what it never does for it. A file a rule."""

from cudagraph_doctor.checkers.frozen_values.checker import FrozenValues

__all__ = ["FrozenValues"]
