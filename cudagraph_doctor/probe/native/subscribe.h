/* Our subscription to CUPTI. */
#ifndef CGD_SUBSCRIBE_H
#define CGD_SUBSCRIBE_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the window's calls follow: on while a capture is open. Callable from a callback; never blocks for long. */
void subscribe_window(bool on);

#endif
