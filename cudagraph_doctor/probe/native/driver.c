/* Questions to the driver that are safe in every capture state. */
#include "driver.h"

struct driver driver;

int driver_status(stream_handle stream)
{
    int status = STATUS_UNKNOWN;
    if (stream == NULL || stream == STREAM_LEGACY)
        return STATUS_NONE; /* the legacy stream cannot capture; asking it beside a blocking capture gives 906 */
    if (driver.is_capturing(stream, &status) != CODE_SUCCESS)
        return STATUS_UNKNOWN;
    return status;
}

uint64_t driver_capture(stream_handle stream, int *status, void **node)
{
    uint64_t id = 0;
    void *graph = NULL;
    void *const *dependencies = NULL;
    const void *edges = NULL;
    size_t count = 0;
    int code;

    *status = STATUS_UNKNOWN;
    *node = NULL;
    if (stream == NULL || stream == STREAM_LEGACY) {
        *status = STATUS_NONE;
        return 0;
    }
    if (driver.capture_info_v3 != NULL)
        code = driver.capture_info_v3(stream, status, &id, &graph, &dependencies, &edges, &count);
    else
        code = driver.capture_info_v2(stream, status, &id, &graph, &dependencies, &count);
    if (code != CODE_SUCCESS) {
        *status = driver_status(stream);
        return 0;
    }
    if (*status != STATUS_ACTIVE)
        return *status == STATUS_INVALIDATED ? id : 0;
    if (count != 0 && dependencies != NULL)
        *node = dependencies[count - 1]; /* what the next captured call would depend on: the node just made */
    return id;
}
