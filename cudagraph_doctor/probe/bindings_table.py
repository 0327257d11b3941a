"""The calls of cuda-bindings that are watched: which argument is what. Positions are the same in releases 12 and 13."""

from __future__ import annotations

OUTSIDE = "outside"
"""Recorded outside capture windows too: rare calls on which later findings lean."""
HANGS = "hangs"
"""May not return: its intention is written first."""


class Spec:
    """Where a call's arguments stand; None where it has no such argument."""

    __slots__ = ("event", "flags", "ptr", "size", "stream")

    def __init__(
        self,
        *flags: str,
        stream: int | None = None,
        event: int | None = None,
        size: int | None = None,
        ptr: int | None = None,
    ) -> None:
        self.flags = frozenset(flags)
        self.stream = stream
        self.event = event
        self.size = size
        self.ptr = ptr


RUNTIME: dict[str, Spec] = {
    # memory
    "cudaMalloc": Spec(size=0),
    "cudaMallocManaged": Spec(size=0),
    "cudaMallocHost": Spec(size=0),
    "cudaHostAlloc": Spec(size=0),
    "cudaMallocPitch": Spec(size=0),
    "cudaMallocAsync": Spec(size=0, stream=1),
    "cudaMallocFromPoolAsync": Spec(size=0, stream=2),
    "cudaFree": Spec(ptr=0),
    "cudaFreeHost": Spec(ptr=0),
    "cudaFreeAsync": Spec(ptr=0, stream=1),
    "cudaHostRegister": Spec(ptr=0, size=1),
    "cudaHostUnregister": Spec(ptr=0),
    "cudaMemPoolTrimTo": Spec(size=1),
    "cudaMemPoolDestroy": Spec(),
    "cudaMemPrefetchAsync": Spec(ptr=0, size=1),
    # copies
    "cudaMemcpy": Spec(HANGS, ptr=0, size=2),
    "cudaMemcpyAsync": Spec(ptr=0, size=2, stream=4),
    "cudaMemcpy2DAsync": Spec(ptr=0, stream=7),
    "cudaMemcpy3DAsync": Spec(stream=1),
    "cudaMemcpyPeerAsync": Spec(ptr=0, size=4, stream=5),
    "cudaMemset": Spec(HANGS, ptr=0, size=2),
    "cudaMemsetAsync": Spec(ptr=0, size=2, stream=3),
    # streams and events
    "cudaStreamCreate": Spec(OUTSIDE),
    "cudaStreamCreateWithFlags": Spec(OUTSIDE),
    "cudaStreamCreateWithPriority": Spec(OUTSIDE),
    "cudaStreamDestroy": Spec(OUTSIDE, stream=0),
    "cudaStreamSynchronize": Spec(HANGS, stream=0),
    "cudaStreamQuery": Spec(stream=0),
    "cudaStreamWaitEvent": Spec(stream=0, event=1),
    "cudaLaunchHostFunc": Spec(stream=0),
    "cudaStreamAddCallback": Spec(stream=0),
    "cudaStreamAttachMemAsync": Spec(stream=0, ptr=1),
    "cudaEventRecord": Spec(event=0, stream=1),
    "cudaEventRecordWithFlags": Spec(event=0, stream=1),
    "cudaEventSynchronize": Spec(HANGS, event=0),
    "cudaEventQuery": Spec(event=0),
    "cudaEventElapsedTime": Spec(event=0),
    "cudaEventDestroy": Spec(event=0),
    # device
    "cudaDeviceSynchronize": Spec(HANGS),
    "cudaDeviceReset": Spec(OUTSIDE, HANGS),
    "cudaSetDevice": Spec(),
    "cudaProfilerStart": Spec(),
    "cudaProfilerStop": Spec(),
    # modules
    "cudaLibraryLoadData": Spec(OUTSIDE),
    "cudaLibraryUnload": Spec(OUTSIDE, ptr=0),
    # graphs
    "cudaGraphDestroy": Spec(OUTSIDE),
    "cudaGraphUpload": Spec(stream=1),
}

DRIVER: dict[str, Spec] = {
    # memory
    "cuMemAlloc": Spec(size=0),
    "cuMemAllocManaged": Spec(size=0),
    "cuMemAllocHost": Spec(size=0),
    "cuMemHostAlloc": Spec(size=0),
    "cuMemAllocPitch": Spec(size=0),
    "cuMemAllocAsync": Spec(size=0, stream=1),
    "cuMemAllocFromPoolAsync": Spec(size=0, stream=2),
    "cuMemFree": Spec(ptr=0),
    "cuMemFreeHost": Spec(ptr=0),
    "cuMemFreeAsync": Spec(ptr=0, stream=1),
    "cuMemHostRegister": Spec(ptr=0, size=1),
    "cuMemHostUnregister": Spec(ptr=0),
    "cuMemPoolTrimTo": Spec(size=1),
    "cuMemPoolDestroy": Spec(),
    # copies
    "cuMemcpy": Spec(HANGS, ptr=0, size=2),
    "cuMemcpyAsync": Spec(ptr=0, size=2, stream=3),
    "cuMemcpyHtoD": Spec(HANGS, ptr=0, size=2),
    "cuMemcpyDtoH": Spec(HANGS, ptr=1, size=2),
    "cuMemcpyDtoD": Spec(HANGS, ptr=0, size=2),
    "cuMemcpyHtoDAsync": Spec(ptr=0, size=2, stream=3),
    "cuMemcpyDtoHAsync": Spec(ptr=1, size=2, stream=3),
    "cuMemcpyDtoDAsync": Spec(ptr=0, size=2, stream=3),
    "cuMemsetD8": Spec(HANGS, ptr=0, size=2),
    "cuMemsetD32": Spec(HANGS, ptr=0),
    "cuMemsetD8Async": Spec(ptr=0, size=2, stream=3),
    "cuMemsetD32Async": Spec(ptr=0, stream=3),
    # streams and events
    "cuStreamCreate": Spec(OUTSIDE),
    "cuStreamCreateWithPriority": Spec(OUTSIDE),
    "cuStreamDestroy": Spec(OUTSIDE, stream=0),
    "cuStreamSynchronize": Spec(HANGS, stream=0),
    "cuStreamQuery": Spec(stream=0),
    "cuStreamWaitEvent": Spec(stream=0, event=1),
    "cuLaunchHostFunc": Spec(stream=0),
    "cuStreamWaitValue32": Spec(stream=0),
    "cuStreamWriteValue32": Spec(stream=0),
    "cuEventRecord": Spec(event=0, stream=1),
    "cuEventRecordWithFlags": Spec(event=0, stream=1),
    "cuEventSynchronize": Spec(HANGS, event=0),
    "cuEventQuery": Spec(event=0),
    "cuEventElapsedTime": Spec(event=0),
    "cuEventDestroy": Spec(event=0),
    # contexts
    "cuCtxCreate": Spec(OUTSIDE),
    "cuCtxDestroy": Spec(OUTSIDE),
    "cuCtxSetCurrent": Spec(OUTSIDE),
    "cuCtxPushCurrent": Spec(OUTSIDE),
    "cuCtxPopCurrent": Spec(OUTSIDE),
    "cuCtxSynchronize": Spec(HANGS),
    "cuDevicePrimaryCtxRelease": Spec(OUTSIDE),
    "cuDevicePrimaryCtxReset": Spec(OUTSIDE),
    "cuProfilerStart": Spec(),
    "cuProfilerStop": Spec(),
    # modules
    "cuModuleLoad": Spec(OUTSIDE),
    "cuModuleLoadData": Spec(OUTSIDE),
    "cuModuleLoadDataEx": Spec(OUTSIDE),
    "cuModuleUnload": Spec(OUTSIDE, ptr=0),
    "cuLibraryLoadData": Spec(OUTSIDE),
    "cuLibraryLoadFromFile": Spec(OUTSIDE),
    "cuLibraryUnload": Spec(OUTSIDE, ptr=0),
    # launches
    "cuLaunchKernel": Spec(HANGS, stream=8),
    "cuLaunchKernelEx": Spec(HANGS),
    "cuLaunchCooperativeKernel": Spec(HANGS, stream=8),
    # graphs
    "cuGraphDestroy": Spec(OUTSIDE),
    "cuGraphUpload": Spec(stream=1),
}

BEGIN = {
    "cudaStreamBeginCapture": 1,
    "cudaStreamBeginCaptureToGraph": 5,
    "cuStreamBeginCapture": 1,
    "cuStreamBeginCaptureToGraph": 5,
}
"""Calls that begin a capture on their first argument, and the position of the mode."""
END = ("cudaStreamEndCapture", "cuStreamEndCapture")
EXCHANGE = ("cudaThreadExchangeStreamCaptureMode", "cuThreadExchangeStreamCaptureMode")
INSTANTIATE = (
    "cudaGraphInstantiate", "cudaGraphInstantiateWithFlags", "cudaGraphInstantiateWithParams",
    "cuGraphInstantiate", "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams",
)  # fmt: skip
UPDATE = ("cudaGraphExecUpdate", "cuGraphExecUpdate")
EXEC_DESTROY = ("cudaGraphExecDestroy", "cuGraphExecDestroy")
LAUNCH = ("cudaGraphLaunch", "cuGraphLaunch")
"""Launch the executable graph that is the first argument on the stream that is the second."""
NAMED = ("cuModuleGetFunction", "cuLibraryGetKernel")
"""Give a handle for the kernel whose name is the second argument."""
KERNEL_OF = ("cuKernelGetFunction",)
"""Give another handle for the kernel that is the first argument."""
