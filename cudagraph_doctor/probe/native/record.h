/* One record: a JSON line, handed to the kernel in one write(2). */
#ifndef CGD_RECORD_H
#define CGD_RECORD_H

#include "json.h"
#include "probe.h"

/* Begins a record of a kind in a buffer and returns its sequence number. */
uint64_t record_begin(struct json *json, char *buffer, size_t size, const char *kind, int tid);

/* Ends and writes it. What cannot be written is counted in the head of the slots file, which the launcher reads. */
void record_end(struct json *json);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t record_time(void);

/* Counts records that were lost for lack of room. */
void record_lost(int count, int error);

#endif
