"""`torch.compile` on the simulated device: what it was given, uncompiled. The code that it generates cannot run here.

What a compiled function does in a capture is then not what a GPU would capture: the region is not checked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from cudagraph_doctor.sim.simulation import Simulation

_WHAT = "torch.compile"
_PASSED = "the function runs uncompiled; what Inductor generates for a GPU, and captures by itself, is not checked"
_CAPTURED = "a compiled function was called in a captured region; it was recorded uncompiled"


def compile_passes_through(sim: Simulation) -> None:
    """Replace torch.compile and torch.nn.Module.compile."""

    def called() -> None:
        stream = sim.stream_on(sim.streams().device)
        if stream.capture is not None:
            sim.has_no_effect(_WHAT, _CAPTURED, fatal=True)

    def passed_through(model: Any) -> Any:
        sim.has_no_effect(_WHAT, _PASSED, fatal=False)
        if isinstance(model, torch.nn.Module):
            model.register_forward_pre_hook(lambda *_call: called())
            return model

        @functools.wraps(model)
        def uncompiled(*args: Any, **kwargs: Any) -> Any:
            called()
            return model(*args, **kwargs)

        return uncompiled

    def compile(model: Any = None, *, disable: bool = False, **_options: Any) -> Any:
        one: Callable[[Any], Any] = (lambda given: given) if disable else passed_through
        return one if model is None else one(model)

    def compile_module(module: torch.nn.Module, *_args: Any, **_kwargs: Any) -> None:
        passed_through(module)

    torch.compile = compile
    torch.nn.Module.compile = compile_module
