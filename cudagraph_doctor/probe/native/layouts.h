#ifndef CGD_LAYOUTS_H
#define CGD_LAYOUTS_H

#include <stddef.h>

#include "calls.h"

/* Layout of the arguments of a call, by the first `length` characters of its name; NULL: unknown. */
const struct layout *layout_of(const char *name, size_t length);

#endif
