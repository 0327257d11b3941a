#include "call_record.h"

#include <string.h>

#include "contexts.h"
#include "record.h"
#include "window.h"

/* The capture that a call concerns: of its stream, else one that it broke, else its thread's, else any. */
static int concerned(const struct thread *thread, const struct seen *seen, uint64_t driver_id, const int8_t *after)
{
    int best = -1, rank = 0;
    for (int i = 0; i < CAPTURES; i++) {
        if (captures[i].state != PLACE_OPEN)
            continue;
        bool own = captures[i].tid == thread->tid;
        bool broke =
            seen->pending != NULL && seen->pending->before[i] == STATUS_ACTIVE && after[i] == STATUS_INVALIDATED;
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

static void write_pointers(struct json *json, const uint64_t *pointers, int count)
{
    json_open(json, "ptrs", '[');
    for (int i = 0; i < count; i++)
        json_pointer(json, NULL, pointers[i]);
    json_close(json, ']');
}

static void write_details(struct json *json, const struct thread *thread, const struct seen *seen, int64_t context,
                          int device)
{
    const struct arguments *arguments = &seen->arguments;
    const struct call *call = seen->call;
    if (arguments->has_stream)
        json_pointer(json, "handle", (uint64_t)(uintptr_t)arguments->stream);
    if (context != 0)
        json_number(json, "ctx", context);
    if (device >= 0)
        json_number(json, "device", device);
    if (call->roles & LAUNCHES && seen->params != NULL) {
        if (seen->data->symbol != NULL)
            json_text(json, "kernel", seen->data->symbol, 600);
        json_three(json, "grid", arguments->grid);
        json_three(json, "block", arguments->block);
        json_unsigned(json, "smem", arguments->shared);
    }
    if (arguments->size != 0)
        json_unsigned(json, "size", arguments->size);
    uint64_t made = seen->code == CODE_SUCCESS ? arguments_made(call, seen->params) : 0;
    if (made != 0 || arguments->pointer != 0)
        json_pointer(json, "ptr", made != 0 ? made : arguments->pointer);
    if (arguments->source != 0)
        write_pointers(json, (const uint64_t[]){arguments->pointer, arguments->source}, 2);
    if (call->roles & NAMES && made != 0) { /* which function, of which module */
        write_pointers(json, (const uint64_t[]){arguments->pointer, made}, 2);
        if (arguments->text != NULL)
            json_text(json, "kernel", arguments->text, 600);
    }
    if (call->roles & UNLOADS && thread->function_count > 0)
        write_pointers(json, thread->functions, thread->function_count);
    if (arguments->event != 0)
        json_pointer(json, "event_handle", arguments->event);
    if (call->roles & (MODES | OPENS) && arguments->mode >= 0 && arguments->mode <= 2) {
        static const char *const modes[] = {"global", "thread_local", "relaxed"};
        json_text(json, "mode", modes[arguments->mode], 16);
    }
}

/* Where a call came from. */
struct origin {
    int64_t stack;
    const char *no_stack;
    uint64_t operator_q;
    uint64_t returns[RETURNS];
    int count;
};

static void find_origin(struct origin *origin, struct thread *thread, bool routine)
{
    origin->operator_q = (uint64_t)thread->operator.q;
    origin->no_stack = NULL;
    origin->count = 0;
    /* Inside an operator that Python's hook told, what works as it should needs no stack of its own. */
    origin->stack = routine && thread->operator.q != 0 ? thread->operator.stack : 0;
    if (origin->stack == 0)
        origin->stack = stack_id(thread, &origin->no_stack);
    if (!routine || config.deep)
        origin->count = backtrace_returns(origin->returns);
}

static void write_origin(struct json *json, const struct origin *origin)
{
    if (origin->stack != 0)
        json_number(json, "stack", origin->stack);
    else if (origin->no_stack != NULL)
        json_text(json, "no_stack", origin->no_stack, 40);
    if (origin->operator_q != 0)
        json_unsigned(json, "op", origin->operator_q);
    if (origin->count == 0)
        return;
    json_open(json, "returns", '[');
    for (int i = 0; i < origin->count; i++)
        json_pointer(json, NULL, origin->returns[i]);
    json_close(json, ']');
}

/* Name as the user calls it: without the suffix of the per-thread variant. */
static void write_api(struct json *json, const struct call *call)
{
    size_t length = strlen(call->name);
    json_text(json, "api", call->name, call->per_thread ? length - 5 : length);
}

uint64_t call_write_intention(struct thread *thread, const struct call *call, const struct arguments *arguments,
                              const struct pending *pending)
{
    struct origin origin;
    struct json json;
    find_origin(&origin, thread, false);
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
    write_origin(&json, &origin);
    record_end(&json);
    return q;
}

/* What is known at the exit of a call. */
struct exit_state {
    int8_t after[CAPTURES];
    uint32_t life[CAPTURES];
    int index;  /* the capture concerned, -1: none */
    int status; /* of the call's own stream */
    uint64_t driver_id;
    void *node;
};

/* Where the questions at the entry were left out, the answer at the exit stands for both: see window_expects. A status
 * that is no longer active was so before, unless the call's own code says that it only met a broken capture. */
static bool as_expected(const struct seen *seen, struct exit_state *state)
{
    struct pending *pending = seen->pending;
    int index = pending != NULL ? pending->expected : -1;
    if (index < 0)
        return false;
    struct capture *capture = &captures[index];
    bool same = state->driver_id != 0 && state->driver_id == capture->driver_id;
    pending->life[index] = atomic_load(&capture->life);
    pending->before[index] = STATUS_ACTIVE;
    if (seen->code == CODE_CAPTURE_INVALIDATED || atomic_load(&capture->seen) == STATUS_INVALIDATED)
        pending->before[index] = STATUS_INVALIDATED;
    pending->on = pending->before[index];
    if (!same || state->status != STATUS_ACTIVE)
        return false;
    state->index = index;
    state->life[index] = pending->life[index];
    state->after[index] = STATUS_ACTIVE;
    return true;
}

static void look_at_exit(struct thread *thread, const struct seen *seen, struct exit_state *state)
{
    memset(state, 0, sizeof *state);
    memset(state->after, STATUS_UNKNOWN, sizeof state->after);
    state->index = -1;
    state->status = STATUS_UNKNOWN;
    if (!window_open())
        return;
    if (seen->arguments.has_stream && thread->bound && !(seen->call->roles & (KILLS_STREAM | ENDS)))
        state->driver_id = driver_capture(seen->arguments.stream, &state->status, &state->node);
    if (as_expected(seen, state))
        return;
    window_look(thread, state->after, state->life);
    state->index = concerned(thread, seen, state->driver_id, state->after);
    if (state->status == STATUS_ACTIVE && seen->call->roles & WORKS && state->index >= 0 &&
        captures[state->index].driver_id == state->driver_id) {
        thread->captured = seen->arguments.stream;
        thread->captured_index = state->index;
        thread->captured_life = state->life[state->index];
    }
}

/* The status of a capture before the call is known: it was open then. */
static bool known_before(const struct seen *seen, const struct exit_state *state, int index)
{
    return seen->pending != NULL && state->life[index] != 0 && seen->pending->life[index] == state->life[index];
}

static void write_statuses(struct json *json, const struct seen *seen, const struct exit_state *state)
{
    const struct pending *pending = seen->pending;
    int index = state->index;
    if (index >= 0) {
        json_number(json, "cap", captures[index].id);
        if (known_before(seen, state, index) && pending->before[index] >= 0)
            json_number(json, "before", pending->before[index]);
        if (state->after[index] >= 0)
            json_number(json, "after", state->after[index]);
    }
    bool open_before = index < 0 || state->life[index] == 0 || known_before(seen, state, index);
    if (pending == NULL || (!open_before && !(seen->call->roles & OPENS)))
        json_true(json, "inflight");
    if (pending != NULL && pending->on >= 0)
        json_number(json, "on", pending->on);
    if (state->driver_id != 0)
        json_unsigned(json, "driver_id", state->driver_id);
}

static void write_end(struct json *json, const struct seen *seen, const struct exit_state *state)
{
    bool captured = seen->code == CODE_SUCCESS && state->status == STATUS_ACTIVE;
    if (captured && seen->call->roles & WORKS && state->node != NULL)
        json_pointer(json, "node_handle", (uint64_t)(uintptr_t)state->node);
    if (seen->pending != NULL)
        json_unsigned(json, "took", record_time() - seen->pending->begun);
}

static void write_outcome(struct thread *thread, const struct seen *seen, const struct exit_state *state)
{
    struct json json;
    record_begin(&json, thread->line, LINE_SIZE, "outcome", thread->tid);
    json_unsigned(&json, "of", seen->pending->intention);
    json_number(&json, "code", seen->code);
    if (state->index >= 0 && state->after[state->index] >= 0)
        json_number(&json, "after", state->after[state->index]);
    uint64_t made = seen->code == CODE_SUCCESS ? arguments_made(seen->call, seen->params) : 0;
    if (made != 0)
        json_pointer(&json, "ptr", made);
    write_end(&json, seen, state);
    record_end(&json);
}

static uint64_t write_complete(struct thread *thread, const struct seen *seen, const struct exit_state *state)
{
    struct origin origin = {0};
    struct json json;
    bool routine = seen->code == CODE_SUCCESS && state->status == STATUS_ACTIVE && seen->call->roles & WORKS;
    if (window_open() || seen->code != CODE_SUCCESS || seen->call->roles & STACKED)
        find_origin(&origin, thread, routine);
    int device = -1;
    int64_t context = context_id(seen->data->context_uid, seen->data->context, thread->tid, &device);
    uint64_t q = record_begin(&json, thread->line, LINE_SIZE, "call", thread->tid);
    write_api(&json, seen->call);
    json_number(&json, "code", seen->code);
    write_statuses(&json, seen, state);
    write_details(&json, thread, seen, context, device);
    write_origin(&json, &origin);
    write_end(&json, seen, state);
    record_end(&json);
    return q;
}

void call_write(struct thread *thread, const struct seen *seen)
{
    struct exit_state state;
    look_at_exit(thread, seen, &state);
    uint64_t q = seen->pending != NULL ? seen->pending->intention : 0;
    if (q != 0)
        write_outcome(thread, seen, &state);
    else
        q = write_complete(thread, seen, &state);
    thread->refused = seen->code != CODE_SUCCESS ? q : 0;
    thread->refused_code = seen->code;
    for (int i = 0; i < CAPTURES; i++) {
        bool was_active = !known_before(seen, &state, i) || seen->pending->before[i] == STATUS_ACTIVE;
        if (state.life[i] != 0 && state.after[i] == STATUS_INVALIDATED && was_active)
            window_changed(thread, i, seen->code, q, i == state.index || captures[i].mode == 0);
    }
}
