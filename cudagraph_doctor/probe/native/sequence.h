#ifndef CGD_SEQUENCE_H
#define CGD_SEQUENCE_H

#include <stdint.h>

/* The next sequence number of the process. */
uint64_t sequence_draw(void);

#endif
