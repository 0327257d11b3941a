"""Code that only a GPU can run: Triton kernels, kernels compiled at run time, NCCL. It is named, with its line.

A kernel launch is recorded without effect, so that the rest of the script is still seen. A communicator cannot be made.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_doctor.sim.tracebacks import unseen

if TYPE_CHECKING:
    from cudagraph_doctor.sim.after_import import AfterImport
    from cudagraph_doctor.sim.simulation import Simulation

NO_EFFECT = "its code is for a GPU; the launch is recorded without effect"
_TRITON = {
    "triton.runtime.jit": ("JITFunction",),
    "triton.runtime.autotuner": ("Autotuner", "Heuristics"),
}
"""Modules of Triton, and their classes whose `run` compiles and launches."""


def name_foreign_code(sim: Simulation, imports: AfterImport) -> None:
    """Put something that says what it is in the place of each way to such code."""
    for module, classes in _TRITON.items():
        imports.change(module, lambda loaded, classes=classes: _name_triton(sim, loaded, classes))  # type: ignore[misc]
    if hasattr(torch.cuda, "_compile_kernel"):
        torch.cuda._compile_kernel = _compiler(sim)
    imports.change("torch.distributed.distributed_c10d", lambda loaded: _name_nccl(sim, loaded))


def launch_without_effect(sim: Simulation, what: str, name: str) -> None:
    """Record a launch on the current stream. Raises the CUDA error of a capture that is already invalid."""
    stream = sim.stream_on(sim.streams().device)
    if stream.capture is not None:
        sim.record_node(stream, name, lambda: None, (), ())
    sim.has_no_effect(what, NO_EFFECT, fatal=stream.capture is not None)


def _name_triton(sim: Simulation, module: ModuleType, classes: tuple[str, ...]) -> None:
    def run(kernel: Any, *_args: Any, **options: Any) -> None:
        if not options.get("warmup"):
            name = getattr(getattr(kernel, "base_fn", kernel), "__name__", "kernel")
            launch_without_effect(sim, f"Triton kernel {name}", name)

    for name in classes:
        if (kind := getattr(module, name, None)) is not None:
            kind.run = unseen(run)


def _compiler(sim: Simulation) -> Callable[..., Any]:
    def compile_kernel(_source: str, kernel_name: str, *_options: Any, **_more: Any) -> Callable[..., None]:
        def launch(*_args: Any, **_options: Any) -> None:
            launch_without_effect(sim, f"kernel {kernel_name}", kernel_name)

        return unseen(launch)

    return compile_kernel


def _name_nccl(sim: Simulation, module: ModuleType) -> None:
    make: Callable[..., Any] | None = getattr(module, "_new_process_group_helper", None)
    if make is None:
        return

    def new_process_group(*args: Any, **kwargs: Any) -> Any:
        reason = ""
        try:
            return make(*args, **kwargs)
        except Exception as error:
            if "NCCL" not in str(error):
                raise
            reason = str(error).partition("\n")[0]
        raise sim.not_simulated("NCCL", reason)

    module._new_process_group_helper = unseen(new_process_group)  # type: ignore[attr-defined]
