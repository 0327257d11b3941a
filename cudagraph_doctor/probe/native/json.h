/* Writes one JSON object into a buffer of fixed size. A value that does not fit makes the whole line void. */
#ifndef CGD_JSON_H
#define CGD_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    char *text;
    size_t size, used;
    bool comma, full;
};

void json_begin(struct json *json, char *text, size_t size);
void json_end(struct json *json); /* closes the object and the line */

void json_number(struct json *json, const char *name, int64_t value);
void json_unsigned(struct json *json, const char *name, uint64_t value);
void json_null(struct json *json); /* an item of an array */
void json_true(struct json *json, const char *name);
void json_pointer(struct json *json, const char *name, uint64_t value); /* "0x7f..." */
void json_text(struct json *json, const char *name, const char *text, size_t limit);
void json_three(struct json *json, const char *name, const uint32_t value[3]);

/* Arrays: open, any number of items, close. A NULL name stands for an item of an array. */
void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);

#endif
