/* The captures that are open, and the statuses of their origin streams. */
#ifndef CGD_WINDOW_H
#define CGD_WINDOW_H

#include "calls.h"
#include "probe.h"

/* A place may be taken by the next capture while another thread still looks at the last one: so every field is atomic,
 * and `life` tells the two apart. */
struct capture {
    atomic_int state; /* of the enum below */
    atomic_uint life; /* number of the capture in this place */
    atomic_int seen;  /* status last written down: Active or Invalidated */
    _Atomic(stream_handle) origin;
    atomic_uint_least64_t driver_id;
    atomic_llong id;        /* id in the trace: announced by Python, or negative and ours */
    atomic_bool native;     /* nobody announced it: its records are ours to write */
    atomic_bool per_thread; /* the origin is a per-thread stream: only `tid` can ask for it */
    atomic_int mode;        /* 0 global, 1 thread_local, 2 relaxed */
    atomic_int tid;
    atomic_uint_least64_t suspect; /* q of a refused call that may have broken it, though another one is more likely */
    atomic_uint_least64_t intention; /* q of its begin or end under way, for `native` */
};

enum { PLACE_FREE, PLACE_TAKEN, PLACE_OPEN };

extern struct capture captures[CAPTURES];

bool window_open(void);

/* At the entry of a begin: switches the window's calls on, and takes a place. Returns its index, -1 if there is none.
 */
int window_begins(struct thread *thread, const struct arguments *arguments, const char *api);

/* At the exit of the begin. */
void window_began(struct thread *thread, int index, int code);

/* At the entry of an end: index of the capture with this origin, -1 if none. */
int window_ends(struct thread *thread, stream_handle stream);

/* At the exit of the end: drops the capture if it is over, and switches off after the last. */
void window_ended(struct thread *thread, int index, int code);

/* A stream is about to be destroyed: its capture ends with it, and its handle must not be asked about any more. */
void window_stream_dies(stream_handle stream);

/* Statuses of all open captures, into `before` and `life`. */
void window_look(struct thread *thread, int8_t *before, uint32_t *life);

/* Index of the capture that the stream's last piece of work on this thread went into, if that one is still open; -1.
 *
 * Nearly every launch in a window is one more of them. It is spared the questions at its entry: a status never goes back
 * to active, so what is active at the exit was active before. */
int window_expects(const struct thread *thread, stream_handle stream);

/* Notes that a capture was seen to change across the record `q` of a call that came back with `code`. The first call
 * that can be the cause is written down; one that is not `sure` (a call under way on a thread that this capture does
 * not heed) only if no better one shows up before the end. */
void window_changed(struct thread *thread, int index, int code, uint64_t q, bool sure);

#endif
