/* Native return addresses of the calling thread, raw; session code resolves them with the `library` records.
 *
 * Unwinding goes through the copy of libgcc's unwinder that is linked into us: it knows no frames registered at run
 * time (which would take a lock and allocate) and finds tables through _dl_find_object, without a lock, since
 * glibc 2.35. */
#include <unwind.h>

#include "probe.h"

enum { DEPTH = 48, NEW_SIZE = 1 << 12 };

struct walk {
    uint64_t *returns;
    int count, depth;
};

static atomic_uint_least64_t addresses[NEW_SIZE];
static atomic_int fresh; /* distinct addresses since Python last wrote the mapped libraries down */

static bool of_cuda(uint64_t address)
{
    for (int i = 0; i < RANGES; i++)
        if (address >= config.own[i].begin && address < config.own[i].end)
            return true;
    return false;
}

static void remember(uint64_t address)
{
    for (uint32_t place = (uint32_t)((address >> 2) % NEW_SIZE), i = 0; i < 8; i++, place = (place + 1) % NEW_SIZE) {
        uint_least64_t expected = 0;
        if (atomic_load_explicit(&addresses[place], memory_order_relaxed) == address)
            return;
        if (atomic_compare_exchange_strong(&addresses[place], &expected, address)) {
            atomic_fetch_add(&fresh, 1);
            return;
        }
        if (expected == address)
            return;
    }
}

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *argument)
{
    struct walk *walk = argument;
    uint64_t address = (uint64_t)_Unwind_GetIP(context);
    if (address == 0 || ++walk->depth > DEPTH)
        return _URC_END_OF_STACK;
    if (of_cuda(address))
        return _URC_NO_REASON;
    walk->returns[walk->count++] = address;
    remember(address);
    return walk->count < RETURNS ? _URC_NO_REASON : _URC_END_OF_STACK;
}

int backtrace_returns(uint64_t *returns)
{
    struct walk walk = {.returns = returns};
    _Unwind_Backtrace(step, &walk);
    return walk.count;
}

/* Distinct return addresses recorded since the last call. */
CGD_API int cgd_fresh_addresses(void)
{
    return atomic_exchange(&fresh, 0);
}
