/* Where the arguments of the watched calls lie: the order of the parameters in cuda.h (12.0 to 13.x), each at its
 * natural alignment. Nearly every one is a 64-bit word, so places are counted in words; two 32-bit parameters share
 * one. Versions of a call that took 32-bit sizes (before CUDA 3.2) are left out on purpose. */
#include "layouts.h"

#include <string.h>

#define PLACE(n)   ((int16_t)(8 * (n) + 1))
#define NAME(text) .name = (text)
#define STREAM(n)  .stream = PLACE(n)
#define LEGACY     .stream = LEGACY_STREAM
#define SIZE(n)    .size = PLACE(n)
#define AT(n)      .pointer = PLACE(n)
#define FROM(n)    .source = PLACE(n)
#define MAKES(n)   .made = PLACE(n)
#define EVENT(n)   .event = PLACE(n)
#define TEXT(n)    .text = PLACE(n)

static const struct layout table[] = {
    {NAME("cuStreamBeginCapture"), STREAM(0)},
    {NAME("cuStreamBeginCapture_v2"), STREAM(0)},
    {NAME("cuStreamBeginCaptureToGraph"), STREAM(0), AT(1)},
    {NAME("cuStreamBeginRecaptureToGraph"), STREAM(0), AT(2)},
    {NAME("cuStreamEndCapture"), STREAM(0), MAKES(1)},
    {NAME("cuGraphInstantiate"), AT(1), MAKES(0)},
    {NAME("cuGraphInstantiate_v2"), AT(1), MAKES(0)},
    {NAME("cuGraphInstantiateWithFlags"), AT(1), MAKES(0)},
    {NAME("cuGraphInstantiateWithParams"), AT(1), MAKES(0)},
    {NAME("cuGraphLaunch"), AT(0), STREAM(1)},
    {NAME("cuGraphUpload"), AT(0), STREAM(1)},
    {NAME("cuGraphExecUpdate"), AT(0), FROM(1)},
    {NAME("cuGraphExecUpdate_v2"), AT(0), FROM(1)},
    {NAME("cuGraphExecDestroy"), AT(0)},
    {NAME("cuGraphDestroy"), AT(0)},

    {NAME("cuMemAlloc_v2"), MAKES(0), SIZE(1)},
    {NAME("cuMemAllocPitch_v2"), MAKES(0)},
    {NAME("cuMemAllocManaged"), MAKES(0), SIZE(1)},
    {NAME("cuMemAllocAsync"), MAKES(0), SIZE(1), STREAM(2)},
    {NAME("cuMemAllocFromPoolAsync"), MAKES(0), SIZE(1), STREAM(3)},
    {NAME("cuMemAllocHost_v2"), MAKES(0), SIZE(1)},
    {NAME("cuMemHostAlloc"), MAKES(0), SIZE(1)},
    {NAME("cuMemHostAlloc_v2"), MAKES(0), SIZE(1)},
    {NAME("cuMemHostRegister_v2"), AT(0), SIZE(1)},
    {NAME("cuMemHostUnregister"), AT(0)},
    {NAME("cuMemFree_v2"), AT(0)},
    {NAME("cuMemFreeAsync"), AT(0), STREAM(1)},
    {NAME("cuMemFreeHost"), AT(0)},
    {NAME("cuMemCreate"), MAKES(0), SIZE(1)},
    {NAME("cuMemRelease"), AT(0)},
    {NAME("cuMemMap"), AT(0), SIZE(1)},
    {NAME("cuMemUnmap"), AT(0), SIZE(1)},
    {NAME("cuMemPoolCreate"), MAKES(0)},
    {NAME("cuMemPoolDestroy"), AT(0)},
    {NAME("cuMemPoolTrimTo"), AT(0), SIZE(1)},

    {NAME("cuModuleLoad"), MAKES(0)},
    {NAME("cuModuleLoadData"), MAKES(0)},
    {NAME("cuModuleLoadDataEx"), MAKES(0)},
    {NAME("cuModuleLoadFatBinary"), MAKES(0)},
    {NAME("cuModuleUnload"), AT(0)},
    {NAME("cuModuleGetFunction"), AT(1), MAKES(0), TEXT(2)},
    {NAME("cuLibraryLoadData"), MAKES(0)},
    {NAME("cuLibraryLoadFromFile"), MAKES(0)},
    {NAME("cuLibraryUnload"), AT(0)},
    {NAME("cuLibraryGetKernel"), AT(1), MAKES(0), TEXT(2)},
    {NAME("cuLibraryGetModule"), AT(1), MAKES(0)},
    {NAME("cuKernelGetFunction"), AT(1), MAKES(0)},
    {NAME("cuFuncLoad"), AT(0)},

    {NAME("cuCtxCreate_v2"), MAKES(0)},
    {NAME("cuCtxCreate_v3"), MAKES(0)},
    {NAME("cuCtxCreate_v4"), MAKES(0)},
    {NAME("cuCtxDestroy_v2"), AT(0)},

    {NAME("cuLaunchKernel"), AT(0), STREAM(5)},
    {NAME("cuLaunchKernelEx"), AT(1)}, /* its stream is in the configuration: arguments.c */
    {NAME("cuLaunchCooperativeKernel"), AT(0), STREAM(5)},
    {NAME("cuLaunchHostFunc"), STREAM(0), AT(1)},
    {NAME("cuStreamAddCallback"), STREAM(0), AT(1)},

    {NAME("cuMemcpy"), AT(0), FROM(1), SIZE(2), LEGACY},
    {NAME("cuMemcpyAsync"), AT(0), FROM(1), SIZE(2), STREAM(3)},
    {NAME("cuMemcpyPeer"), AT(0), FROM(2), SIZE(4), LEGACY},
    {NAME("cuMemcpyPeerAsync"), AT(0), FROM(2), SIZE(4), STREAM(5)},
    {NAME("cuMemcpyHtoD_v2"), AT(0), FROM(1), SIZE(2), LEGACY},
    {NAME("cuMemcpyHtoDAsync_v2"), AT(0), FROM(1), SIZE(2), STREAM(3)},
    {NAME("cuMemcpyDtoH_v2"), AT(0), FROM(1), SIZE(2), LEGACY},
    {NAME("cuMemcpyDtoHAsync_v2"), AT(0), FROM(1), SIZE(2), STREAM(3)},
    {NAME("cuMemcpyDtoD_v2"), AT(0), FROM(1), SIZE(2), LEGACY},
    {NAME("cuMemcpyDtoDAsync_v2"), AT(0), FROM(1), SIZE(2), STREAM(3)},
    {NAME("cuMemcpyHtoA_v2"), AT(0), FROM(2), SIZE(3), LEGACY},
    {NAME("cuMemcpyHtoAAsync_v2"), AT(0), FROM(2), SIZE(3), STREAM(4)},
    {NAME("cuMemcpyAtoH_v2"), AT(0), FROM(1), SIZE(3), LEGACY},
    {NAME("cuMemcpyAtoHAsync_v2"), AT(0), FROM(1), SIZE(3), STREAM(4)},
    {NAME("cuMemcpy2D_v2"), LEGACY},
    {NAME("cuMemcpy2DUnaligned_v2"), LEGACY},
    {NAME("cuMemcpy2DAsync_v2"), STREAM(1)},
    {NAME("cuMemcpy3D_v2"), LEGACY},
    {NAME("cuMemcpy3DAsync_v2"), STREAM(1)},
    {NAME("cuMemcpy3DPeer"), LEGACY},
    {NAME("cuMemcpy3DPeerAsync"), STREAM(1)},
    {NAME("cuMemcpyBatchAsync"), STREAM(8)},
    {NAME("cuMemcpyBatchAsync_v2"), STREAM(7)},
    {NAME("cuMemcpy3DBatchAsync"), STREAM(4)},
    {NAME("cuMemcpy3DBatchAsync_v2"), STREAM(3)},

    {NAME("cuMemsetD8_v2"), AT(0), LEGACY},
    {NAME("cuMemsetD16_v2"), AT(0), LEGACY},
    {NAME("cuMemsetD32_v2"), AT(0), LEGACY},
    {NAME("cuMemsetD2D8_v2"), AT(0), LEGACY},
    {NAME("cuMemsetD2D16_v2"), AT(0), LEGACY},
    {NAME("cuMemsetD2D32_v2"), AT(0), LEGACY},
    {NAME("cuMemsetD8Async"), AT(0), SIZE(2), STREAM(3)},
    {NAME("cuMemsetD16Async"), AT(0), STREAM(3)},
    {NAME("cuMemsetD32Async"), AT(0), STREAM(3)},
    {NAME("cuMemsetD2D8Async"), AT(0), STREAM(5)},
    {NAME("cuMemsetD2D16Async"), AT(0), STREAM(5)},
    {NAME("cuMemsetD2D32Async"), AT(0), STREAM(5)},
    {NAME("cuMemPrefetchAsync"), AT(0), SIZE(1), STREAM(3)},
    {NAME("cuMemPrefetchAsync_v2"), AT(0), SIZE(1), STREAM(4)},

    {NAME("cuStreamWriteValue32_v2"), STREAM(0), AT(1)},
    {NAME("cuStreamWriteValue64_v2"), STREAM(0), AT(1)},
    {NAME("cuStreamWaitValue32_v2"), STREAM(0), AT(1)},
    {NAME("cuStreamWaitValue64_v2"), STREAM(0), AT(1)},
    {NAME("cuStreamBatchMemOp_v2"), STREAM(0)},
    {NAME("cuStreamAttachMemAsync"), STREAM(0), AT(1)},

    {NAME("cuStreamSynchronize"), STREAM(0)},
    {NAME("cuStreamQuery"), STREAM(0)},
    {NAME("cuStreamDestroy_v2"), STREAM(0)},
    {NAME("cuStreamCreate"), MAKES(0)},
    {NAME("cuStreamCreateWithPriority"), MAKES(0)},
    {NAME("cuStreamUpdateCaptureDependencies"), STREAM(0)},
    {NAME("cuStreamUpdateCaptureDependencies_v2"), STREAM(0)},
    {NAME("cuStreamWaitEvent"), STREAM(0), EVENT(1)},
    {NAME("cuEventRecord"), EVENT(0), STREAM(1)},
    {NAME("cuEventRecordWithFlags"), EVENT(0), STREAM(1)},
    {NAME("cuEventQuery"), EVENT(0)},
    {NAME("cuEventSynchronize"), EVENT(0)},
    {NAME("cuEventDestroy_v2"), EVENT(0)},
    {NAME("cuEventElapsedTime"), EVENT(1)},
    {NAME("cuEventElapsedTime_v2"), EVENT(1)},
};

const struct layout *layout_of(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0)
            return &table[i];
    return NULL;
}
