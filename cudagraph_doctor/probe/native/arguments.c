/* Reads the arguments of a call where layouts.c says they are. */
#include <string.h>

#include "calls.h"

/* CUlaunchConfig */
struct launch_config {
    uint32_t grid[3], block[3], shared;
    stream_handle stream;
};

/* cuLaunchKernel, cuLaunchCooperativeKernel */
struct launch_arguments {
    void *function;
    uint32_t grid[3], block[3], shared;
    stream_handle stream;
};

static uint64_t word(const void *params, int16_t place)
{
    uint64_t value = 0;
    if (place > ABSENT)
        memcpy(&value, (const char *)params + place - 1, sizeof value);
    return value;
}

static void read_launch(const struct call *call, const void *params, struct arguments *arguments)
{
    if (strncmp(call->name, "cuLaunchKernelEx", 16) == 0) {
        const struct launch_config *launch = *(const struct launch_config *const *)params;
        if (launch == NULL)
            return;
        memcpy(arguments->grid, launch->grid, sizeof launch->grid);
        memcpy(arguments->block, launch->block, sizeof launch->block);
        arguments->shared = launch->shared;
        arguments->stream = launch->stream;
        arguments->has_stream = true;
    } else {
        const struct launch_arguments *launch = params;
        memcpy(arguments->grid, launch->grid, sizeof launch->grid);
        memcpy(arguments->block, launch->block, sizeof launch->block);
        arguments->shared = launch->shared;
    }
}

/* cuStreamBeginCapture_v2 {stream, mode}; ...ToGraph {stream, graph, dependencies, data, count, mode}. */
static int mode_of(const struct call *call, const void *params)
{
    int mode = 0;
    if (call->roles & MODES) {
        const int *asked = *(const int *const *)params;
        return asked != NULL ? *asked : -1;
    }
    if (strncmp(call->name, "cuStreamBeginCaptureToGraph", 27) == 0)
        memcpy(&mode, (const char *)params + 40, sizeof mode);
    else if (strncmp(call->name, "cuStreamBeginCapture_v2", 23) == 0 ||
             strncmp(call->name, "cuStreamBeginRecaptureToGraph", 29) == 0)
        memcpy(&mode, (const char *)params + 8, sizeof mode);
    return mode; /* the first version knew only global */
}

void arguments_read(const struct call *call, const void *params, struct arguments *arguments)
{
    memset(arguments, 0, sizeof *arguments);
    arguments->mode = -1;
    if (params == NULL)
        return;
    if (call->roles & (OPENS | MODES))
        arguments->mode = mode_of(call, params);
    const struct layout *layout = call->layout;
    if (layout == NULL)
        return;
    if (layout->stream != ABSENT) {
        arguments->has_stream = true;
        arguments->stream =
            layout->stream == LEGACY_STREAM ? NULL : (stream_handle)(uintptr_t)word(params, layout->stream);
    }
    if (call->roles & LAUNCHES)
        read_launch(call, params, arguments);
    if (call->per_thread && arguments->has_stream && arguments->stream == NULL)
        arguments->stream = STREAM_PER_THREAD;
    arguments->size = word(params, layout->size);
    arguments->pointer = word(params, layout->pointer);
    arguments->source = word(params, layout->source);
    arguments->event = word(params, layout->event);
    arguments->text = (const char *)(uintptr_t)word(params, layout->text);
}

uint64_t arguments_made(const struct call *call, const void *params)
{
    uint64_t made = 0;
    if (params == NULL || call->layout == NULL || call->layout->made == ABSENT)
        return 0;
    const void *where = (const void *)(uintptr_t)word(params, call->layout->made);
    if (where != NULL)
        memcpy(&made, where, sizeof made);
    return made;
}
