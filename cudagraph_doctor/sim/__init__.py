"""The simulated device: `cuda:0` on a CPU, for machines without a GPU.

`install` makes it in the current process; nothing is patched before. Importing this package imports neither torch nor
numpy.
"""

from __future__ import annotations

from cudagraph_doctor.sim.device import SimDevice, install
from cudagraph_doctor.sim.environment import prepare_environment
from cudagraph_doctor.sim.unavailable import WORKS_WITH, SimUnavailable

__all__ = ["WORKS_WITH", "SimDevice", "SimUnavailable", "install", "prepare_environment"]
