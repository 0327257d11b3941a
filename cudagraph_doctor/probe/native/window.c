#include "window.h"

#include <string.h>

#include "record.h"
#include "subscribe.h"

struct capture captures[CAPTURES];

static atomic_int open_count;   /* captures open or about to be */
static atomic_uint lives;       /* captures ever */
static atomic_llong native_ids; /* ids of captures that nobody announced: -1, -2, ... */

/* Captures that Python is about to begin: (thread, its id). The stream is the thread's next one to begin. */
static struct announcement {
    atomic_int tid;
    atomic_llong id;
} announced[CAPTURES];

CGD_API void cgd_announce(int tid, int64_t id)
{
    int place = -1;
    for (int i = 0; i < CAPTURES; i++) {
        int owner = atomic_load(&announced[i].tid);
        if (owner == tid || (owner == 0 && place < 0))
            place = i;
        if (owner == tid)
            break;
    }
    if (place < 0)
        return;
    atomic_store(&announced[place].id, id);
    atomic_store(&announced[place].tid, id != 0 ? tid : 0);
}

static int64_t take_announcement(int tid)
{
    for (int i = 0; i < CAPTURES; i++)
        if (atomic_load(&announced[i].tid) == tid) {
            int64_t id = atomic_load(&announced[i].id);
            atomic_store(&announced[i].tid, 0);
            return id;
        }
    return 0;
}

bool window_open(void)
{
    return atomic_load_explicit(&open_count, memory_order_relaxed) > 0;
}

static void leave(int index)
{
    atomic_store(&captures[index].state, PLACE_FREE);
    if (atomic_fetch_sub(&open_count, 1) == 1)
        subscribe_window(false);
}

static void close_place(int index)
{
    int expected = PLACE_OPEN;
    if (atomic_compare_exchange_strong(&captures[index].state, &expected, PLACE_TAKEN))
        leave(index);
}

/* A stream has one capture at a time: what else is open on it ended unseen. */
static void close_places_of(stream_handle stream, int except)
{
    for (int i = 0; i < CAPTURES; i++)
        if (i != except && captures[i].state == PLACE_OPEN && captures[i].origin == stream)
            close_place(i);
}

/* A capture that Python does not know gets its records from us. */
static void write_begin(struct thread *thread, struct capture *capture, const char *api, int mode)
{
    static const char *const modes[] = {"global", "thread_local", "relaxed"};
    const char *why = NULL;
    struct json json;
    int64_t stack = stack_id(thread, &why);
    capture->intention = record_begin(&json, thread->line, LINE_SIZE, "capture", thread->tid);
    json_number(&json, "id", capture->id);
    json_unsigned(&json, "stream", 0);
    json_pointer(&json, "handle", (uint64_t)(uintptr_t)capture->origin);
    json_text(&json, "api", api, 64);
    if (mode >= 0 && mode <= 2)
        json_text(&json, "mode", modes[mode], 16);
    if (stack != 0)
        json_number(&json, "stack", stack);
    record_end(&json);
}

static void write_outcome(struct thread *thread, uint64_t of, int code)
{
    struct json json;
    record_begin(&json, thread->line, LINE_SIZE, "outcome", thread->tid);
    json_unsigned(&json, "of", of);
    json_number(&json, "code", code);
    record_end(&json);
}

int window_begins(struct thread *thread, const struct arguments *arguments, const char *api)
{
    int index = -1;
    for (int i = 0; i < CAPTURES && index < 0; i++) {
        int expected = PLACE_FREE;
        if (atomic_compare_exchange_strong(&captures[i].state, &expected, PLACE_TAKEN))
            index = i;
    }
    if (index < 0) {
        record_lost(1, 0);
        return -1;
    }
    struct capture *capture = &captures[index];
    atomic_store(&capture->life, atomic_fetch_add(&lives, 1) + 1);
    atomic_store(&capture->seen, STATUS_ACTIVE);
    capture->origin = arguments->stream;
    capture->per_thread = arguments->stream == STREAM_PER_THREAD;
    capture->tid = thread->tid;
    capture->mode = arguments->mode;
    capture->suspect = 0;
    capture->driver_id = 0;
    capture->intention = 0;
    capture->id = take_announcement(thread->tid);
    capture->native = capture->id == 0;
    if (capture->native) {
        capture->id = -1 - (int64_t)atomic_fetch_add(&native_ids, 1);
        write_begin(thread, capture, api, arguments->mode);
    }
    atomic_fetch_add(&open_count, 1);
    subscribe_window(true); /* also beside others: the first one may still be at it */
    return index;
}

void window_began(struct thread *thread, int index, int code)
{
    struct capture *capture = &captures[index];
    if (capture->native)
        write_outcome(thread, capture->intention, code);
    if (code != CODE_SUCCESS) {
        leave(index);
        return;
    }
    if (!capture->per_thread)
        close_places_of(capture->origin, index);
    int status;
    void *node;
    capture->driver_id = driver_capture(capture->origin, &status, &node);
    atomic_store(&capture->state, PLACE_OPEN);
}

static void blame(struct thread *thread, struct capture *capture, uint64_t q)
{
    int expected = STATUS_ACTIVE;
    if (!atomic_compare_exchange_strong(&capture->seen, &expected, STATUS_INVALIDATED))
        return;
    struct json json;
    record_begin(&json, thread->line, LINE_SIZE, "capture-status", thread->tid);
    json_number(&json, "cap", capture->id);
    json_number(&json, "before", STATUS_ACTIVE);
    json_number(&json, "after", STATUS_INVALIDATED);
    json_unsigned(&json, "across", q);
    json_text(&json, "by", "call", 8);
    record_end(&json);
}

int window_ends(struct thread *thread, stream_handle stream)
{
    for (int i = 0; i < CAPTURES; i++) {
        struct capture *capture = &captures[i];
        if (atomic_load(&capture->state) != PLACE_OPEN || capture->origin != stream)
            continue;
        if (capture->per_thread && capture->tid != thread->tid)
            continue;
        if (capture->suspect != 0 && driver_status(stream) == STATUS_INVALIDATED)
            blame(thread, capture, capture->suspect);
        if (capture->native) {
            struct json json;
            capture->intention = record_begin(&json, thread->line, LINE_SIZE, "capture-end", thread->tid);
            json_number(&json, "cap", capture->id);
            json_pointer(&json, "handle", (uint64_t)(uintptr_t)stream);
            json_number(&json, "before", driver_status(stream));
            record_end(&json);
        }
        return i;
    }
    return -1;
}

void window_ended(struct thread *thread, int index, int code)
{
    struct capture *capture = &captures[index];
    if (capture->native && capture->intention != 0) {
        write_outcome(thread, capture->intention, code);
        capture->intention = 0;
    }
    int status = driver_status(capture->origin);
    bool goes_on = status == STATUS_ACTIVE || status == STATUS_INVALIDATED;
    if (status == STATUS_UNKNOWN)
        goes_on = code == CODE_CAPTURE_UNMATCHED || code == CODE_CAPTURE_WRONG_THREAD;
    if (!goes_on)
        close_place(index);
}

void window_stream_dies(stream_handle stream)
{
    if (stream != STREAM_PER_THREAD)
        close_places_of(stream, -1);
}

void window_look(struct thread *thread, int8_t *before, uint32_t *life)
{
    for (int i = 0; i < CAPTURES; i++) {
        struct capture *capture = &captures[i];
        before[i] = STATUS_UNKNOWN;
        life[i] = 0;
        if (capture->state != PLACE_OPEN || !thread->bound || (capture->per_thread && capture->tid != thread->tid))
            continue;
        life[i] = atomic_load(&capture->life);
        before[i] = (int8_t)driver_status(capture->origin);
    }
}

int window_expects(const struct thread *thread, stream_handle stream)
{
    if (stream == NULL || stream != thread->captured)
        return -1;
    const struct capture *capture = &captures[thread->captured_index];
    bool same = atomic_load(&capture->state) == PLACE_OPEN && atomic_load(&capture->life) == thread->captured_life;
    return same ? thread->captured_index : -1;
}

void window_changed(struct thread *thread, int index, int code, uint64_t q, bool sure)
{
    struct capture *capture = &captures[index];
    uint_least64_t none = 0;
    /* A call that came back well, or with 901, only overlapped the one that did it. */
    if (code == CODE_SUCCESS || code == CODE_CAPTURE_INVALIDATED)
        return;
    if (sure)
        blame(thread, capture, q);
    else
        atomic_compare_exchange_strong(&capture->suspect, &none, q);
}
