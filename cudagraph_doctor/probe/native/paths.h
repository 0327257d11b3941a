/* Source files that stand in stacks: an id (negative) and a `source` record each. Called under the lock of stack.c
 * only. */
#ifndef CGD_PATHS_H
#define CGD_PATHS_H

#include <stddef.h>
#include <stdint.h>

enum { PATHS_OURS = 1 };

/* Id of a file by its path as Python has it; writes its record at first sight. 0: there is no room for another file.
 * PATHS_OURS: a file of the recorder, whose frames are left out. */
int64_t paths_id(const char *path, size_t length, int tid);

/* Moves out what is new since the last time, as "-7\0/path/of/file.py\0" pairs; returns the bytes used. */
size_t paths_take(char *into, size_t size);

#endif
