#include "paths.h"

#include <string.h>

#include "hash.h"
#include "probe.h"
#include "record.h"

enum { FRESH_SIZE = 1 << 18, FILES = 1 << 12, PATH_LIMIT = 512 };

static struct {
    uint64_t hash;
    int64_t id;
} files[FILES];
static int file_count;

/* For Python, which writes a better record: with the text, the distribution, and the owner decided by all its rules. */
static char fresh[FRESH_SIZE];
static size_t fresh_used;

/* An entry of the roots' table: everything below `prefix` is told as `named`, with that role. */
struct root {
    const char *prefix, *named, *role;
};

static const char *after(const char *text)
{
    return text + strlen(text) + 1;
}

static struct root root_of(const char *path, size_t length)
{
    for (const char *at = config.roots; at != NULL && *at != '\0';) {
        struct root root = {at, after(at), after(after(at))};
        size_t size = strlen(root.prefix);
        if (length >= size && memcmp(path, root.prefix, size) == 0)
            return root;
        at = after(root.role);
    }
    return (struct root){"", "abs:", "user"};
}

static void write_source(int64_t id, const char *path, size_t length, const struct root *root, int tid)
{
    static char line[LINE_SIZE];
    char told[PATH_LIMIT + 1];
    size_t used = strlen(root->named), skip = strlen(root->prefix);
    memcpy(told, root->named, used);
    size_t rest = length - skip < PATH_LIMIT - used ? length - skip : PATH_LIMIT - used;
    memcpy(told + used, path + skip, rest);
    told[used + rest] = '\0';
    struct json json;
    record_begin(&json, line, sizeof line, "source", tid);
    json_number(&json, "id", id);
    json_text(&json, "path", told, PATH_LIMIT);
    json_text(&json, "role", root->role, 16);
    json_text(&json, "why", "seen without the GIL, and not looked at since", 64);
    record_end(&json);
}

static void remember(int64_t id, const char *path, size_t length)
{
    char number[24];
    size_t used = 0;
    for (uint64_t value = (uint64_t)-id; value != 0; value /= 10)
        number[used++] = (char)('0' + value % 10);
    if (fresh_used + used + length + 3 > FRESH_SIZE)
        return; /* Python will not improve this one's record */
    fresh[fresh_used++] = '-';
    while (used > 0)
        fresh[fresh_used++] = number[--used];
    fresh[fresh_used++] = '\0';
    memcpy(fresh + fresh_used, path, length);
    fresh_used += length;
    fresh[fresh_used++] = '\0';
}

int64_t paths_id(const char *path, size_t length, int tid)
{
    uint64_t hash = hash_of(path, length);
    uint32_t place = (uint32_t)(hash % FILES);
    for (; files[place].hash != 0; place = (place + 1) % FILES)
        if (files[place].hash == hash)
            return files[place].id;
    if (file_count >= FILES * 3 / 4)
        return 0;
    struct root root = root_of(path, length);
    files[place].hash = hash;
    if (*root.named == '\0') {
        files[place].id = PATHS_OURS;
    } else {
        files[place].id = -(int64_t)++file_count;
        write_source(files[place].id, path, length, &root, tid);
        remember(files[place].id, path, length);
    }
    return files[place].id;
}

size_t paths_take(char *into, size_t size)
{
    size_t used = fresh_used <= size ? fresh_used : 0;
    memcpy(into, fresh, used);
    fresh_used -= used;
    return used;
}
