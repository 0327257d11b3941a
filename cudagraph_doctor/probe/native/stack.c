/* The Python stack of the calling thread, without the GIL.
 *
 * Python's own faulthandler writes it: registered by Python for a real-time signal that nobody uses, into a memory
 * file. Its handler is made to run anywhere: no lock, no allocation. The signal is sent by a thread to itself, so it is
 * handled before tgkill returns. Texts are told apart by a 64-bit hash, and each is written once, as a `stack` record
 * with a negative id, without the columns that Python's own stacks have. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hash.h"
#include "paths.h"
#include "probe.h"
#include "record.h"

enum { TEXT_SIZE = 1 << 18, RECORD_SIZE = 1 << 16, KNOWN = 1 << 14, FRAMES = 64 };

/* One thread at a time, for some 30 µs: the memory file has one position. Held only below, where nothing of the
 * target's runs, except its signal handlers; those find this thread busy and pass by. */
static atomic_flag writing = ATOMIC_FLAG_INIT;

static char *text; /* the memory file, mapped */
static struct {
    uint64_t hash;
    int64_t id;
} known[KNOWN];
static int known_count;
static int64_t last_id;
static char record[RECORD_SIZE];

static bool stack_file_is_ours(void)
{
    struct stat found;
    return fstat(config.stack_fd, &found) == 0 && found.st_dev == config.stack_dev && found.st_ino == config.stack_ino;
}

/* A blocked signal would stay pending and strike later, anywhere. */
static const char *signal_is_unfit(void)
{
    sigset_t mask;
    struct sigaction action;
    if (pthread_sigmask(SIG_BLOCK, NULL, &mask) != 0 || sigismember(&mask, config.stack_signal))
        return "the signal is blocked";
    if (sigaction(config.stack_signal, NULL, &action) != 0 || action.sa_handler == SIG_DFL ||
        action.sa_handler == SIG_IGN)
        return "the signal's handler is gone"; /* its default would end the process */
    return NULL;
}

/* One line of faulthandler's text. */
struct frame {
    int64_t source, line;
    const char *name;
    size_t name_length;
};

/* Reads `  File "path", line 12 in name`; false for a line that is no frame of the target's. */
static bool read_frame(struct frame *frame, const char *line, const char *end, int tid)
{
    static const char head[] = "  File \"", middle[] = "\", line ", between[] = " in ";
    const char *path = line + sizeof head - 1, *at = NULL;
    if (end - line < (long)sizeof head || memcmp(line, head, sizeof head - 1) != 0)
        return false;
    for (const char *p = end - sizeof middle; p > path && at == NULL; p--)
        if (memcmp(p, middle, sizeof middle - 1) == 0)
            at = p;
    if (at == NULL)
        return false;
    frame->line = 0;
    const char *p = at + sizeof middle - 1;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        frame->line = frame->line * 10 + (*p - '0');
    if (end - p > (long)sizeof between - 1 && memcmp(p, between, sizeof between - 1) == 0)
        p += sizeof between - 1;
    frame->name = p;
    frame->name_length = (size_t)(end - p);
    frame->source = paths_id(path, (size_t)(at - path), tid);
    return frame->source != PATHS_OURS;
}

/* Sources first: a record must not be begun while another one is written. */
static void write_stack(const char *begin, size_t length, int64_t id, int tid)
{
    static struct frame frames[FRAMES];
    struct frame frame;
    struct json json;
    int count = 0, cut = 0;
    for (const char *line = begin, *end = begin + length; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL)
            break;
        if (read_frame(&frame, line, stop, tid)) {
            if (count < FRAMES)
                frames[count++] = frame;
            else
                cut++;
        }
        line = stop + 1;
    }
    record_begin(&json, record, RECORD_SIZE, "stack", tid);
    json_number(&json, "id", id);
    json_open(&json, "frames", '[');
    for (int i = 0; i < count; i++) {
        json_open(&json, NULL, '[');
        json_number(&json, NULL, frames[i].source);
        json_number(&json, NULL, frames[i].line);
        json_text(&json, NULL, frames[i].name, frames[i].name_length);
        for (int column = 0; column < 3; column++)
            json_null(&json);
        json_close(&json, ']');
    }
    json_close(&json, ']');
    if (cut != 0)
        json_number(&json, "cut", cut);
    record_end(&json);
}

static int64_t intern(const char *begin, size_t length, int tid)
{
    uint64_t hash = hash_of(begin, length);
    uint32_t place = (uint32_t)(hash % KNOWN);
    while (known[place].hash != 0 && known[place].hash != hash)
        place = (place + 1) % KNOWN;
    if (known[place].hash == hash)
        return known[place].id;
    if (known_count >= KNOWN * 3 / 4) { /* begin anew; what comes again is written again, under another id */
        memset(known, 0, sizeof known);
        known_count = 0;
        place = (uint32_t)(hash % KNOWN);
    }
    known_count++;
    known[place].hash = hash;
    known[place].id = --last_id;
    write_stack(begin, length, last_id, tid);
    return last_id;
}

static int64_t ask(int tid, const char **why)
{
    if (text == NULL) {
        void *mapped = mmap(NULL, TEXT_SIZE, PROT_READ, MAP_SHARED, config.stack_fd, 0);
        if (mapped == MAP_FAILED) {
            *why = "no memory";
            return 0;
        }
        text = mapped;
    }
    if (!stack_file_is_ours() || lseek(config.stack_fd, 0, SEEK_SET) != 0) {
        *why = "the memory file is gone";
        return 0;
    }
    if (syscall(SYS_tgkill, getpid(), tid, config.stack_signal) != 0) {
        *why = "the signal could not be sent";
        return 0;
    }
    off_t length = lseek(config.stack_fd, 0, SEEK_CUR);
    if (length <= 0 || length > TEXT_SIZE) {
        *why = "no text";
        return 0;
    }
    return intern(text, (size_t)length, tid);
}

int64_t stack_id(struct thread *thread, const char **why)
{
    int64_t id = 0;
    int saved = errno;
    if (config.stack_fd < 0)
        return 0;
    if (config.python_state != NULL && config.python_state() == NULL)
        return 0; /* a thread that Python does not know */
    *why = signal_is_unfit();
    if (*why == NULL) {
        while (atomic_flag_test_and_set_explicit(&writing, memory_order_acquire))
            sched_yield();
        id = ask(thread->tid, why);
        atomic_flag_clear_explicit(&writing, memory_order_release);
    }
    errno = saved;
    return id;
}

/* Files that stand in stacks, each once, since the last time Python asked: see paths.h. */
CGD_API size_t cgd_take_paths(char *into, size_t size)
{
    while (atomic_flag_test_and_set_explicit(&writing, memory_order_acquire))
        sched_yield();
    size_t used = paths_take(into, size);
    atomic_flag_clear_explicit(&writing, memory_order_release);
    return used;
}
