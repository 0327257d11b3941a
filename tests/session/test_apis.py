import pytest

from cudagraph_doctor.session.apis import Family, base_name, family


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ("cudaMalloc", "alloc"),
        ("cuMemAlloc_v2", "alloc"),
        ("cuMemAllocPitch_v2", "alloc"),
        ("cuMemAllocManaged", "alloc"),
        ("cuMemAllocAsync_ptsz", "async-alloc"),
        ("cudaFree", "free"),
        ("cuMemFree_v2", "free"),
        ("cuMemFreeHost", "host-free"),
        ("cuMemHostAlloc", "host-alloc"),
        ("cuMemAllocHost_v2", "host-alloc"),
        ("cuMemHostRegister_v2", "host-register"),
        ("cuCtxSynchronize_v2", "sync"),
        ("cudaStreamSynchronize_ptsz", "sync"),
        ("torch.cuda.synchronize", "sync"),
        ("torch._C._cuda_synchronize", "sync"),
        ("torch.cuda.Stream.synchronize", "sync"),
        ("torch._C._CudaStreamBase.query", "query"),
        ("cuStreamQuery", "query"),
        ("cuEventQuery", "event-query"),
        ("cuEventElapsedTime_v2", "event-sync"),
        ("torch.cuda.Event.elapsed_time", "event-sync"),
        ("torch.cuda.Event.record", "record"),
        ("torch.cuda.streams.Event.record", "record"),
        ("cudaEventRecordWithFlags", "record"),
        ("cuStreamWaitEvent_ptsz", "wait"),
        ("torch.cuda.Stream.wait_stream", "wait"),
        ("torch.cuda.Event.wait", "wait"),
        ("cuLaunchKernelEx_ptsz", "launch"),
        ("cuLaunchCooperativeKernel", "launch"),
        ("cuLaunchHostFunc", "host-func"),
        ("cudaMemcpyAsync", "copy"),
        ("cuMemcpyDtoDAsync_v2_ptsz", "copy"),
        ("cuMemsetD8Async", "memset"),
        ("cuStreamBeginCapture_v2_ptsz", "begin"),
        ("cudaStreamEndCapture", "end"),
        ("torch.cuda.CUDAGraph.capture_begin", "begin"),
        ("torch.cuda.CUDAGraph.replay", "graph-launch"),
        ("cuStreamGetCaptureInfo_v3", "capture-query"),
        ("cuGraphInstantiateWithParams_ptsz", "instantiate"),
        ("cuGraphLaunch_ptsz", "graph-launch"),
        ("cuGraphExecUpdate_v2", "update"),
        ("cuGraphExecKernelNodeSetParams_v2", "update"),
        ("cuGraphExecDestroy", "graph-destroy"),
        ("cuModuleLoadDataEx", "module-load"),
        ("cuLibraryUnload", "module-unload"),
        ("cuMemPoolTrimTo", "mempool"),
        ("cudaMemPoolCreate", "mempool"),
        ("cuThreadExchangeStreamCaptureMode", "exchange-mode"),
        ("cuCtxCreate_v4", "context"),
        ("cuDevicePrimaryCtxReset_v2", "context"),
        ("cuMemAddressReserve", "virtual-memory"),
        ("cudaGetLastError", "other"),
        ("", "other"),
        ("numpy.synchronize", "other"),
        ("torch.foo.query", "other"),
    ],
)
def test_every_spelling_has_one_family(api, expected):
    assert family(api).value == expected


def test_the_base_name_has_no_version_and_no_per_thread_suffix():
    assert base_name("cuMemcpyDtoDAsync_v2_ptsz") == "cuMemcpyDtoDAsync"
    assert base_name("cudaMalloc3D") == "cudaMalloc3D"


def test_families_are_a_closed_set_of_distinct_names():
    assert len({member.value for member in Family}) == len(Family)
