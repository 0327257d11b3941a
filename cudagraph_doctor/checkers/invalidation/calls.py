"""What a named call means for a capture: on top of the session's families, C functions called from Python."""

from __future__ import annotations

import re

from cudagraph_doctor.session.apis import Family, base_name, family

WAITS = frozenset({Family.SYNC, Family.EVENT_SYNC})
"""The host waits for the device."""

QUERIES = frozenset({Family.QUERY, Family.EVENT_QUERY})
"""The host asks whether the device is done."""

UNSAFE = frozenset(
    {
        Family.ALLOC,
        Family.FREE,
        Family.HOST_ALLOC,
        Family.HOST_FREE,
        Family.HOST_REGISTER,
        Family.ASYNC_ALLOC,
        Family.ASYNC_FREE,
        Family.MEMPOOL,
        Family.MODULE_UNLOAD,
        Family.PROFILER,
        Family.CONTEXT,
    }
)
"""Calls that CUDA counts as potentially unsafe and refuses by the capture mode of the calling thread."""

# C functions of torch and Python that stand for one CUDA call.
_PYTHON = (
    (re.compile(r"pin_memory$"), Family.HOST_ALLOC),
    (re.compile(r"_cuda_synchronize$|cuda\.synchronize$"), Family.SYNC),
    (re.compile(r"_cuda_emptyCache$|empty_cache$"), Family.FREE),
)

_RANDOM = re.compile(
    r"manual_seed(?:_all)?$|Generator\.(?:seed|initial_seed|get_state|set_state|get_offset|set_offset|\w*graphsafe\w*)$"
    r"|(?:get|set)_rng_state(?:_all)?$"
)
_COLLECT = re.compile(r"(?:^|\.)gc\.collect$")
_REACHES_CUDA = re.compile(
    r"torch|cuda|cublas|cudnn|nccl|triton|cupy|numba|nvrtc|pycuda|jax|warp|Tensor|pybind|nanobind"
)

# Refused on purpose when libraries start: the driver's log holds them, and they break nothing.
_NOISE = frozenset({"cuGetProcAddress", "cuCtxGetDevice", "cudaGetDriverEntryPoint", "cuGetExportTable"})


def family_of(name: str) -> Family:
    """The family of a CUDA call, or of a C function called from Python that stands for one."""
    found = family(name)
    if found is not Family.OTHER:
        return found
    return next((kind for pattern, kind in _PYTHON if pattern.search(name)), Family.OTHER)


def is_random_state(name: str) -> bool:
    """A C function that seeds, saves or restores random state."""
    return _RANDOM.search(name) is not None


def is_collect(name: str) -> bool:
    """`gc.collect`."""
    return _COLLECT.search(name) is not None


def is_noise(api: str) -> bool:
    """Whether a refused call of this name is expected and means nothing for a capture."""
    return base_name(api) in _NOISE or family(api) is Family.CAPTURE_QUERY


def reaches_cuda(name: str) -> bool:
    """Whether a C function called from Python can reach the driver at all.

    A status that changed across `lock.acquire`, `dict.get` or `time.sleep` was changed by somebody else meanwhile.
    """
    return _REACHES_CUDA.search(name) is not None


def is_device_wide(api: str) -> bool:
    """A wait for the whole device or context, which conflicts with every capture on it whatever the mode."""
    return re.search(r"(?:Ctx|Device|Thread|_cuda_)_?[sS]ynchronize|cuda\.synchronize", api) is not None


def is_elapsed_time(api: str) -> bool:
    """Asks for the time between two events."""
    return "lapsed" in api
