#include "json.h"

#include <string.h>

static void put(struct json *json, const char *text, size_t length)
{
    if (json->full || json->used + length > json->size) {
        json->full = true;
        return;
    }
    memcpy(json->text + json->used, text, length);
    json->used += length;
}

static void name_of(struct json *json, const char *name)
{
    if (json->comma)
        put(json, ",", 1);
    json->comma = true;
    if (name != NULL) {
        put(json, "\"", 1);
        put(json, name, strlen(name));
        put(json, "\":", 2);
    }
}

static void digits(struct json *json, uint64_t value, unsigned base)
{
    char text[20];
    size_t at = sizeof text;
    do {
        text[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    put(json, text + at, sizeof text - at);
}

void json_begin(struct json *json, char *text, size_t size)
{
    *json = (struct json){.text = text, .size = size};
    put(json, "{", 1);
}

void json_end(struct json *json)
{
    put(json, "}\n", 2);
}

void json_unsigned(struct json *json, const char *name, uint64_t value)
{
    name_of(json, name);
    digits(json, value, 10);
}

void json_number(struct json *json, const char *name, int64_t value)
{
    name_of(json, name);
    if (value < 0)
        put(json, "-", 1);
    digits(json, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
}

void json_true(struct json *json, const char *name)
{
    name_of(json, name);
    put(json, "true", 4);
}

void json_null(struct json *json)
{
    name_of(json, NULL);
    put(json, "null", 4);
}

void json_pointer(struct json *json, const char *name, uint64_t value)
{
    name_of(json, name);
    put(json, "\"0x", 3);
    digits(json, value, 16);
    put(json, "\"", 1);
}

void json_text(struct json *json, const char *name, const char *text, size_t limit)
{
    static const char hex[] = "0123456789abcdef";
    name_of(json, name);
    put(json, "\"", 1);
    for (size_t i = 0; i < limit && text[i] != '\0'; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') {
            char escaped[2] = {'\\', (char)c};
            put(json, escaped, 2);
        } else if (c < 0x20 || c >= 0x7f) { /* told byte by byte: nothing here knows the encoding */
            char escaped[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
            put(json, escaped, 6);
        } else {
            put(json, text + i, 1);
        }
    }
    put(json, "\"", 1);
}

void json_three(struct json *json, const char *name, const uint32_t value[3])
{
    json_open(json, name, '[');
    for (int i = 0; i < 3; i++)
        json_unsigned(json, NULL, value[i]);
    json_close(json, ']');
}

void json_open(struct json *json, const char *name, char bracket)
{
    name_of(json, name);
    put(json, &bracket, 1);
    json->comma = false;
}

void json_close(struct json *json, char bracket)
{
    put(json, &bracket, 1);
    json->comma = true;
}
