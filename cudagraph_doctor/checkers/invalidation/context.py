"""Under what a call was made: the frames of its stack that mean something for a capture."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Activity, Session


class FrameName(NamedTuple):
    """File and function of one frame."""

    path: str
    """`root:relative/path`."""
    function: str


# (file, function) of a frame; both must be found.
_BACKWARD = (
    (re.compile(r"torch/autograd/graph\.py$"), re.compile(r"_engine_run_backward")),
    (re.compile(r"torch/autograd/__init__\.py$"), re.compile(r"^(?:backward|grad)$")),
    (re.compile(r"torch/_tensor\.py$"), re.compile(r"backward$")),
)
_FINALISER = (
    (re.compile(r""), re.compile(r"(?:^|\.)__del__$")),
    (re.compile(r"weakref\.py$"), re.compile(r"finalize")),
)
_AUTOTUNE = (
    (re.compile(r"triton/runtime/autotuner\.py$"), re.compile(r"")),
    (re.compile(r"triton/testing\.py$"), re.compile(r"do_bench")),
    (re.compile(r"torch/_inductor/runtime/(?:triton_heuristics|autotune_cache)\.py$"), re.compile(r"bench|autotune")),
    (re.compile(r"torch/_inductor/runtime/benchmarking\.py$"), re.compile(r"")),
    (re.compile(r"torch/_inductor/select_algorithm\.py$"), re.compile(r"")),
)
_COMPILE = (
    (re.compile(r"torch/_dynamo/(?:convert_frame|symbolic_convert|output_graph)\.py$"), re.compile(r"")),
    (re.compile(r"torch/_dynamo/utils\.py$"), re.compile(r"preserve_rng_state")),
    (re.compile(r"torch/_inductor/(?:compile_fx|codecache|async_compile)\.py$"), re.compile(r"")),
    (re.compile(r"triton/compiler/"), re.compile(r"")),
    (re.compile(r"triton/backends/[^/]+/compiler\.py$"), re.compile(r"")),
    (re.compile(r"triton/runtime/jit\.py$"), re.compile(r"_do_compile|warmup|_init_handles")),
    (re.compile(r"torch/utils/cpp_extension\.py$"), re.compile(r"")),
    (re.compile(r"numba/.*/compiler\.py$"), re.compile(r"")),
    (re.compile(r"cupy/cuda/compiler\.py$"), re.compile(r"")),
    (re.compile(r"cuda/core/.*_program"), re.compile(r"compile")),
)
_FORMATTING = ((re.compile(r"torch/_tensor_str\.py$"), re.compile(r"")),)
_BLOCK = (
    (re.compile(r"torch/cuda/graphs\.py$"), re.compile(r"^(?:graph\.__(?:enter|exit)__|make_graphed_callables)$")),
)
_DISTRIBUTION = ((re.compile(r"torch/distributions/"), re.compile(r"__init__$|_validate_sample")),)
_CHECKPOINT = ((re.compile(r"torch/utils/checkpoint\.py$"), re.compile(r"")),)

Pattern = tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]


def frames(session: Session, stack: int) -> Iterator[FrameName]:
    """The frames of a stack, innermost first; none where the stack was not recorded."""
    record = session.stacks.get(stack)
    for source, _, function, *_ in record.frames if record is not None else ():
        found = session.sources.get(source)
        yield FrameName(found.path if found is not None else "", function)


def _under(session: Session, stack: int, patterns: Pattern) -> bool:
    return any(
        file.search(frame.path) and name.search(frame.function)
        for frame in frames(session, stack)
        if frame.function != "<module>"  # a module being imported does not do its work yet
        for file, name in patterns
    )


def under_backward(session: Session, stack: int, activity: Activity | None = None) -> bool:
    """Autograd runs a backward pass: on this stack, or on its own device thread on behalf of it."""
    if _under(session, stack, _BACKWARD):
        return True
    record = activity.record if activity is not None else None
    return bool(getattr(record, "via", 0)) and record is not None and getattr(record, "via", 0) != record.tid


def under_finaliser(session: Session, stack: int) -> bool:
    """A finaliser runs: `__del__` or a weakref's."""
    return _under(session, stack, _FINALISER)


def under_autotune(session: Session, stack: int) -> bool:
    """An autotuner times candidates."""
    return _under(session, stack, _AUTOTUNE)


def under_compile(session: Session, stack: int) -> bool:
    """Code for the device is being compiled."""
    return _under(session, stack, _COMPILE)


def under_formatting(session: Session, stack: int) -> bool:
    """A tensor is turned into text."""
    return _under(session, stack, _FORMATTING)


def under_capture_block(session: Session, stack: int) -> bool:
    """`torch.cuda.graph` is being entered or left: a capture begins or ends here."""
    return _under(session, stack, _BLOCK)


def under_distribution(session: Session, stack: int) -> bool:
    """A `torch.distributions` object checks its arguments."""
    return _under(session, stack, _DISTRIBUTION)


def under_checkpoint(session: Session, stack: int) -> bool:
    """Inside activation checkpointing."""
    return _under(session, stack, _CHECKPOINT)
