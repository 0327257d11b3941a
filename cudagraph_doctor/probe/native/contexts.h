#ifndef CGD_CONTEXTS_H
#define CGD_CONTEXTS_H

#include <stdint.h>

/* Id of a context in the trace (negative: CUPTI's unique id), 0: none. Writes a `context` record at first sight, with
 * the device, which it also tells; -1: unknown. */
int64_t context_id(uint32_t uid, void *handle, int tid, int *device);

#endif
