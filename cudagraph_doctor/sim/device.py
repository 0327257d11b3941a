"""`install`: the simulated device in this process, and what the recorder may ask of it."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING

from cudagraph_doctor.sim.emission import Emit, Where, nobody, nowhere
from cudagraph_doctor.sim.node_description import Description, describe
from cudagraph_doctor.sim.unavailable import WORKS_WITH, SimUnavailable

if TYPE_CHECKING:
    from types import ModuleType

    from cudagraph_doctor.sim.bindings.surface import BindingsSurface
    from cudagraph_doctor.sim.simulation import Simulation

DEFAULT_MEMORY = 16 << 30
"""Bytes of a simulated device; address space, not memory."""


class SimDevice:
    """The simulated devices of this process."""

    def __init__(self, simulation: Simulation, bindings: BindingsSurface, keep_alive: object) -> None:
        self.simulation = simulation
        self._bindings = bindings
        self._keep_alive = keep_alive

    @property
    def count(self) -> int:
        """Number of devices."""
        return len(self.simulation.allocators)

    @property
    def keep_going(self) -> bool:
        """Whether refused calls report success, so that one run meets every obstacle of a region."""
        return self.simulation.driver.keep_going

    @keep_going.setter
    def keep_going(self, on: bool) -> None:
        self.simulation.driver.keep_going = on

    def status(self, stream_handle: int, device: int = 0) -> int:
        """Capture status of a stream: 0 none, 1 active, 2 invalidated. An unknown handle has none."""
        stream = self.simulation.driver.stream_of(stream_handle, device)
        return 0 if stream is None else self.simulation.driver.status(stream)

    def capture_info(self, stream_handle: int, device: int = 0) -> tuple[int, int, int]:
        """(status, id of the capture sequence, nodes captured so far), as cuStreamGetCaptureInfo gives them."""
        from cudagraph_doctor.sim.capture_calls import capture_info

        stream = self.simulation.driver.stream_of(stream_handle, device)
        return (0, 0, 0) if stream is None else capture_info(self.simulation.driver, stream)

    def pinned(self, address: int) -> bool:
        """Whether host memory is page-locked."""
        return self.simulation.pinned.holds(address)

    def mark(self, stream_handle: int, _earlier: object = None, device: int = 0) -> tuple[int, int] | None:
        """A mark behind all that a stream was given so far."""
        stream = self.simulation.driver.stream_of(stream_handle, device)
        return None if stream is None else (stream.key, stream.tick)

    def reached(self, mark: tuple[int, int]) -> bool:
        """Whether the host has waited for a mark: only then may it count on the work before it."""
        return self.simulation.driver.host.get(mark[0], 0) >= mark[1]

    def frontier(self, stream_handle: int, device: int = 0) -> int:
        """Handle of the newest node that a capturing stream made; 0 if there is none, or if several end it."""
        stream = self.simulation.driver.stream_of(stream_handle, device)
        if stream is None or stream.capture is None or len(stream.frontier) != 1:
            return 0
        return stream.frontier[0].handle

    def reads_graphs(self) -> bool:
        """Whether `graph_of_capture` tells the graph of an open capture."""
        return True

    def graph_of_capture(self, stream_handle: int, device: int = 0) -> Description | None:
        """The nodes and edges that an open capture has made so far."""
        stream = self.simulation.driver.stream_of(stream_handle, device)
        return None if stream is None or stream.capture is None else describe(stream.capture.nodes)

    def simulate_bindings(self, module: ModuleType) -> None:
        """Simulate `cuda.bindings.runtime` or `cuda.bindings.driver` now, if it was not done at its import."""
        self._bindings.replace_in(module)

    def error_log(self) -> list[str]:
        """What the driver's error log would say of each refused call, oldest first."""
        return list(self.simulation.driver.error_log)


_installed: SimDevice | None = None


def install(
    devices: int = 1,
    emit: Emit | None = None,
    *,
    where: Where | None = None,
    memory: int = DEFAULT_MEMORY,
    keep_going: bool = False,
) -> SimDevice:
    """Make `cuda:0` … `cuda:devices-1` of this process, on the CPU.

    Imports torch if the target has not. It cannot be undone; a second call returns the first one's device. Raises
    SimUnavailable, with one line that says what works, if the mechanism does not fit this build.
    """
    global _installed
    if _installed is not None:
        return _installed
    if sys.platform != "linux" or platform.machine() not in {"x86_64", "amd64"}:
        # The layout of C++ objects and the calling convention were seen on x86-64 only.
        here = f"{platform.system()} {platform.machine()}"
        raise SimUnavailable(f"the simulated device does not work on {here}; it works with {WORKS_WITH}")
    if os.environ.get("CUDA_VISIBLE_DEVICES") != "":
        # Otherwise a kernel that is not ours could reach a real GPU with host addresses.
        raise SimUnavailable("CUDA_VISIBLE_DEVICES must be empty before torch is imported (sim.prepare_environment)")
    try:
        import numpy  # noqa: F401, ICN001
        import torch
    except ImportError as error:
        raise SimUnavailable(f"the simulated device needs torch and numpy ({error}): {WORKS_WITH}") from None
    from cudagraph_doctor.sim.self_test import check_version, prove

    check_version(torch.__version__)
    device = _build(devices, memory)
    prove(device)  # before anybody listens: its capture is not the target's
    device.simulation.start(emit or nobody, where or nowhere, keep_going=keep_going)
    _installed = device
    return device


def _build(devices: int, memory: int) -> SimDevice:
    from cudagraph_doctor.sim.after_import import AfterImport
    from cudagraph_doctor.sim.bindings.surface import put_under_bindings
    from cudagraph_doctor.sim.dispatch import Registration
    from cudagraph_doctor.sim.foreign_code import name_foreign_code
    from cudagraph_doctor.sim.launch import Launcher
    from cudagraph_doctor.sim.native_interface import hook_names, install_guard, install_hooks
    from cudagraph_doctor.sim.simulation import Simulation
    from cudagraph_doctor.sim.torch_surface import put_under_torch

    try:
        sim = Simulation(devices, memory)
    except OSError as error:
        raise SimUnavailable(f"the system refuses {memory >> 30} GiB of address space a device ({error})") from None

    def exchange(index: int) -> int:
        streams = sim.streams()
        before = streams.device
        if index >= 0:
            streams.device = index
        return int(before)

    install_guard(devices)
    hooks = install_hooks(devices, lambda: int(sim.streams().device), exchange)
    sim.pinned.install(hooks, hook_names())
    launcher = Launcher(sim)
    put_under_torch(sim, launcher)
    imports = AfterImport()
    name_foreign_code(sim, imports)
    return SimDevice(sim, put_under_bindings(sim, imports), Registration(launcher))
