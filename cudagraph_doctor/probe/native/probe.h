/* What the files of the probe share: configuration, state of a thread, and the door to Python (ctypes).
 *
 * The rules that every function reachable from a callback keeps (docs/native-probe.md): no lock that the target's code
 * can hold while it calls CUDA, so no GIL, malloc, stdio or dl*; every buffer is there before the first callback; what
 * cannot be written is counted, nothing waits. */
#ifndef CGD_PROBE_H
#define CGD_PROBE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"

#define CGD_API __attribute__((visibility("default")))
#define CGD_ABI 2

enum { CAPTURES = 16 };      /* captures open at one time in a process */
enum { NESTED = 4 };         /* driver calls of the watched sets under way on one thread */
enum { THREADS = 1024 };     /* threads alive that ever made a watched call */
enum { LINE_SIZE = 4096 };   /* longest record, a Python stack apart */
enum { REASON_SIZE = 1024 }; /* a reason of the driver's log that waits for the line with its call */
enum { RETURNS = 8 };        /* native return addresses of a call */
enum { FUNCTIONS = 64 };     /* functions of a module that its unload tells */
enum { RANGES = 8 };         /* address ranges of CUDA's own libraries */

struct range {
    uint64_t begin, end;
};

/* Filled by Python (native_loader.py), which checks `size` against its own idea of it. */
struct cgd_config {
    uint32_t size;
    int32_t trace_fd; /* an O_APPEND descriptor of our own */
    uint64_t trace_dev, trace_ino;
    int32_t stack_fd; /* memory file that faulthandler writes stacks to; -1: no Python stacks */
    int32_t stack_signal;
    uint64_t stack_dev, stack_ino;
    uint64_t *head;    /* head words of the slots file: 0 sequence, 1 lost, 2 errno of the last loss */
    const char *cupti; /* paths of the mapped libraries */
    const char *driver;
    const char *roots; /* "prefix\0name\0role\0" each, longest prefix first, then "\0"; no name: files of ours */
    void *(*python_state)(void); /* PyGILState_GetThisThreadState: NULL where a thread has no Python frames */
    struct range own[RANGES];    /* libcuda, libcupti, libcudart and ourselves: left out of return addresses */
    uint32_t deep;               /* return addresses for every launch */
};

extern struct cgd_config config;
extern atomic_bool probe_off; /* nothing is recorded any more: released, or a forked child */

/* A watched call under way. */
struct pending {
    uint64_t begun;     /* nanoseconds */
    uint64_t intention; /* q of the record written at entry, 0: none */
    uint32_t correlation;
    int8_t on;               /* status of the call's own stream before */
    int8_t before[CAPTURES]; /* status of each open capture before */
    uint32_t life[CAPTURES]; /* whose status that is */
    int16_t opens;           /* index of the capture that this call may open or end, -1: none */
    int16_t expected;        /* index of the capture that it will surely add work to: nothing was asked before; -1 */
};

/* The torch operator that runs on a thread. Python's hook writes the first two words itself (running_operator.py): it
 * does so twice an operator, and a call through ctypes would cost five times as much. */
struct operator_words {
    int64_t q; /* of its record; 0: none */
    int64_t stack;
    int64_t tid; /* whose words these are by now */
};

/* A thread that made a watched call. Owned by that thread. */
struct thread {
    atomic_int tid; /* 0: free */
    bool busy;      /* inside the probe: what happens now is ours */
    bool bound;     /* a context is current: without one the driver refuses our questions, and logs that */
    int depth;
    struct operator_words operator;
    void *captured; /* stream whose work was captured last on this thread; */
    int captured_index;
    uint32_t captured_life; /* and by which capture */
    int function_count; /* of the module that is being unloaded */
    uint64_t functions[FUNCTIONS];
    uint64_t refused; /* q of the last call, if it was refused: the driver writes its log after the exit callback */
    int refused_code;
    size_t reason_length;
    struct pending pending[NESTED];
    char reason[REASON_SIZE];
    char line[LINE_SIZE];
};

/* thread.c: the calling thread's state, NULL if there is no room for one more. */
struct thread *thread_mine(void);

/* stack.c: id (negative) of the Python stack of the calling thread; 0: none, and `why` says why or is left alone. */
int64_t stack_id(struct thread *thread, const char **why);

/* backtrace.c: native return addresses, innermost first, without those of CUDA's own libraries. */
int backtrace_returns(uint64_t *returns);

/* logs.c */
void logs_start(void);
void logs_stop(void);

#endif
