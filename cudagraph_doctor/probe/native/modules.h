/* What is known of modules beside the calls themselves. */
#ifndef CGD_MODULES_H
#define CGD_MODULES_H

#include "calls.h"
#include "probe.h"

/* Handles of the functions of a module, or of the kernels of a library, that is about to be unloaded: at most FUNCTIONS,
 * into `functions`. Returns how many; 0 also where the driver does not tell (before CUDA 12.4). */
int modules_functions(const struct call *call, uint64_t handle, uint64_t *functions);

#endif
