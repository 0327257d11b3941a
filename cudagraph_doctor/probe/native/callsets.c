/* The two sets of watched calls, by name. A name's longest matching prefix decides, so that a new version of a call
 * (cuMemcpyAsync_v2, say) is watched before anybody adds it to layouts.c. */
#include <string.h>

#include "calls.h"
#include "cupti.h"
#include "layouts.h"

struct rule {
    const char *prefix;
    uint8_t set;
    uint16_t roles;
};

static const struct rule rules[] = {
    /* captures and graphs */
    {"cuStreamBeginCapture", ALWAYS, OPENS | STACKED},
    {"cuStreamBeginRecapture", ALWAYS, OPENS | STACKED},
    {"cuStreamEndCapture", ALWAYS, ENDS | INTENDS | STACKED},
    {"cuGraphInstantiate", ALWAYS, INTENDS | STACKED},
    {"cuGraphLaunch", WINDOW, WORKS}, /* replays outside of captures are counted by the hook of torch's graph class */
    {"cuGraphUpload", WINDOW, 0},
    {"cuGraphExecUpdate", ALWAYS, STACKED},
    {"cuGraphExecDestroy", ALWAYS, STACKED},
    {"cuGraphDestroy", ALWAYS, STACKED},
    {"cuGraphDestroyNode", UNWATCHED, 0},
    /* driver allocations */
    {"cuMemAlloc", ALWAYS, 0},
    {"cuMemFree", ALWAYS, STACKED},
    {"cuMemCreate", ALWAYS, 0},
    {"cuMemMap", ALWAYS, 0},
    {"cuMemUnmap", ALWAYS, STACKED},
    {"cuMemRelease", ALWAYS, 0},
    {"cuMemAllocAsync", WINDOW, WORKS},
    {"cuMemAllocFromPoolAsync", WINDOW, WORKS},
    {"cuMemFreeAsync", WINDOW, WORKS},
    {"cuMemAllocHost", WINDOW, 0},
    {"cuMemFreeHost", WINDOW, 0},
    {"cuMemMapArrayAsync", WINDOW, 0},
    {"cuMemHostAlloc", WINDOW, 0},
    {"cuMemHostRegister", WINDOW, 0},
    {"cuMemHostUnregister", WINDOW, 0},
    {"cuMemPoolCreate", WINDOW, 0},
    {"cuMemPoolDestroy", WINDOW, 0},
    {"cuMemPoolTrimTo", WINDOW, 0},
    {"cuDeviceGraphMemTrim", WINDOW, 0},
    {"cuArrayCreate", WINDOW, 0},
    {"cuArrayDestroy", WINDOW, 0},
    {"cuIpc", WINDOW, 0},
    /* modules, libraries, linking */
    {"cuModuleLoad", ALWAYS, INTENDS},
    {"cuModuleUnload", ALWAYS, STACKED | UNLOADS},
    {"cuLibraryLoad", ALWAYS, INTENDS},
    {"cuLibraryUnload", ALWAYS, STACKED | UNLOADS},
    {"cuLinkCreate", WINDOW, 0},
    {"cuLinkComplete", WINDOW, 0},
    {"cuModuleGetFunction", WINDOW, NAMES},
    {"cuModuleGetFunctionCount", UNWATCHED, 0},
    {"cuLibraryGetKernel", WINDOW, NAMES},
    {"cuLibraryGetKernelCount", UNWATCHED, 0},
    {"cuLibraryGetModule", WINDOW, 0},
    {"cuKernelGetFunction", WINDOW, NAMES},
    {"cuFuncLoad", WINDOW, 0},
    /* contexts */
    {"cuCtxCreate", ALWAYS, STACKED},
    {"cuCtxDestroy", ALWAYS, STACKED},
    {"cuGreenCtxCreate", ALWAYS, STACKED},
    {"cuGreenCtxDestroy", ALWAYS, STACKED},
    {"cuDevicePrimaryCtxRelease", ALWAYS, STACKED},
    {"cuDevicePrimaryCtxReset", ALWAYS, STACKED},
    /* work */
    {"cuLaunch", WINDOW, LAUNCHES | WORKS},
    {"cuLaunchHostFunc", WINDOW, WORKS},
    {"cuStreamAddCallback", WINDOW, WORKS},
    {"cuMemcpy", WINDOW, WORKS},
    {"cuMemset", WINDOW, WORKS},
    {"cuMemPrefetch", WINDOW, WORKS},
    {"cuStreamWriteValue", WINDOW, WORKS},
    {"cuStreamWaitValue", WINDOW, WORKS},
    {"cuStreamBatchMemOp", WINDOW, WORKS},
    {"cuStreamAttachMemAsync", WINDOW, 0},
    /* waiting, asking, ordering */
    {"cuCtxSynchronize", ALWAYS,
     INTENDS | INSIDE}, /* their exit must be seen, though the window may close meanwhile: */
    {"cuStreamSynchronize", ALWAYS, INTENDS | INSIDE}, /* an intention without an outcome tells of a hanging call */
    {"cuEventSynchronize", ALWAYS, INTENDS | INSIDE},
    {"cuStreamQuery", WINDOW, 0},
    {"cuEventQuery", WINDOW, 0},
    {"cuEventElapsedTime", WINDOW, 0},
    {"cuEventRecord", WINDOW, 0},
    {"cuCtxRecordEvent", WINDOW, 0},
    {"cuStreamWaitEvent", WINDOW, 0},
    {"cuCtxWaitEvent", WINDOW, 0},
    {"cuStreamUpdateCaptureDependencies", WINDOW, 0},
    {"cuThreadExchangeStreamCaptureMode", WINDOW, MODES},
    /* birth and death */
    {"cuStreamCreate", WINDOW, 0},
    {"cuStreamDestroy", WINDOW, KILLS_STREAM},
    {"cuEventDestroy", WINDOW, 0},
    {"cuProfilerStart", WINDOW, 0},
    {"cuProfilerStop", WINDOW, 0},
    {"cuCtxSetLimit", WINDOW, 0},
};

struct call calls[CALLS];

static const struct rule *rule_of(const char *name)
{
    const struct rule *best = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        size_t length = strlen(rules[i].prefix);
        if (length > longest && strncmp(name, rules[i].prefix, length) == 0) {
            best = &rules[i];
            longest = length;
        }
    }
    return best;
}

int calls_collect(int (*get_callback_name)(int domain, uint32_t id, const char **name))
{
    int watched = 0;
    for (uint32_t id = 1; id < CALLS; id++) {
        const char *name = NULL;
        calls[id] = (struct call){0};
        if (get_callback_name(CUPTI_DOMAIN_DRIVER_API, id, &name) != CUPTI_SUCCESS || name == NULL)
            continue;
        const struct rule *rule = rule_of(name);
        if (rule == NULL || rule->set == UNWATCHED)
            continue;
        size_t length = strlen(name);
        bool per_thread =
            length > 5 && (strcmp(name + length - 5, "_ptsz") == 0 || strcmp(name + length - 5, "_ptds") == 0);
        calls[id] = (struct call){
            .name = name,
            .layout = layout_of(name, per_thread ? length - 5 : length),
            .roles = rule->roles,
            .set = rule->set,
            .per_thread = per_thread,
        };
        watched++;
    }
    return watched;
}
