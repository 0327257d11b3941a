"""Random numbers: each simulated device has its own generators, and a graph draws anew at each replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cudagraph_doctor.sim.operator_plan import OperatorPlan
from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.streams import SimStream

NOT_REGISTERED = "Attempt to increase offset for a CUDA generator not in capture mode."


class RandomState:
    """Finds the generator of an operator and draws from it."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self.defaults: tuple[Any, ...] = ()
        """Default generator of each device; set when the torch surface is built."""

    def _given(self, plan: OperatorPlan, args: Any, kwargs: dict[str, Any]) -> Any:
        place = plan.generator_place
        if place is not None and place < len(args):
            return args[place]
        return kwargs.get("generator")

    def compute(self, plan: OperatorPlan, device: int, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run a random operator now."""
        generator = self._given(plan, args, kwargs)
        return self._draw(plan, self.defaults[device] if generator is None else generator, args, kwargs)

    def _draw(self, plan: OperatorPlan, generator: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if plan.has_generator:
            args, kwargs = list(args), dict(kwargs)
            place = plan.generator_place
            if place is not None and place < len(args):
                args[place] = generator
            else:
                kwargs["generator"] = generator
            return plan.call(*args, **kwargs)
        # No generator argument (native_dropout): it draws from the CPU's default one, which we lend it for the call.
        mine = torch.default_generator.get_state()
        torch.default_generator.set_state(generator.get_state())
        try:
            return plan.call(*args, **kwargs)
        finally:
            generator.set_state(torch.default_generator.get_state())
            torch.default_generator.set_state(mine)

    def rehearsed(self, plan: OperatorPlan, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run an operator for the shape of its result: no generator moves."""
        if plan.has_generator or plan.random:
            return self._draw(plan, torch.Generator("cpu"), args, kwargs)
        return plan.call(*args, **kwargs)

    def generator_for_capture(
        self, plan: OperatorPlan, stream: SimStream, device: int, args: Any, kwargs: dict[str, Any]
    ) -> Any | None:
        """The generator that a node will draw from; None for an operator that is not random.

        Raises RuntimeError for a generator that is not registered with the graph.
        """
        if not (plan.has_generator or plan.random):
            return None
        given = self._given(plan, args, kwargs)
        default = self.defaults[device]
        if given is None or given._cdata == default._cdata:
            return default
        capture = stream.capture
        if capture is not None and given._cdata not in capture.generators:
            self._sim.refuse_in_python(RuntimeError(NOT_REGISTERED))
        return given

    def replayed(
        self, plan: OperatorPlan, generator: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Callable[[], object]:
        """A function that draws anew each time it is called."""
        return lambda: self._draw(plan, generator, args, kwargs)
