/* The sequence counter that Python and C share: one word in the head of the slots file. */
#include "sequence.h"

#include "probe.h"

uint64_t sequence_draw(void)
{
    return __atomic_fetch_add(&config.head[0], 1, __ATOMIC_RELAXED);
}

CGD_API uint64_t cgd_draw(void)
{
    return sequence_draw();
}
