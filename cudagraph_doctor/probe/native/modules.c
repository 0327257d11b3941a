/* The functions of a module that is about to be unloaded: graphs that use them may be alive. */
#include "modules.h"

#include <string.h>

static bool is_library(const struct call *call)
{
    return strncmp(call->name, "cuLibrary", 9) == 0;
}

int modules_functions(const struct call *call, uint64_t handle, uint64_t *functions)
{
    void *module = (void *)(uintptr_t)handle;
    unsigned count = 0;
    if (module == NULL)
        return 0;
    int (*how_many)(unsigned *, void *) = is_library(call) ? driver.library_kernel_count : driver.module_function_count;
    int (*which)(void **, unsigned, void *) = is_library(call) ? driver.library_kernels : driver.module_functions;
    if (how_many == NULL || which == NULL || how_many(&count, module) != CODE_SUCCESS || count == 0)
        return 0;
    if (count > FUNCTIONS)
        count = FUNCTIONS;
    return which((void **)functions, count, module) == CODE_SUCCESS ? (int)count : 0;
}
