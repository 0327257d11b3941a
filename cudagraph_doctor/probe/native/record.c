#define _GNU_SOURCE
#include "record.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sequence.h"

/* The last write was cut short: the next line begins a new one, so that only the torn one is lost. */
static atomic_bool torn;

uint64_t record_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void record_lost(int count, int error)
{
    __atomic_fetch_add(&config.head[1], (uint64_t)count, __ATOMIC_RELAXED);
    if (error != 0)
        __atomic_store_n(&config.head[2], (uint64_t)error, __ATOMIC_RELAXED);
}

/* The target may have closed our descriptor and opened a file of its own on the number: never write into that. */
static bool ours(void)
{
    struct stat found;
    return fstat(config.trace_fd, &found) == 0 && found.st_dev == config.trace_dev && found.st_ino == config.trace_ino;
}

uint64_t record_begin(struct json *json, char *buffer, size_t size, const char *kind, int tid)
{
    uint64_t q = sequence_draw();
    buffer[0] = '\n'; /* in front, for the case that a torn line precedes */
    json_begin(json, buffer + 1, size - 1);
    json_text(json, "k", kind, 32);
    json_unsigned(json, "q", q);
    json_unsigned(json, "t", record_time());
    json_number(json, "tid", tid);
    return q;
}

void record_end(struct json *json)
{
    int saved = errno;
    json_end(json);
    if (json->full) {
        record_lost(1, ENOBUFS);
    } else if (!ours()) {
        record_lost(1, EBADF);
    } else {
        bool lead = atomic_load_explicit(&torn, memory_order_relaxed);
        size_t length = json->used + lead;
        ssize_t written;
        do
            written = write(config.trace_fd, json->text - lead, length);
        while (written == -1 && errno == EINTR);
        if (written != (ssize_t)length)
            record_lost(1, written < 0 ? errno : ENOSPC);
        atomic_store_explicit(&torn, written > 0 && written != (ssize_t)length, memory_order_relaxed);
    }
    errno = saved;
}
