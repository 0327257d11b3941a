/* Our subscription to CUPTI. */
#ifndef CGD_SUBSCRIBE_H
#define CGD_SUBSCRIBE_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the window's calls follow: on while a capture is open. Called from callbacks: at the entry of a begin
 * (`opening`) it comes back when they are on, or after a second; at an end it never waits. */
void subscribe_window(bool opening);

#endif
