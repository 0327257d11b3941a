/* Which driver calls are watched, when, and where their arguments lie. */
#ifndef CGD_CALLS_H
#define CGD_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

enum call_set {
    UNWATCHED,
    ALWAYS, /* from the first sign of a capture on */
    WINDOW  /* only while any capture is open */
};

enum call_role {
    OPENS = 1,    /* begins a capture */
    ENDS = 2,     /* ends one */
    LAUNCHES = 4, /* a kernel: name and launch configuration */
    WORKS = 8,    /* makes a node when its stream is capturing */
    INTENDS = 16, /* may never return: an intention is written at entry */
    INSIDE = 32,  /* watched always, recorded only while a capture is open */
    STACKED = 64, /* the Python line matters outside of captures too */
    MODES = 128,  /* exchanges the thread's capture mode */
    KILLS_STREAM = 256,
    UNLOADS = 512, /* a module or library of kernels */
    NAMES = 1024   /* gives a function of a module by its name */
};

enum { ABSENT = 0, LEGACY_STREAM = -1 };

/* Places of arguments in the structure that CUPTI hands over: byte offset plus one, ABSENT where there is none. */
struct layout {
    const char *name; /* as CUPTI says it, without _ptsz or _ptds */
    int16_t stream;   /* LEGACY_STREAM: none is given, the call uses the legacy stream */
    int16_t size;     /* bytes, a 64-bit word */
    int16_t pointer;  /* address or handle that the call is about */
    int16_t source;   /* second address or handle */
    int16_t made;     /* pointer to where the call puts the handle or address it makes */
    int16_t event;
    int16_t text; /* a name */
};

struct call {
    const char *name;            /* the driver's constant; NULL: not watched */
    const struct layout *layout; /* NULL: arguments unknown (a version newer than this table) */
    uint16_t roles;
    uint8_t set;
    bool per_thread; /* compiled for the per-thread default stream: handle 0 means that one */
};

enum { CALLS = 2048 };
extern struct call calls[CALLS]; /* by CUPTI's callback id */

/* Builds the table by asking for the name of every callback id; returns how many are watched. */
int calls_collect(int (*get_callback_name)(int domain, uint32_t id, const char **name));

/* What the arguments of one call say. */
struct arguments {
    stream_handle stream;
    bool has_stream;
    uint64_t size, pointer, source, event;
    const char *text; /* valid while the call is under way */
    uint32_t grid[3], block[3], shared;
    int mode; /* capture mode asked for, -1: none */
};

void arguments_read(const struct call *call, const void *params, struct arguments *arguments);

/* Handle or address that a call returned through its arguments; call it at exit, after success. */
uint64_t arguments_made(const struct call *call, const void *params);

#endif
