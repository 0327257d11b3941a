/* Threads that capture, launch, allocate, free, load modules, load libraries and fork, all at once, under the probe.
 * Run plain, under AddressSanitizer and under ThreadSanitizer. Ends with status 0 if the trace holds a record for every
 * watched call, none was lost, and CUPTI's calls never overlapped.
 *
 *     stress LIBPROBE LIBCUPTI LIBCUDA TRACE SECONDS */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../cudagraph_doctor/probe/native/probe.h"
#include "stub.h"

enum { WORKERS = 8 };

static const char *libcuda;
static atomic_bool over;
static atomic_long expected; /* records that must be in the trace */
static int stack_fd = -1;

static void write_stack(int signal_number)
{
    static const char text[] = "Stack (most recent call first):\n  File \"/site/torch/x.py\", line 7 in run\n"
                               "  File \"/home/user/decode.py\", line 12 in <module>\n";
    (void)signal_number;
    if (write(stack_fd, text, sizeof text - 1) < 0)
        abort();
}

static void work(int id)
{
    CUstream stream = NULL;
    void *graph = NULL, *exec = NULL, *module = NULL;
    uint64_t pointer = 0;
    cuStreamCreate(&stream, 1); /* recorded only if another thread captures: not counted */
    for (int round = 0; !atomic_load(&over); round++) {
        usleep(500); /* the trace grows by some 10 MB a second and stays readable */
        cuStreamBeginCapture_v2(stream, 1);
        for (int i = 0; i < 20; i++)
            cuLaunchKernel((void *)0x99, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
        cuMemcpyHtoDAsync_v2(0x1234, &pointer, 64, stream);
        if (round % 5 == 0)
            cuMemAlloc_v2(&pointer, 256); /* breaks this thread's capture */
        cuStreamEndCapture(stream, &graph);
        /* capture + outcome + call, 20 launches, 1 copy, capture-end + outcome + intention + outcome */
        atomic_fetch_add(&expected, 3 + 21 + 4);
        if (round % 5 == 0)
            atomic_fetch_add(&expected, 1 + 1 + 2); /* the allocation, the change of status, two entries of the log */
        if (graph != NULL) {
            cuGraphInstantiateWithFlags(&exec, graph, 0);
            atomic_fetch_add(&expected, 2);
            cuGraphLaunch(exec, stream);
        }
        cuMemAlloc_v2(&pointer, 512);
        cuMemFree_v2(pointer);
        cuModuleLoadData(&module, "");
        cuModuleUnload(module);
        atomic_fetch_add(&expected, 5);
        if (round % 7 == id % 7) {
            void *library = dlopen(libcuda, RTLD_NOW);
            dlclose(library);
        }
        if (round % 50 == 49) {
            CUstream second = NULL;
            cuStreamCreate(&second, 1);
            cuStreamDestroy_v2(second);
        }
    }
    cuStreamDestroy_v2(stream);
}

static void *worker(void *argument)
{
    work((int)(intptr_t)argument);
    return NULL;
}

static void *short_lived(void *argument)
{
    uint64_t pointer = 0;
    (void)argument;
    cuMemAlloc_v2(&pointer, 8);
    atomic_fetch_add(&expected, 1);
    return NULL;
}

static void fork_once(void)
{
    pid_t child = fork();
    if (child == 0) { /* nothing of a child's calls may reach its parent's trace */
        uint64_t pointer = 0;
        cuMemAlloc_v2(&pointer, 999999);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
}

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "stress: %s\n", what);
        exit(1);
    }
}

int main(int count, char **arguments)
{
    must(count == 6, "usage: stress LIBPROBE LIBCUPTI LIBCUDA TRACE SECONDS");
    libcuda = arguments[3];
    void *probe = dlopen(arguments[1], RTLD_NOW);
    must(probe != NULL, "the probe cannot be loaded");
    int (*configure)(const struct cgd_config *);
    int (*arm)(uint32_t *, char *);
    int (*release)(void);
    *(void **)&configure = dlsym(probe, "cgd_configure");
    *(void **)&arm = dlsym(probe, "cgd_arm");
    *(void **)&release = dlsym(probe, "cgd_release");
    void *cupti = dlopen(arguments[2], RTLD_NOW | RTLD_GLOBAL);
    must(cupti != NULL, "the stub cannot be loaded");

    int trace = open(arguments[4], O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    struct stat trace_stat, stack_stat;
    fstat(trace, &trace_stat);
    stack_fd = memfd_create("stacks", MFD_CLOEXEC);
    must(ftruncate(stack_fd, 1 << 18) == 0, "no memory file");
    fstat(stack_fd, &stack_stat);
    struct sigaction action = {.sa_handler = write_stack, .sa_flags = SA_RESTART};
    sigaction(SIGRTMAX - 5, &action, NULL);
    static uint64_t head[8] = {1};
    static const char roots[] = "/site/\0site:\0library\0/home/user/\0target:\0user\0";
    struct cgd_config configuration = {
        .size = sizeof configuration,
        .trace_fd = trace,
        .trace_dev = trace_stat.st_dev,
        .trace_ino = trace_stat.st_ino,
        .stack_fd = stack_fd,
        .stack_signal = SIGRTMAX - 5,
        .stack_dev = stack_stat.st_dev,
        .stack_ino = stack_stat.st_ino,
        .head = head,
        .cupti = arguments[2],
        .driver = arguments[3],
        .roots = roots,
    };
    must(configure(&configuration) == 0, "the configuration was refused");
    uint32_t version = 0;
    char holder[64] = "";
    must(arm(&version, holder) == 0, "the probe cannot subscribe");

    pthread_t threads[WORKERS], brief;
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i);
    time_t end = time(NULL) + atoi(arguments[5]);
    for (int i = 0; time(NULL) < end; i++) {
        pthread_create(&brief, NULL, short_lived, NULL);
        pthread_join(brief, NULL);
        if (i % 20 == 0)
            fork_once();
    }
    atomic_store(&over, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    must(release() == 0, "the probe cannot unsubscribe");
    uint64_t pointer = 0;
    cuMemAlloc_v2(&pointer, 888888); /* released: not recorded */

    atomic_int *races = dlsym(cupti, "stub_enable_races");
    must(races != NULL && atomic_load(races) == 0, "cuptiEnableCallback was called by two threads at a time");
    must(head[1] == 0, "records were lost");
    printf("%ld\n", atomic_load(&expected));
    return 0;
}
