/* One watched driver call: what is known at its entry is kept, at its exit a record is written. */
#include "callback.h"

#include <string.h>

#include "call_record.h"
#include "calls.h"
#include "modules.h"
#include "probe.h"
#include "record.h"
#include "window.h"

static struct pending *push(struct thread *thread, const struct cupti_call *data)
{
    if (thread->depth >= NESTED)
        thread->depth = 0; /* exits that never came, after a longjmp out of a driver callback of the target's */
    struct pending *pending = &thread->pending[thread->depth++];
    pending->intention = 0;
    pending->correlation = data->correlation_id;
    pending->on = STATUS_UNKNOWN;
    pending->opens = -1;
    pending->expected = -1;
    memset(pending->life, 0, sizeof pending->life);
    return pending;
}

static struct pending *pop(struct thread *thread, const struct cupti_call *data)
{
    for (int i = thread->depth - 1; i >= 0; i--)
        if (thread->pending[i].correlation == data->correlation_id) {
            thread->depth = i;
            return &thread->pending[i];
        }
    return NULL;
}

static void enter(struct thread *thread, const struct call *call, const struct cupti_call *data)
{
    struct arguments arguments;
    struct pending *pending = push(thread, data);
    if (thread->depth == 1) {
        thread->refused = 0;
        thread->reason_length = 0;
    }
    if (call->roles & UNLOADS) {
        arguments_read(call, data->params, &arguments);
        bool ask = !window_open() && thread->bound;
        thread->function_count = ask ? modules_functions(call, arguments.pointer, thread->functions) : 0;
    }
    if (!window_open() && (call->roles & INSIDE || !(call->roles & (OPENS | INTENDS)))) {
        pending->begun = record_time();
        return;
    }
    arguments_read(call, data->params, &arguments);
    if (call->roles & OPENS && arguments.has_stream)
        pending->opens = (int16_t)window_begins(thread, &arguments, call->name);
    if (call->roles & WORKS && arguments.has_stream)
        pending->expected = (int16_t)window_expects(thread, arguments.stream);
    if (window_open() && pending->expected < 0) {
        window_look(thread, pending->before, pending->life);
        if (arguments.has_stream && thread->bound)
            pending->on = (int8_t)driver_status(arguments.stream);
    }
    if (call->roles & KILLS_STREAM)
        window_stream_dies(arguments.stream);
    if (call->roles & ENDS)
        pending->opens = (int16_t)window_ends(thread, arguments.stream);
    if (call->roles & INTENDS)
        pending->intention = call_write_intention(thread, call, &arguments, pending);
    pending->begun = record_time(); /* our own work at the entry is not the call's */
}

static void leave(struct thread *thread, const struct call *call, const struct cupti_call *data)
{
    struct seen seen = {.call = call, .data = data, .pending = pop(thread, data)};
    int opens = seen.pending != NULL ? seen.pending->opens : -1;
    bool intended = seen.pending != NULL && seen.pending->intention != 0;
    if (call->roles & INSIDE && !intended && !window_open())
        return;
    seen.code = data->result != NULL ? *(int *)data->result : CODE_SUCCESS;
    if (call->roles & OPENS && opens >= 0)
        window_began(thread, opens, seen.code);
    seen.params = seen.pending != NULL ? data->params : NULL;
    arguments_read(call, seen.params, &seen.arguments);
    call_write(thread, &seen);
    if (call->roles & ENDS && opens >= 0)
        window_ended(thread, opens, seen.code);
}

void on_driver_call(void *user, int domain, uint32_t callback_id, const struct cupti_call *data)
{
    (void)user;
    if (domain != CUPTI_DOMAIN_DRIVER_API || callback_id >= CALLS ||
        atomic_load_explicit(&probe_off, memory_order_relaxed))
        return;
    const struct call *call = &calls[callback_id];
    if (call->name == NULL)
        return;
    struct thread *thread = thread_mine();
    if (thread == NULL) {
        record_lost(1, 0);
        return;
    }
    if (thread->busy) /* a signal handler of the target's that calls CUDA, while we were at work on this thread */
        return;
    thread->busy = true;
    thread->bound = data->context != NULL;
    if (data->site == CUPTI_ENTER)
        enter(thread, call, data);
    else if (data->site == CUPTI_EXIT)
        leave(thread, call, data);
    thread->busy = false;
}
