/* One watched driver call: what is known at its entry is kept, at its exit a record is written. */
#include "callback.h"

#include <string.h>

#include "calls.h"
#include "contexts.h"
#include "probe.h"
#include "record.h"
#include "window.h"

/* A call at its exit, with all that is told about it. */
struct seen {
    const struct call *call;
    const struct cupti_call *data;
    const struct pending *pending; /* NULL: it was under way before we watched it */
    struct arguments arguments;
    int code;
};

static struct pending *push(struct thread *thread, const struct cupti_call *data)
{
    if (thread->depth >= NESTED)
        thread->depth = 0; /* exits that never came, after a longjmp out of a driver callback of the target's */
    struct pending *pending = &thread->pending[thread->depth++];
    pending->begun = record_time();
    pending->intention = 0;
    pending->correlation = data->correlation_id;
    pending->on = STATUS_UNKNOWN;
    pending->opens = -1;
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

/* The capture that a call concerns: of its stream, else one that it broke, else its thread's, else any. */
static int concerned(const struct thread *thread, const struct seen *seen, uint64_t driver_id, const int8_t *after)
{
    int best = -1, rank = 0;
    for (int i = 0; i < CAPTURES; i++) {
        if (captures[i].state != PLACE_OPEN)
            continue;
        bool own = captures[i].tid == thread->tid;
        bool broke = seen->pending != NULL && seen->pending->before[i] == STATUS_ACTIVE && after[i] == STATUS_INVALIDATED;
        if (driver_id != 0 && captures[i].driver_id == driver_id)
            return i;
        int found = broke && own ? 4 : broke ? 3 : own ? 2 : 1;
        if (found > rank) {
            best = i;
            rank = found;
        }
    }
    return best;
}

static void write_details(struct json *json, const struct seen *seen, int64_t context, int device)
{
    const struct arguments *arguments = &seen->arguments;
    const struct call *call = seen->call;
    if (arguments->has_stream)
        json_pointer(json, "handle", (uint64_t)(uintptr_t)arguments->stream);
    if (context != 0)
        json_number(json, "ctx", context);
    if (device >= 0)
        json_number(json, "device", device);
    if (call->roles & LAUNCHES) {
        if (seen->data->symbol != NULL)
            json_text(json, "kernel", seen->data->symbol, 600);
        json_three(json, "grid", arguments->grid);
        json_three(json, "block", arguments->block);
        json_unsigned(json, "smem", arguments->shared);
    }
    if (arguments->size != 0)
        json_unsigned(json, "size", arguments->size);
    uint64_t made = seen->code == CODE_SUCCESS ? arguments_made(call, seen->data->params) : 0;
    if (made != 0 || arguments->pointer != 0)
        json_pointer(json, "ptr", made != 0 ? made : arguments->pointer);
    if (arguments->source != 0) {
        json_open(json, "ptrs", '[');
        json_pointer(json, NULL, arguments->pointer);
        json_pointer(json, NULL, arguments->source);
        json_close(json, ']');
    }
    if (arguments->event != 0)
        json_pointer(json, "event_handle", arguments->event);
    if (call->roles & (MODES | OPENS) && arguments->mode >= 0 && arguments->mode <= 2) {
        static const char *const modes[] = {"global", "thread_local", "relaxed"};
        json_text(json, "mode", modes[arguments->mode], 16);
    }
}

static void write_origin(struct json *json, int64_t stack, const char *no_stack, const uint64_t *returns, int count)
{
    if (stack != 0)
        json_number(json, "stack", stack);
    else if (no_stack != NULL)
        json_text(json, "no_stack", no_stack, 40);
    if (count == 0)
        return;
    json_open(json, "returns", '[');
    for (int i = 0; i < count; i++)
        json_pointer(json, NULL, returns[i]);
    json_close(json, ']');
}

/* Name as the user calls it: without the suffix of the per-thread variant. */
static void write_api(struct json *json, const struct call *call)
{
    size_t length = strlen(call->name);
    json_text(json, "api", call->name, call->per_thread ? length - 5 : length);
}

static uint64_t write_intention(struct thread *thread, const struct call *call, const struct arguments *arguments,
                                const struct pending *pending)
{
    uint64_t returns[RETURNS];
    const char *why = NULL;
    int64_t stack = stack_id(thread, &why);
    int count = backtrace_returns(returns);
    struct json json;
    uint64_t q = record_begin(&json, thread->line, LINE_SIZE, "call", thread->tid);
    write_api(&json, call);
    for (int i = 0; i < CAPTURES; i++)
        if (pending->life[i] != 0 && (captures[i].tid == thread->tid || captures[i].origin == arguments->stream)) {
            json_number(&json, "cap", captures[i].id);
            if (pending->before[i] >= 0)
                json_number(&json, "before", pending->before[i]);
            break;
        }
    if (arguments->has_stream)
        json_pointer(&json, "handle", (uint64_t)(uintptr_t)arguments->stream);
    if (pending->on >= 0)
        json_number(&json, "on", pending->on);
    if (arguments->pointer != 0)
        json_pointer(&json, "ptr", arguments->pointer);
    if (arguments->event != 0)
        json_pointer(&json, "event_handle", arguments->event);
    write_origin(&json, stack, why, returns, count);
    record_end(&json);
    return q;
}

static void enter(struct thread *thread, const struct call *call, const struct cupti_call *data)
{
    struct arguments arguments;
    struct pending *pending = push(thread, data);
    if (thread->depth == 1) {
        thread->log = 0;
        thread->reason_length = 0;
    }
    if (!window_open() && !(call->roles & (OPENS | INTENDS)))
        return;
    arguments_read(call, data->params, &arguments);
    if (call->roles & OPENS)
        pending->opens = (int16_t)window_begins(thread, &arguments, call->name);
    if (window_open()) {
        window_look(thread, pending->before, pending->life);
        if (arguments.has_stream)
            pending->on = (int8_t)driver_status(arguments.stream);
    }
    if (call->roles & KILLS_STREAM)
        window_stream_dies(arguments.stream);
    if (call->roles & ENDS)
        pending->opens = (int16_t)window_ends(thread, arguments.stream);
    if (call->roles & INTENDS)
        pending->intention = write_intention(thread, call, &arguments, pending);
    pending->begun = record_time(); /* our own work at the entry is not the call's */
}

static void write_call(struct thread *thread, struct seen *seen)
{
    const struct call *call = seen->call;
    const struct pending *pending = seen->pending;
    int8_t after[CAPTURES];
    uint32_t life[CAPTURES];
    uint64_t returns[RETURNS];
    int status = STATUS_UNKNOWN, count = 0;
    uint64_t driver_id = 0;
    void *node = NULL;
    const char *why = NULL;
    int64_t stack = 0;
    bool open = window_open();

    if (open) {
        window_look(thread, after, life);
        if (seen->arguments.has_stream && !(call->roles & (KILLS_STREAM | ENDS)))
            driver_id = driver_capture(seen->arguments.stream, &status, &node);
    } else {
        memset(after, STATUS_UNKNOWN, sizeof after);
        memset(life, 0, sizeof life);
    }
    int index = open ? concerned(thread, seen, driver_id, after) : -1;
    bool captured = seen->code == CODE_SUCCESS && status == STATUS_ACTIVE;
    bool intended = pending != NULL && pending->intention != 0;
    if (!intended && (open || seen->code != CODE_SUCCESS || call->roles & STACKED))
        stack = stack_id(thread, &why);
    if (!intended && (config.deep || !captured || !(call->roles & WORKS)))
        count = backtrace_returns(returns);

    int device = -1;
    int64_t context = context_id(seen->data->context_uid, seen->data->context, thread->tid, &device);

    struct json json;
    uint64_t q = record_begin(&json, thread->line, LINE_SIZE, intended ? "outcome" : "call", thread->tid);
    if (intended)
        json_unsigned(&json, "of", pending->intention);
    else
        write_api(&json, call);
    json_number(&json, "code", seen->code);
    if (index >= 0) {
        if (!intended) {
            json_number(&json, "cap", captures[index].id);
            if (pending != NULL && pending->life[index] == life[index] && pending->before[index] >= 0)
                json_number(&json, "before", pending->before[index]);
        }
        if (after[index] >= 0)
            json_number(&json, "after", after[index]);
    }
    if (!intended) {
        if (pending == NULL || (index >= 0 && pending->life[index] != life[index] && !(call->roles & OPENS)))
            json_true(&json, "inflight");
        if (pending != NULL && pending->on >= 0)
            json_number(&json, "on", pending->on);
        if (driver_id != 0)
            json_unsigned(&json, "driver_id", driver_id);
        write_details(&json, seen, context, device);
        write_origin(&json, stack, why, returns, count);
    } else {
        uint64_t made = seen->code == CODE_SUCCESS ? arguments_made(call, seen->data->params) : 0;
        if (made != 0)
            json_pointer(&json, "ptr", made);
    }
    if (captured && call->roles & WORKS && node != NULL)
        json_pointer(&json, "node_handle", (uint64_t)(uintptr_t)node);
    if (pending != NULL)
        json_unsigned(&json, "took", record_time() - pending->begun);
    if (thread->log != 0 && seen->code != CODE_SUCCESS)
        json_unsigned(&json, "log", thread->log);
    record_end(&json);

    for (int i = 0; i < CAPTURES && open; i++) {
        bool was_active = pending == NULL || pending->life[i] != life[i] || pending->before[i] == STATUS_ACTIVE;
        if (life[i] != 0 && after[i] == STATUS_INVALIDATED && was_active)
            window_changed(thread, i, seen->code, intended ? pending->intention : q, i == index || captures[i].mode == 0);
    }
}

static void leave(struct thread *thread, const struct call *call, const struct cupti_call *data)
{
    struct seen seen = {.call = call, .data = data, .pending = pop(thread, data)};
    seen.code = data->result != NULL ? *(int *)data->result : CODE_SUCCESS;
    if (call->roles & OPENS && seen.pending != NULL && seen.pending->opens >= 0)
        window_began(thread, seen.pending->opens, seen.code);
    bool intended = seen.pending != NULL && seen.pending->intention != 0;
    if (!(call->roles & QUIET) || window_open() || seen.code != CODE_SUCCESS || intended) {
        arguments_read(call, data->params, &seen.arguments);
        write_call(thread, &seen);
    }
    if (call->roles & ENDS && seen.pending != NULL && seen.pending->opens >= 0)
        window_ended(thread, seen.pending->opens, seen.code);
}

void on_driver_call(void *user, int domain, uint32_t callback_id, const struct cupti_call *data)
{
    (void)user;
    if (domain != CUPTI_DOMAIN_DRIVER_API || callback_id >= CALLS || atomic_load_explicit(&probe_off, memory_order_relaxed))
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
    if (data->site == CUPTI_ENTER)
        enter(thread, call, data);
    else if (data->site == CUPTI_EXIT)
        leave(thread, call, data);
    thread->busy = false;
}
