/* libcuda.so, as far as the tests use it. One lock keeps it simple; it is never held while a callback runs, as in the
 * driver (the probe asks for capture status from its callbacks). */
#define _GNU_SOURCE
#include "stub.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NONE, ACTIVE, INVALIDATED };
enum { STREAMS = 256, GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };

struct stub_stream {
    int used, status, mode, owner;
    uint64_t id, nodes;
    void *last;
};

static struct stub_stream streams[STREAMS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t captures, addresses = 0x7f0000000000;
static void (*log_callback)(void *, int, char *, size_t);
static void *log_user;

static void unlock_in_child(void)
{
    pthread_mutex_init(&lock, NULL); /* another thread may have held it when this one forked */
}

__attribute__((constructor)) static void watch_fork(void)
{
    pthread_atfork(NULL, NULL, unlock_in_child);
}

static int thread(void)
{
    return (int)syscall(SYS_gettid);
}

static _Thread_local const char *refused; /* told after the exit callback, as the driver does */

static void say(const char *reason, int code, const char *api)
{
    char text[200];
    if (log_callback == NULL)
        return;
    snprintf(text, sizeof text, "%s", reason);
    log_callback(log_user, 0, text, strlen(text));
    snprintf(text, sizeof text, "Returning %d (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from %s", code, api);
    log_callback(log_user, 0, text, strlen(text));
}

/* An unsafe call: refused while this thread captures (not relaxed), or any thread captures globally. */
static int unsafe(const char *api)
{
    int code = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < STREAMS; i++) {
        struct stub_stream *s = &streams[i];
        if (s->status != ACTIVE || s->mode == RELAXED || (s->mode == THREAD_LOCAL && s->owner != thread()))
            continue;
        s->status = INVALIDATED;
        code = 900;
    }
    pthread_mutex_unlock(&lock);
    if (code != 0)
        refused = api;
    return code;
}

static int work(CUstream stream)
{
    int code = 0;
    pthread_mutex_lock(&lock);
    if (stream != NULL && stream->status == INVALIDATED) {
        code = 901;
    } else if (stream != NULL && stream->status == ACTIVE) {
        stream->nodes++;
        stream->last = (void *)(uintptr_t)(stream->id << 20 | stream->nodes);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static int returning(int result)
{
    if (refused != NULL)
        say("Operation not permitted while a stream is capturing", result, refused);
    refused = NULL;
    return result;
}

#define CALL(id, parameters, symbol, body)                                                                             \
    do {                                                                                                               \
        uint32_t correlation = stub_enter(STUB_##id, parameters, symbol);                                              \
        int result = (body);                                                                                           \
        stub_exit(STUB_##id, parameters, symbol, correlation, &result);                                                \
        return returning(result);                                                                                      \
    } while (0)

int cuDriverGetVersion(int *version)
{
    struct {
        int *version;
    } params = {version};
    CALL(cuDriverGetVersion, &params, NULL, (*version = 13000, 0));
}

int cuCtxGetDevice(int *device)
{
    *device = 0;
    return 0;
}

int cuCtxGetCurrent(void **context)
{
    *context = &lock;
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    (void)context;
    return 0;
}

atomic_int stub_questions; /* how often the capture status of a stream was asked for */

int cuStreamIsCapturing(CUstream stream, int *status)
{
    atomic_fetch_add(&stub_questions, 1);
    pthread_mutex_lock(&lock);
    *status = stream->status;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, void **graph, void *const **deps,
                              size_t *count)
{
    (void)graph;
    atomic_fetch_add(&stub_questions, 1);
    pthread_mutex_lock(&lock);
    *status = stream->status;
    *id = stream->id;
    *deps = &stream->last;
    *count = stream->last != NULL;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int begin(CUstream stream, int mode)
{
    int code = 0;
    pthread_mutex_lock(&lock);
    if (stream == NULL) {
        code = 900;
    } else if (stream->status != NONE) {
        code = 401;
    } else {
        *stream = (struct stub_stream){.used = 1, .status = ACTIVE, .mode = mode, .owner = thread(), .id = ++captures};
    }
    pthread_mutex_unlock(&lock);
    return code;
}

int cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    struct {
        CUstream stream;
        int mode;
    } params = {stream, mode};
    CALL(cuStreamBeginCapture_v2, &params, NULL, begin(stream, mode));
}

static int end(CUstream stream, void **graph)
{
    int code = 0;
    pthread_mutex_lock(&lock);
    if (stream->status == NONE) {
        code = 401;
    } else if (stream->mode != RELAXED && stream->owner != thread()) {
        code = 908;
    } else {
        code = stream->status == INVALIDATED ? 901 : 0;
        *graph = code == 0 ? (void *)(uintptr_t)(0x1000 + stream->id) : NULL;
        stream->status = NONE;
        stream->last = NULL;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

int cuStreamEndCapture(CUstream stream, void **graph)
{
    struct {
        CUstream stream;
        void **graph;
    } params = {stream, graph};
    CALL(cuStreamEndCapture, &params, NULL, end(stream, graph));
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, CUstream stream, void **kernel_params, void **extra)
{
    struct {
        void *function;
        unsigned gx, gy, gz, bx, by, bz, shared;
        CUstream stream;
        void **params, **extra;
    } params = {function, gx, gy, gz, bx, by, bz, shared, stream, kernel_params, extra};
    CALL(cuLaunchKernel, &params, "_Z6kernelPf", work(stream));
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, CUstream stream)
{
    struct {
        uint64_t to;
        const void *from;
        size_t bytes;
        CUstream stream;
    } params = {to, from, bytes, stream};
    CALL(cuMemcpyHtoDAsync_v2, &params, NULL, work(stream));
}

static int allocate(uint64_t *pointer, size_t bytes)
{
    int code = unsafe("cuMemAlloc_v2");
    if (code == 0)
        *pointer = __atomic_fetch_add(&addresses, bytes, __ATOMIC_RELAXED);
    return code;
}

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    struct {
        uint64_t *pointer;
        size_t bytes;
    } params = {pointer, bytes};
    CALL(cuMemAlloc_v2, &params, NULL, allocate(pointer, bytes));
}

int cuMemFree_v2(uint64_t pointer)
{
    struct {
        uint64_t pointer;
    } params = {pointer};
    CALL(cuMemFree_v2, &params, NULL, unsafe("cuMemFree_v2"));
}

int cuStreamSynchronize(CUstream stream)
{
    struct {
        CUstream stream;
    } params = {stream};
    CALL(cuStreamSynchronize, &params, NULL, unsafe("cuStreamSynchronize"));
}

static int create(CUstream *stream)
{
    int code = 2;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < STREAMS && code != 0; i++)
        if (!streams[i].used) {
            streams[i] = (struct stub_stream){.used = 1};
            *stream = &streams[i];
            code = 0;
        }
    pthread_mutex_unlock(&lock);
    return code;
}

int cuStreamCreate(CUstream *stream, unsigned flags)
{
    struct {
        CUstream *stream;
        unsigned flags;
    } params = {stream, flags};
    CALL(cuStreamCreate, &params, NULL, create(stream));
}

static int destroy(CUstream stream)
{
    pthread_mutex_lock(&lock);
    *stream = (struct stub_stream){0};
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuStreamDestroy_v2(CUstream stream)
{
    struct {
        CUstream stream;
    } params = {stream};
    CALL(cuStreamDestroy_v2, &params, NULL, destroy(stream));
}

int cuEventQuery(void *event)
{
    struct {
        void *event;
    } params = {event};
    CALL(cuEventQuery, &params, NULL, unsafe("cuEventQuery"));
}

int cuGraphLaunch(void *exec, CUstream stream)
{
    struct {
        void *exec;
        CUstream stream;
    } params = {exec, stream};
    CALL(cuGraphLaunch, &params, NULL, exec == NULL ? 400 : work(stream));
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    struct {
        void **exec;
        void *graph;
        unsigned long long flags;
    } params = {exec, graph, flags};
    CALL(cuGraphInstantiateWithFlags, &params, NULL, (*exec = (char *)graph + 0x100000, 0));
}

int cuModuleLoadData(void **module, const void *image)
{
    struct {
        void **module;
        const void *image;
    } params = {module, image};
    CALL(cuModuleLoadData, &params, NULL, (*module = (void *)0x3000, 0));
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    struct {
        void **function;
        void *module;
        const char *name;
    } params = {function, module, name};
    CALL(cuModuleGetFunction, &params, NULL, (*function = (char *)module + 8, 0));
}

int cuModuleGetFunctionCount(unsigned *count, void *module)
{
    *count = module != NULL ? 2 : 0;
    return 0;
}

int cuModuleEnumerateFunctions(void **functions, unsigned count, void *module)
{
    for (unsigned i = 0; i < count; i++)
        functions[i] = (char *)module + 8 * (i + 1);
    return 0;
}

int cuModuleUnload(void *module)
{
    struct {
        void *module;
    } params = {module};
    CALL(cuModuleUnload, &params, NULL, unsafe("cuModuleUnload"));
}

int cuLogsRegisterCallback(void (*callback)(void *, int, char *, size_t), void *user, void **handle)
{
    log_callback = callback;
    log_user = user;
    *handle = &log_user;
    return 0;
}

int cuLogsUnregisterCallback(void *handle)
{
    (void)handle;
    log_callback = NULL;
    return 0;
}
