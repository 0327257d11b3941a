/* State of each thread, from a table that exists before the first callback.
 *
 * The only thread-local is one pointer in the static TLS block: the dynamic kind is allocated by malloc at first use.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

static struct thread table[THREADS];
static _Thread_local struct thread *mine __attribute__((tls_model("initial-exec")));

static bool dead(int tid)
{
    return syscall(SYS_tgkill, getpid(), tid, 0) == -1 && errno == ESRCH;
}

static bool claim(struct thread *thread, int expected, int tid)
{
    if (!atomic_compare_exchange_strong(&thread->tid, &expected, tid))
        return false;
    thread->busy = false;
    thread->depth = 0;
    thread->operator = (struct operator_words){.tid = tid};
    thread->captured = NULL;
    thread->refused = 0;
    thread->reason_length = 0;
    mine = thread;
    return true;
}

struct thread *thread_mine(void)
{
    if (mine != NULL)
        return mine;
    int saved = errno;
    int tid = (int)syscall(SYS_gettid);
    struct thread *found = NULL;
    for (int pass = 0; pass < 2 && found == NULL; pass++) {
        for (int i = 0; i < THREADS && found == NULL; i++) {
            int owner = atomic_load_explicit(&table[i].tid, memory_order_relaxed);
            /* Nobody says goodbye (a key's destructor would need malloc): look who left, when the table is full. */
            if ((pass == 0 && owner == 0) || (pass == 1 && owner != 0 && dead(owner)))
                if (claim(&table[i], owner, tid))
                    found = &table[i];
        }
    }
    errno = saved;
    return found;
}

/* Where the calling thread's operator is told; NULL if there is no room for one more thread. */
CGD_API struct operator_words *cgd_operator_words(void)
{
    struct thread *thread = thread_mine();
    return thread != NULL ? &thread->operator : NULL;
}
