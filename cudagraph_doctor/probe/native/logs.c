/* The driver's own error log (CUDA 12.9): a plain-English reason for each refused call, delivered on the thread that
 * made it, then a line "Returning 900 (CUDA_ERROR_...) from cuStreamSynchronize". */
#include <string.h>

#include "probe.h"
#include "record.h"
#include "window.h"

enum { OUTSIDE_LIMIT = 100 };

static void *handle;
static atomic_int outside; /* entries written while no capture was open: a program may fail in a loop */

/* The code and the name of the call, NULL for a line that gives a reason. */
static const char *read_returning(const char *message, size_t length, int *code)
{
    static const char head[] = "Returning ", middle[] = " from ";
    *code = 0;
    if (length < sizeof head || memcmp(message, head, sizeof head - 1) != 0)
        return NULL;
    for (const char *p = message + sizeof head - 1; p < message + length && *p >= '0' && *p <= '9'; p++)
        *code = *code * 10 + (*p - '0');
    for (const char *p = message; p + sizeof middle - 1 < message + length; p++)
        if (memcmp(p, middle, sizeof middle - 1) == 0)
            return p + sizeof middle - 1;
    return NULL;
}

/* Calls by which libraries ask whether something is there: refusals of no work (seen on driver 580). */
static bool is_noise(const char *api, size_t length, int code)
{
    return (code == 201 && length >= 14 && memcmp(api, "cuCtxGetDevice", 14) == 0) ||
           (code == 1 && length >= 16 && memcmp(api, "cuGetProcAddress", 16) == 0);
}

static void write_entry(struct thread *thread, const char *message, size_t length, const char *api, size_t api_length,
                        int code, int level)
{
    struct json json;
    record_begin(&json, thread->line, LINE_SIZE, "log", thread->tid);
    json_text(&json, "message", message, length < REASON_SIZE ? length : REASON_SIZE);
    if (api != NULL) {
        json_text(&json, "api", api, api_length);
        json_number(&json, "code", code);
    }
    json_number(&json, "thread", thread->tid);
    if (thread->refused != 0 && code == thread->refused_code)
        json_unsigned(&json, "after", thread->refused);
    if (level != 0)
        json_text(&json, "level", "warning", 8);
    record_end(&json);
}

static void take_entry(struct thread *thread, int level, const char *message, size_t length)
{
    int code;
    const char *api = read_returning(message, length, &code);
    size_t api_length = api != NULL ? (size_t)(message + length - api) : 0;
    if (api == NULL) {
        if (thread->reason_length != 0)
            write_entry(thread, thread->reason, thread->reason_length, NULL, 0, 0, level);
        thread->reason_length = length < REASON_SIZE ? length : REASON_SIZE;
        memcpy(thread->reason, message, thread->reason_length);
        return;
    }
    if (!is_noise(api, api_length, code)) {
        if (thread->reason_length != 0)
            write_entry(thread, thread->reason, thread->reason_length, api, api_length, code, level);
        write_entry(thread, message, length, api, api_length, code, level);
    }
    thread->reason_length = 0;
}

static void on_log(void *user, int level, char *message, size_t length)
{
    (void)user;
    if (atomic_load(&probe_off) || message == NULL)
        return;
    struct thread *thread = thread_mine();
    if (thread == NULL || thread->busy) /* an answer to our own question */
        return;
    if (!window_open() && atomic_fetch_add(&outside, 1) >= OUTSIDE_LIMIT)
        return;
    while (length > 0 && (message[length - 1] == '\n' || message[length - 1] == '\0'))
        length--;
    thread->busy = true;
    take_entry(thread, level, message, length);
    thread->busy = false;
}

void logs_start(void)
{
    if (driver.logs_register == NULL || driver.logs_register(on_log, NULL, &handle) != CODE_SUCCESS)
        handle = NULL;
}

void logs_stop(void)
{
    if (handle != NULL && driver.logs_unregister != NULL)
        driver.logs_unregister(handle);
    handle = NULL;
}

/* Whether the driver's log reaches us. */
CGD_API int cgd_logs(void)
{
    return handle != NULL;
}
