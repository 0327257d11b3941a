/* A forked child does not record through us: its CUDA is unusable, its file another one, its other threads gone. */
#include <pthread.h>

#include "probe.h"

static void in_child(void)
{
    atomic_store(&probe_off, true);
}

__attribute__((constructor)) static void watch_fork(void)
{
    pthread_atfork(NULL, NULL, in_child);
}
