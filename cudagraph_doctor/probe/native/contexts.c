#include "contexts.h"

#include "probe.h"
#include "record.h"

enum { CONTEXTS = 64 };

static struct {
    atomic_uint uid;
    atomic_int device; /* plus one; 0: not asked yet */
} contexts[CONTEXTS];

static void write_context(uint32_t uid, void *handle, int device, int tid)
{
    char line[256];
    struct json json;
    record_begin(&json, line, sizeof line, "context", tid);
    json_number(&json, "id", -(int64_t)uid);
    json_pointer(&json, "handle", (uint64_t)(uintptr_t)handle);
    if (device >= 0)
        json_number(&json, "device", device);
    record_end(&json);
}

int64_t context_id(uint32_t uid, void *handle, int tid, int *device)
{
    *device = -1;
    if (handle == NULL || uid == 0)
        return 0;
    for (int i = 0; i < CONTEXTS; i++) {
        unsigned expected = 0;
        if (atomic_load(&contexts[i].uid) == uid) {
            *device = atomic_load(&contexts[i].device) - 1;
            break;
        }
        if (atomic_compare_exchange_strong(&contexts[i].uid, &expected, uid)) {
            /* The context is current on this thread: it is the one that CUPTI just told. */
            if (driver.ctx_get_device == NULL || driver.ctx_get_device(device) != CODE_SUCCESS)
                *device = -1;
            atomic_store(&contexts[i].device, *device + 1);
            write_context(uid, handle, *device, tid);
            break;
        }
        if (expected == uid) {
            *device = atomic_load(&contexts[i].device) - 1;
            break;
        }
    }
    return -(int64_t)uid;
}
