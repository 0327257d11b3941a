"""The backward pass: on which streams it runs, and gradient accumulators that a warm-up left behind.

PyTorch runs a node of the autograd graph on the stream of its forward, in threads of the engine. Here they run on the
streams of the thread that called backward. What that loses is put back for the one case that breaks captures: an
AccumulateGrad node that was made on the default stream and is still alive. Nodes are marked with their stream at each
backward pass and, for those that wait for their first, when a thread leaves the default stream.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from cudagraph_doctor.sim import cuda_error as cuda
from cudagraph_doctor.sim.simulation import Simulation
from cudagraph_doctor.sim.streams import SimStream
from cudagraph_doctor.sim.tracebacks import hide

_MARK = "cudagraph_doctor_stream"
_STALE = (
    "During CUDA graph capture, autograd node '{name}' has a stale reference to the default stream (stream 0) from "
    "warmup. This will invalidate the capture because cudaStreamWaitEvent on the default stream pulls a non-capturing "
    "stream into the graph."
)


_SEARCHES = 3
"""Times that the process is searched for nodes of the default stream: a search takes some hundredths of a second, and
warm-up and capture are among the first switches to another stream."""


class Accumulators:
    """AccumulateGrad nodes that are alive, and the stream that each was made on."""

    def __init__(self) -> None:
        self._searches_left = _SEARCHES
        example = torch.ones(1, device="cpu", requires_grad=True)
        self._node_type = type(example.expand_as(example).grad_fn.next_functions[0][0])

    def leaving_default_stream(self) -> None:
        """Mark what lives now: it was made on the default stream, if nothing else is known of it."""
        if not self._searches_left or not torch.is_grad_enabled():
            return
        self._searches_left -= 1
        for found in gc.get_objects():
            kind = type(found)
            if kind is self._node_type:
                if found.variable.is_cuda:
                    found.metadata.setdefault(_MARK, 0)
            elif kind is torch.Tensor and found.requires_grad and found.is_cuda and not found.is_leaf:
                for node in _accumulators((found,)):
                    node.metadata.setdefault(_MARK, 0)


def run_backward_on_callers_streams(sim: Simulation) -> None:
    """Wrap the engine's entry in Python."""
    from torch.autograd import graph

    run: Callable[..., Any] = graph._engine_run_backward

    def run_backward(roots: Any, *args: Any, **kwargs: Any) -> Any:
        caller = sim.streams()
        outer = sim.backward_caller
        try:
            _look_at_accumulators(sim, caller.streams[caller.device], roots)
            sim.backward_caller = caller
            return run(roots, *args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        finally:
            sim.backward_caller = outer

    for module in (graph, torch.autograd):
        module._engine_run_backward = run_backward


def _look_at_accumulators(sim: Simulation, stream: SimStream, roots: Iterable[Any]) -> None:
    """Outside a capture, note the stream on each AccumulateGrad node; in one, refuse those of the default stream.

    torch 2.13 and newer raise a RuntimeError; before, the wait on the default stream is what breaks (906).
    """
    capturing = stream.capture is not None
    for node in _accumulators(roots):
        made_on = node.metadata.setdefault(_MARK, stream.handle)
        if capturing and made_on == 0:
            if _version() >= (2, 13):
                sim.refuse_in_python(RuntimeError(_STALE.format(name=node.name())))
            else:
                assert stream.capture is not None
                refuse = sim.driver.refuse
                sim.check(refuse("cuStreamWaitEvent", cuda.CAPTURE_IMPLICIT, [stream.capture], sim.driver.defaults[0]))


def _accumulators(roots: Iterable[Any]) -> Iterator[Any]:
    todo = [tensor.grad_fn for tensor in roots if getattr(tensor, "grad_fn", None) is not None]
    seen = set(todo)
    while todo:
        for node, _ in todo.pop().next_functions:
            if node is None or node in seen:
                continue
            seen.add(node)
            if hasattr(node, "variable"):
                if node.variable.is_cuda:
                    yield node
            else:
                todo.append(node)


def _version() -> tuple[int, int]:
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)
