/* The part of the CUDA driver API that the probe calls, resolved from the libcuda that the target has mapped.
 *
 * All of it is legal in every capture state (shared measurement: docs/native-probe.md, "What a callback may call"). */
#ifndef CGD_DRIVER_H
#define CGD_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef void *stream_handle; /* CUstream */

/* CUstreamCaptureStatus */
enum { STATUS_NONE = 0, STATUS_ACTIVE = 1, STATUS_INVALIDATED = 2, STATUS_UNKNOWN = -1 };

/* Codes (CUresult) that the probe tells apart. */
enum {
    CODE_SUCCESS = 0,
    CODE_CAPTURE_INVALIDATED = 901, /* a consequence, never a cause */
    CODE_CAPTURE_UNMATCHED = 903,   /* the end was asked for on another stream: the capture goes on */
    CODE_CAPTURE_WRONG_THREAD = 908 /* the end was asked for by another thread: the capture goes on */
};

#define STREAM_LEGACY     ((stream_handle)1)
#define STREAM_PER_THREAD ((stream_handle)2)

typedef void (*driver_log_callback)(void *user, int level, char *message, size_t length);

struct driver {
    int (*driver_get_version)(int *version);
    int (*is_capturing)(stream_handle stream, int *status);
    int (*capture_info_v2)(stream_handle, int *status, uint64_t *id, void **graph, void *const **deps, size_t *count);
    int (*capture_info_v3)(stream_handle, int *status, uint64_t *id, void **graph, void *const **deps,
                           const void **edges, size_t *count);
    int (*ctx_get_device)(int *device);
    int (*module_function_count)(unsigned *count, void *module); /* these four since 12.4 */
    int (*module_functions)(void **functions, unsigned count, void *module);
    int (*library_kernel_count)(unsigned *count, void *library);
    int (*library_kernels)(void **kernels, unsigned count, void *library);
    int (*logs_register)(driver_log_callback callback, void *user, void **handle); /* since 12.9 */
    int (*logs_unregister)(void *handle);
};

extern struct driver driver;

/* Both need a current context. */

/* Status of a stream's capture, STATUS_UNKNOWN where the driver does not tell. */
int driver_status(stream_handle stream);

/* Id of the capture that a stream belongs to (0: none) and the last node it captured (NULL: unknown). */
uint64_t driver_capture(stream_handle stream, int *status, void **node);

#endif
