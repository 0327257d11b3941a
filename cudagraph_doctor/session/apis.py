"""CUDA's API names by what they do: one family for the runtime, driver, versioned and torch spellings of one call.

`cudaMalloc`, `cuMemAlloc_v2` and `cuMemAllocPitch_v2` are all `alloc`. The families are those that differ under stream
capture (measured: which calls a capture refuses, and with which code).
"""

from __future__ import annotations

import enum
import re
from functools import lru_cache


class Family(enum.Enum):
    """What a CUDA call does, as far as captures are concerned."""

    SYNC = "sync"
    """The host waits for a device, context or stream."""
    EVENT_SYNC = "event-sync"
    """The host waits for an event, or asks for the time between two."""
    QUERY = "query"
    """The host asks whether a stream is done."""
    EVENT_QUERY = "event-query"
    """The host asks whether an event is done."""
    RECORD = "record"
    WAIT = "wait"
    """A stream waits for an event or another stream."""
    ALLOC = "alloc"
    FREE = "free"
    HOST_ALLOC = "host-alloc"
    HOST_FREE = "host-free"
    HOST_REGISTER = "host-register"
    """Pins, or unpins, memory that exists."""
    ASYNC_ALLOC = "async-alloc"
    ASYNC_FREE = "async-free"
    MEMPOOL = "mempool"
    """Creates, trims or destroys a stream-ordered memory pool."""
    VIRTUAL_MEMORY = "virtual-memory"
    MODULE_LOAD = "module-load"
    MODULE_UNLOAD = "module-unload"
    LAUNCH = "launch"
    HOST_FUNC = "host-func"
    COPY = "copy"
    MEMSET = "memset"
    BEGIN = "begin"
    END = "end"
    CAPTURE_QUERY = "capture-query"
    INSTANTIATE = "instantiate"
    GRAPH_LAUNCH = "graph-launch"
    GRAPH_UPLOAD = "graph-upload"
    UPDATE = "update"
    GRAPH_DESTROY = "graph-destroy"
    STREAM_CREATE = "stream-create"
    STREAM_DESTROY = "stream-destroy"
    EVENT_CREATE = "event-create"
    EVENT_DESTROY = "event-destroy"
    CONTEXT = "context"
    """Creates, destroys, resets or binds a context or device."""
    EXCHANGE_MODE = "exchange-mode"
    PROFILER = "profiler"
    OTHER = "other"


# Full names after `_normalise`: without version, per-thread and runtime/driver differences of the suffix.
_EXACT: dict[str, Family] = {
    # waiting
    "cudaDeviceSynchronize": Family.SYNC,
    "cudaThreadSynchronize": Family.SYNC,
    "cudaStreamSynchronize": Family.SYNC,
    "cuCtxSynchronize": Family.SYNC,
    "cuStreamSynchronize": Family.SYNC,
    "torch.cuda.synchronize": Family.SYNC,
    "cudaEventSynchronize": Family.EVENT_SYNC,
    "cuEventSynchronize": Family.EVENT_SYNC,
    "cudaEventElapsedTime": Family.EVENT_SYNC,
    "cuEventElapsedTime": Family.EVENT_SYNC,
    "cudaStreamQuery": Family.QUERY,
    "cuStreamQuery": Family.QUERY,
    "cudaEventQuery": Family.EVENT_QUERY,
    "cuEventQuery": Family.EVENT_QUERY,
    # events
    "cudaEventRecord": Family.RECORD,
    "cudaEventRecordWithFlags": Family.RECORD,
    "cuEventRecord": Family.RECORD,
    "cuEventRecordWithFlags": Family.RECORD,
    "cudaStreamWaitEvent": Family.WAIT,
    "cuStreamWaitEvent": Family.WAIT,
    "cudaEventCreate": Family.EVENT_CREATE,
    "cudaEventCreateWithFlags": Family.EVENT_CREATE,
    "cuEventCreate": Family.EVENT_CREATE,
    "cudaEventDestroy": Family.EVENT_DESTROY,
    "cuEventDestroy": Family.EVENT_DESTROY,
    # streams
    "cudaStreamCreate": Family.STREAM_CREATE,
    "cudaStreamCreateWithFlags": Family.STREAM_CREATE,
    "cudaStreamCreateWithPriority": Family.STREAM_CREATE,
    "cuStreamCreate": Family.STREAM_CREATE,
    "cuStreamCreateWithPriority": Family.STREAM_CREATE,
    "cudaStreamDestroy": Family.STREAM_DESTROY,
    "cuStreamDestroy": Family.STREAM_DESTROY,
    # capture
    "cudaStreamBeginCapture": Family.BEGIN,
    "cudaStreamBeginCaptureToGraph": Family.BEGIN,
    "cuStreamBeginCapture": Family.BEGIN,
    "cuStreamBeginCaptureToGraph": Family.BEGIN,
    "cudaStreamEndCapture": Family.END,
    "cuStreamEndCapture": Family.END,
    "cudaStreamIsCapturing": Family.CAPTURE_QUERY,
    "cuStreamIsCapturing": Family.CAPTURE_QUERY,
    "cudaStreamGetCaptureInfo": Family.CAPTURE_QUERY,
    "cuStreamGetCaptureInfo": Family.CAPTURE_QUERY,
    "cudaThreadExchangeStreamCaptureMode": Family.EXCHANGE_MODE,
    "cuThreadExchangeStreamCaptureMode": Family.EXCHANGE_MODE,
    # graphs
    "cudaGraphInstantiate": Family.INSTANTIATE,
    "cudaGraphInstantiateWithFlags": Family.INSTANTIATE,
    "cudaGraphInstantiateWithParams": Family.INSTANTIATE,
    "cuGraphInstantiate": Family.INSTANTIATE,
    "cuGraphInstantiateWithFlags": Family.INSTANTIATE,
    "cuGraphInstantiateWithParams": Family.INSTANTIATE,
    "cudaGraphLaunch": Family.GRAPH_LAUNCH,
    "cuGraphLaunch": Family.GRAPH_LAUNCH,
    "cudaGraphUpload": Family.GRAPH_UPLOAD,
    "cuGraphUpload": Family.GRAPH_UPLOAD,
    "cudaGraphExecUpdate": Family.UPDATE,
    "cuGraphExecUpdate": Family.UPDATE,
    "cudaGraphDestroy": Family.GRAPH_DESTROY,
    "cuGraphDestroy": Family.GRAPH_DESTROY,
    "cudaGraphExecDestroy": Family.GRAPH_DESTROY,
    "cuGraphExecDestroy": Family.GRAPH_DESTROY,
    # device memory
    "cudaMalloc": Family.ALLOC,
    "cudaMallocPitch": Family.ALLOC,
    "cudaMalloc3D": Family.ALLOC,
    "cudaMallocArray": Family.ALLOC,
    "cudaMalloc3DArray": Family.ALLOC,
    "cudaMallocMipmappedArray": Family.ALLOC,
    "cudaMallocManaged": Family.ALLOC,
    "cuMemAlloc": Family.ALLOC,
    "cuMemAllocPitch": Family.ALLOC,
    "cuMemAllocManaged": Family.ALLOC,
    "cuArrayCreate": Family.ALLOC,
    "cuArray3DCreate": Family.ALLOC,
    "cuMipmappedArrayCreate": Family.ALLOC,
    "cudaFree": Family.FREE,
    "cudaFreeArray": Family.FREE,
    "cudaFreeMipmappedArray": Family.FREE,
    "cuMemFree": Family.FREE,
    "cuArrayDestroy": Family.FREE,
    "cuMipmappedArrayDestroy": Family.FREE,
    "cudaMallocAsync": Family.ASYNC_ALLOC,
    "cudaMallocFromPoolAsync": Family.ASYNC_ALLOC,
    "cuMemAllocAsync": Family.ASYNC_ALLOC,
    "cuMemAllocFromPoolAsync": Family.ASYNC_ALLOC,
    "cudaFreeAsync": Family.ASYNC_FREE,
    "cuMemFreeAsync": Family.ASYNC_FREE,
    "cudaDeviceGraphMemTrim": Family.MEMPOOL,
    "cuDeviceGraphMemTrim": Family.MEMPOOL,
    # pinned host memory
    "cudaMallocHost": Family.HOST_ALLOC,
    "cudaHostAlloc": Family.HOST_ALLOC,
    "cuMemAllocHost": Family.HOST_ALLOC,
    "cuMemHostAlloc": Family.HOST_ALLOC,
    "cudaFreeHost": Family.HOST_FREE,
    "cuMemFreeHost": Family.HOST_FREE,
    "cudaHostRegister": Family.HOST_REGISTER,
    "cuMemHostRegister": Family.HOST_REGISTER,
    "cudaHostUnregister": Family.HOST_REGISTER,
    "cuMemHostUnregister": Family.HOST_REGISTER,
    # modules
    "cuModuleUnload": Family.MODULE_UNLOAD,
    "cuLibraryUnload": Family.MODULE_UNLOAD,
    "cudaLibraryUnload": Family.MODULE_UNLOAD,
    # work
    "cuLaunchHostFunc": Family.HOST_FUNC,
    "cudaLaunchHostFunc": Family.HOST_FUNC,
    "cuStreamAddCallback": Family.HOST_FUNC,
    "cudaStreamAddCallback": Family.HOST_FUNC,
    "cuLaunch": Family.LAUNCH,
    "cuLaunchGrid": Family.LAUNCH,
    "cuLaunchGridAsync": Family.LAUNCH,
    # contexts
    "cudaSetDevice": Family.CONTEXT,
    "cudaInitDevice": Family.CONTEXT,
    "cudaDeviceReset": Family.CONTEXT,
    "cuCtxCreate": Family.CONTEXT,
    "cuCtxDestroy": Family.CONTEXT,
    "cuCtxSetCurrent": Family.CONTEXT,
    "cuCtxPushCurrent": Family.CONTEXT,
    "cuCtxPopCurrent": Family.CONTEXT,
    "cuDevicePrimaryCtxRetain": Family.CONTEXT,
    "cuDevicePrimaryCtxRelease": Family.CONTEXT,
    "cuDevicePrimaryCtxReset": Family.CONTEXT,
    "cudaProfilerStart": Family.PROFILER,
    "cudaProfilerStop": Family.PROFILER,
    "cuProfilerStart": Family.PROFILER,
    "cuProfilerStop": Family.PROFILER,
}

# Groups with many spellings, by how the name begins.
_PREFIXES: tuple[tuple[str, Family], ...] = (
    ("cuLaunch", Family.LAUNCH),
    ("cudaLaunch", Family.LAUNCH),
    ("cuModuleLoad", Family.MODULE_LOAD),
    ("cuLibraryLoad", Family.MODULE_LOAD),
    ("cudaLibraryLoad", Family.MODULE_LOAD),
    ("cuLinkComplete", Family.MODULE_LOAD),
    ("cudaMemset", Family.MEMSET),
    ("cuMemset", Family.MEMSET),
    ("cudaMemcpy", Family.COPY),
    ("cuMemcpy", Family.COPY),
    ("cudaMemPrefetch", Family.COPY),
    ("cuMemPrefetch", Family.COPY),
    ("cudaMemPool", Family.MEMPOOL),
    ("cuMemPool", Family.MEMPOOL),
    ("cuMemCreate", Family.VIRTUAL_MEMORY),
    ("cuMemMap", Family.VIRTUAL_MEMORY),
    ("cuMemUnmap", Family.VIRTUAL_MEMORY),
    ("cuMemSetAccess", Family.VIRTUAL_MEMORY),
    ("cuMemRelease", Family.VIRTUAL_MEMORY),
    ("cuMemAddress", Family.VIRTUAL_MEMORY),
    ("cuGraphExec", Family.UPDATE),
    ("cudaGraphExec", Family.UPDATE),
)

# torch's Python layer, by the last two parts of the name: `torch.cuda.Event.record`, `torch._C._CudaEventBase.record`.
_TORCH_METHODS: dict[tuple[str, str], Family] = {
    ("stream", "synchronize"): Family.SYNC,
    ("stream", "query"): Family.QUERY,
    ("stream", "wait_event"): Family.WAIT,
    ("stream", "wait_stream"): Family.WAIT,
    ("stream", "record_event"): Family.RECORD,
    ("event", "record"): Family.RECORD,
    ("event", "wait"): Family.WAIT,
    ("event", "query"): Family.EVENT_QUERY,
    ("event", "synchronize"): Family.EVENT_SYNC,
    ("event", "elapsed_time"): Family.EVENT_SYNC,
    ("graph", "capture_begin"): Family.BEGIN,
    ("graph", "capture_end"): Family.END,
    ("graph", "instantiate"): Family.INSTANTIATE,
    ("graph", "replay"): Family.GRAPH_LAUNCH,
    ("graph", "reset"): Family.GRAPH_DESTROY,
}
_TORCH_FUNCTIONS: dict[str, Family] = {
    "_cuda_synchronize": Family.SYNC,
    "synchronize": Family.SYNC,
}

_VERSION = re.compile(r"(_v\d+)?(_ptsz|_ptds)?(_v\d+)?$")


@lru_cache(maxsize=4096)
def family(api: str) -> Family:
    """The family of an API name, `Family.OTHER` where it matters to no capture or is not known."""
    if api.startswith("cu"):
        name = base_name(api)
        exact = _EXACT.get(name)
        if exact is not None:
            return exact
        return next((found for prefix, found in _PREFIXES if name.startswith(prefix)), Family.OTHER)
    return _torch_family(api)


def base_name(api: str) -> str:
    """The name without what tells versions and per-thread variants apart: `cuMemAlloc_v2` → `cuMemAlloc`."""
    return _VERSION.sub("", api)


def _torch_family(api: str) -> Family:
    owner, _, method = api.rpartition(".")
    if not owner.startswith("torch"):
        return Family.OTHER
    cls = owner.rpartition(".")[2].lower()
    for word in ("stream", "event", "graph"):
        if word in cls:
            return _TORCH_METHODS.get((word, method), Family.OTHER)
    return _TORCH_FUNCTIONS.get(method, Family.OTHER)


WORK = frozenset({Family.LAUNCH, Family.COPY, Family.MEMSET, Family.HOST_FUNC})
"""Calls that give a stream something to do: a node where it captures, else done at once."""

NODES = WORK | {Family.ASYNC_ALLOC, Family.ASYNC_FREE, Family.GRAPH_LAUNCH}
"""Calls that become nodes of the graph when their stream captures."""

EXACT_LAYERS = frozenset({"driver", "bindings", "sim"})
"""Layers of `call` records that see one CUDA call, not a library function that may make several."""
