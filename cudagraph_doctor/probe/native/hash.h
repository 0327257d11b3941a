#ifndef CGD_HASH_H
#define CGD_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a, 64 bits, never 0: two texts of one program meet with a chance of some 10^-12. */
static inline uint64_t hash_of(const char *bytes, size_t length)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < length; i++) {
        hash ^= (unsigned char)bytes[i];
        hash *= 1099511628211u;
    }
    return hash != 0 ? hash : 1;
}

#endif
