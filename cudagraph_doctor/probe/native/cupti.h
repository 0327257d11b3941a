/* The part of CUPTI that the probe uses, declared here so that building needs no CUDA toolkit.
 *
 * Layout and numbers are those of the CUPTI 12 and 13 ABI on 64-bit Linux. They are not trusted: `subscribe.c` makes
 * one harmless driver call through a fresh subscription and compares what arrives with what must arrive, before
 * anything else is enabled. */
#ifndef CGD_CUPTI_H
#define CGD_CUPTI_H

#include <stddef.h>
#include <stdint.h>

enum { CUPTI_SUCCESS = 0 };
enum { CUPTI_DOMAIN_DRIVER_API = 1 };
enum { CUPTI_ENTER = 0, CUPTI_EXIT = 1 };

/* What a callback of the driver domain is handed. */
struct cupti_call {
    int32_t site;              /* CUPTI_ENTER or CUPTI_EXIT */
    const char *function_name; /* a constant of the process, with its version suffix */
    const void *params;        /* the arguments, a structure per function: see parameters.h */
    void *result;              /* CUresult *, valid at exit only */
    const char *symbol;        /* mangled kernel name, for launches */
    void *context;             /* CUcontext current to the thread, or NULL */
    uint32_t context_uid;      /* unique in the process, never reused */
    uint64_t *correlation_data;
    uint32_t correlation_id; /* the same at entry and exit of one call */
};

_Static_assert(sizeof(void *) == 8, "the ABI described here is the 64-bit one");
_Static_assert(offsetof(struct cupti_call, function_name) == 8, "padding after the site");
_Static_assert(offsetof(struct cupti_call, context_uid) == 48, "context id after five pointers");
_Static_assert(offsetof(struct cupti_call, correlation_id) == 64, "correlation id is the last field");

typedef void (*cupti_callback)(void *user, int domain, uint32_t callback_id, const struct cupti_call *call);

/* Asks cuptiSubscribe_v2 (CUPTI 13.0) who holds the subscription. */
struct cupti_subscriber_params {
    size_t size;
    const char *name;
    char *old_name;
    size_t old_size;
};

struct cupti {
    int (*get_version)(uint32_t *version);
    int (*subscribe)(void **subscriber, cupti_callback callback, void *user);
    int (*subscribe_v2)(void **subscriber, cupti_callback callback, void *user, struct cupti_subscriber_params *params);
    int (*unsubscribe)(void *subscriber);
    int (*enable_callback)(uint32_t enable, void *subscriber, int domain, uint32_t callback_id);
    int (*get_callback_name)(int domain, uint32_t callback_id, const char **name);
};

#endif
