/* A stand-in for libcupti and libcuda, for machines without a GPU: the few calls that the tests make, with stream
 * capture as the driver does it for the rules that matter here, and callbacks at entry and exit as CUPTI delivers them.
 */
#ifndef STUB_H
#define STUB_H

#include <stddef.h>
#include <stdint.h>

typedef struct stub_stream *CUstream;

/* name of the call (as CUPTI says it) and its arguments */
#define STUB_CALLS(X)                                                                                                  \
    X(cuDriverGetVersion)                                                                                              \
    X(cuStreamBeginCapture_v2)                                                                                         \
    X(cuStreamEndCapture)                                                                                              \
    X(cuLaunchKernel)                                                                                                  \
    X(cuMemcpyHtoDAsync_v2)                                                                                            \
    X(cuMemAlloc_v2)                                                                                                   \
    X(cuMemFree_v2)                                                                                                    \
    X(cuStreamSynchronize)                                                                                             \
    X(cuStreamCreate)                                                                                                  \
    X(cuStreamDestroy_v2)                                                                                              \
    X(cuEventQuery)                                                                                                    \
    X(cuGraphLaunch)                                                                                                   \
    X(cuGraphInstantiateWithFlags)                                                                                     \
    X(cuModuleLoadData)                                                                                                \
    X(cuModuleGetFunction)                                                                                             \
    X(cuModuleUnload)

enum {
    STUB_NONE,
#define X(name) STUB_##name,
    STUB_CALLS(X)
#undef X
        STUB_COUNT
};

/* libcupti's side: what the driver tells it. Returns a correlation id. */
uint32_t stub_enter(int id, const void *params, const char *symbol);
void stub_exit(int id, const void *params, const char *symbol, uint32_t correlation, int *result);

int cuDriverGetVersion(int *version);
int cuCtxGetDevice(int *device);
int cuCtxGetCurrent(void **context);
int cuCtxSetCurrent(void *context);
int cuStreamIsCapturing(CUstream stream, int *status);
int cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, void **graph, void *const **deps,
                              size_t *count);
int cuStreamBeginCapture_v2(CUstream stream, int mode);
int cuStreamEndCapture(CUstream stream, void **graph);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, CUstream stream, void **params, void **extra);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, CUstream stream);
int cuMemAlloc_v2(uint64_t *pointer, size_t bytes);
int cuMemFree_v2(uint64_t pointer);
int cuStreamSynchronize(CUstream stream);
int cuStreamCreate(CUstream *stream, unsigned flags);
int cuStreamDestroy_v2(CUstream stream);
int cuEventQuery(void *event);
int cuGraphLaunch(void *exec, CUstream stream);
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuModuleUnload(void *module);
int cuModuleGetFunctionCount(unsigned *count, void *module);
int cuModuleEnumerateFunctions(void **functions, unsigned count, void *module);
int cuLogsRegisterCallback(void (*callback)(void *, int, char *, size_t), void *user, void **handle);
int cuLogsUnregisterCallback(void *handle);

#endif
