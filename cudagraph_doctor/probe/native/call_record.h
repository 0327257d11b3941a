/* The records of one watched call. */
#ifndef CGD_CALL_RECORD_H
#define CGD_CALL_RECORD_H

#include "calls.h"
#include "cupti.h"
#include "probe.h"

/* A call at its exit, with all that is told about it. */
struct seen {
    const struct call *call;
    const struct cupti_call *data;
    const void *params; /* NULL for a call that was under way before: of that, nothing but its end is trusted */
    struct pending *pending; /* NULL: it was under way before we watched it */
    struct arguments arguments;
    int code;
};

/* At the entry: the call may never come back. Returns the number of its record. */
uint64_t call_write_intention(struct thread *thread, const struct call *call, const struct arguments *arguments,
                              const struct pending *pending);

/* At the exit: the call, or the outcome of its intention, and what it did to the open captures. */
void call_write(struct thread *thread, const struct seen *seen);

#endif
