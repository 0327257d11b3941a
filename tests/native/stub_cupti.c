/* libcupti.so, as far as the probe uses it. Compiled with -DSTUB_BROKEN_LAYOUT it hands over another structure. */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "stub.h"

struct data {
    int32_t site;
    const char *name;
    const void *params;
    void *result;
    const char *symbol;
#ifdef STUB_BROKEN_LAYOUT
    uint64_t something_new;
#endif
    void *context;
    uint32_t uid;
    uint64_t *correlation_data;
    uint32_t correlation;
};

static const char *const names[] = {NULL,
#define X(name) #name,
                                    STUB_CALLS(X)
#undef X
};

typedef void (*callback_type)(void *, int, uint32_t, const struct data *);
static _Atomic(callback_type) callback;
static _Atomic(void *) user;
static atomic_bool enabled[STUB_COUNT];
static atomic_uint correlations;
static atomic_int inside_enable; /* two at a time: what CUPTI forbids */
atomic_int stub_enable_races, stub_enabled_calls;
static int marker;

int cuptiGetVersion(uint32_t *version)
{
    *version = 130000;
    return 0;
}

int cuptiSubscribe(void **subscriber, callback_type function, void *data)
{
    if (atomic_load(&callback) != NULL)
        return 39;
    atomic_store(&user, data);
    atomic_store(&callback, function);
    *subscriber = &marker;
    return 0;
}

struct params {
    size_t size;
    const char *name;
    char *old;
    size_t old_size;
};

int cuptiSubscribe_v2(void **subscriber, callback_type function, void *data, struct params *params)
{
    if (atomic_load(&callback) != NULL) {
        strncpy(params->old, "CUPTI for another tool", params->old_size - 1);
        return 39;
    }
    return cuptiSubscribe(subscriber, function, data);
}

int cuptiUnsubscribe(void *subscriber)
{
    if (subscriber != &marker)
        return 1;
    atomic_store(&callback, NULL);
    for (int i = 0; i < STUB_COUNT; i++)
        atomic_store(&enabled[i], false);
    return 0;
}

int cuptiEnableCallback(uint32_t on, void *subscriber, int domain, uint32_t id)
{
    if (subscriber != &marker || domain != 1 || id == 0 || id >= STUB_COUNT)
        return 1;
    if (atomic_fetch_add(&inside_enable, 1) != 0)
        atomic_fetch_add(&stub_enable_races, 1);
    if (atomic_exchange(&enabled[id], on != 0) != (on != 0))
        atomic_fetch_add(&stub_enabled_calls, on ? 1 : -1);
    atomic_fetch_sub(&inside_enable, 1);
    return 0;
}

int cuptiGetCallbackName(int domain, uint32_t id, const char **name)
{
    if (domain != 1 || id == 0 || id >= STUB_COUNT)
        return 1;
    *name = names[id];
    return 0;
}

int cuptiFinalize(void)
{
    __builtin_trap(); /* never called */
}

static void tell(int site, int id, const void *params, const char *symbol, uint32_t correlation, int *result)
{
    callback_type function = atomic_load(&callback);
    if (function == NULL || !atomic_load(&enabled[id]))
        return;
    uint64_t correlation_data = 0;
    struct data data = {
        .site = site,
        .name = names[id],
        .params = params,
        .result = result,
        .symbol = symbol,
        .context = &marker,
        .uid = 1,
        .correlation_data = &correlation_data,
        .correlation = correlation,
    };
    function(atomic_load(&user), 1, (uint32_t)id, &data);
}

uint32_t stub_enter(int id, const void *params, const char *symbol)
{
    uint32_t correlation = atomic_fetch_add(&correlations, 1) + 1;
    tell(0, id, params, symbol, correlation, NULL);
    return correlation;
}

void stub_exit(int id, const void *params, const char *symbol, uint32_t correlation, int *result)
{
    tell(1, id, params, symbol, correlation, result);
}
