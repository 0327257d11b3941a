#define _GNU_SOURCE
#include "subscribe.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "callback.h"
#include "calls.h"
#include "cupti.h"
#include "probe.h"
#include "record.h"
#include "window.h"

struct cgd_config config = {.trace_fd = -1, .stack_fd = -1};
atomic_bool probe_off = true;

static struct cupti cupti;
static void *subscriber;

/* cuptiEnableCallback must not run twice at a time (cupti_callbacks.h). Nobody waits for long: whoever has the flag
 * looks again, before and after it gives it back, at what is wished by then. */
static atomic_flag enabling = ATOMIC_FLAG_INIT;
static atomic_bool applied; /* the window's calls are on */

static void enable(enum call_set set, bool on)
{
    for (uint32_t id = 1; id < CALLS; id++)
        if (calls[id].name != NULL && calls[id].set == set)
            cupti.enable_callback(on, subscriber, CUPTI_DOMAIN_DRIVER_API, id);
}

void subscribe_window(bool opening)
{
    enum { PATIENCE = 1000000000 }; /* nanoseconds */
    uint64_t start = 0;
    while (!atomic_load(&probe_off)) {
        if (!atomic_flag_test_and_set(&enabling)) {
            bool wish;
            while ((wish = window_open()) != atomic_load(&applied) && !atomic_load(&probe_off)) {
                enable(WINDOW, wish);
                atomic_store(&applied, wish);
            }
            atomic_flag_clear(&enabling);
            if (window_open() == atomic_load(&applied))
                return;
        } else if (!opening) {
            return; /* the one who has the flag will see it */
        } else {    /* the calls that follow should be seen: wait until they are switched on */
            uint64_t now = record_time();
            if (start == 0)
                start = now;
            if (now - start > PATIENCE) {
                record_lost(1, ETIMEDOUT);
                return;
            }
            sched_yield();
        }
    }
}

/* ── the self-test of our declarations ─────────────────────────────────────────────────────── */

enum { TEST_CALLS = 2 };

static struct {
    const char *_Atomic name; /* set while the test runs */
    struct thread *_Atomic thread;
    int *argument;
    uint32_t correlation, last;
    int entered, left, wrong;
} test;

static void on_test_call(const struct cupti_call *call)
{
    if (call->site == CUPTI_ENTER) {
        test.entered++;
        test.wrong += call->correlation_id == 0 || call->correlation_id == test.last; /* a new one for each call */
        test.correlation = test.last = call->correlation_id;
    } else if (call->site == CUPTI_EXIT) {
        test.left++;
        test.wrong += call->result == NULL || *(int *)call->result != CODE_SUCCESS;
        test.wrong += call->correlation_id != test.correlation;
    } else {
        test.wrong++;
        return;
    }
    test.wrong += call->function_name == NULL || strcmp(call->function_name, test.name) != 0;
    test.wrong += call->params == NULL || *(int *const *)call->params != test.argument;
}

static void dispatch(void *user, int domain, uint32_t callback_id, const struct cupti_call *call)
{
    if (test.name != NULL && test.thread == thread_mine())
        on_test_call(call);
    else
        on_driver_call(user, domain, callback_id, call);
}

static bool declarations_hold(void)
{
    int version = 0;
    for (uint32_t id = 1; id < CALLS; id++) {
        const char *name = NULL;
        if (cupti.get_callback_name(CUPTI_DOMAIN_DRIVER_API, id, &name) != CUPTI_SUCCESS || name == NULL ||
            strcmp(name, "cuDriverGetVersion") != 0)
            continue;
        test.argument = &version;
        test.entered = test.left = test.wrong = 0;
        test.last = 0;
        test.thread = thread_mine();
        test.name = name;
        cupti.enable_callback(1, subscriber, CUPTI_DOMAIN_DRIVER_API, id);
        for (int i = 0; i < TEST_CALLS; i++)
            driver.driver_get_version(&version);
        cupti.enable_callback(0, subscriber, CUPTI_DOMAIN_DRIVER_API, id);
        test.name = NULL;
        return test.entered == TEST_CALLS && test.left == TEST_CALLS && test.wrong == 0;
    }
    return false;
}

/* ── what Python calls ─────────────────────────────────────────────────────────────────────── */

enum { ARMED = 0, NO_LIBRARY = -1, NO_SYMBOL = -2, OTHER_LAYOUT = -3, NO_CONFIG = -4 };

static bool resolve(void)
{
    /* RTLD_NOLOAD: the copy that torch has mapped, never a second one. */
    void *c = dlopen(config.cupti, RTLD_NOW | RTLD_NOLOAD);
    void *d = dlopen(config.driver, RTLD_NOW | RTLD_NOLOAD);
    if (c == NULL || d == NULL)
        return false;
    *(void **)&cupti.get_version = dlsym(c, "cuptiGetVersion");
    *(void **)&cupti.subscribe = dlsym(c, "cuptiSubscribe");
    *(void **)&cupti.subscribe_v2 = dlsym(c, "cuptiSubscribe_v2");
    *(void **)&cupti.unsubscribe = dlsym(c, "cuptiUnsubscribe");
    *(void **)&cupti.enable_callback = dlsym(c, "cuptiEnableCallback");
    *(void **)&cupti.get_callback_name = dlsym(c, "cuptiGetCallbackName");
    *(void **)&driver.driver_get_version = dlsym(d, "cuDriverGetVersion");
    *(void **)&driver.is_capturing = dlsym(d, "cuStreamIsCapturing");
    *(void **)&driver.capture_info_v2 = dlsym(d, "cuStreamGetCaptureInfo_v2");
    *(void **)&driver.capture_info_v3 = dlsym(d, "cuStreamGetCaptureInfo_v3");
    *(void **)&driver.ctx_get_device = dlsym(d, "cuCtxGetDevice");
    *(void **)&driver.module_function_count = dlsym(d, "cuModuleGetFunctionCount");
    *(void **)&driver.module_functions = dlsym(d, "cuModuleEnumerateFunctions");
    *(void **)&driver.library_kernel_count = dlsym(d, "cuLibraryGetKernelCount");
    *(void **)&driver.library_kernels = dlsym(d, "cuLibraryEnumerateKernels");
    *(void **)&driver.logs_register = dlsym(d, "cuLogsRegisterCallback");
    *(void **)&driver.logs_unregister = dlsym(d, "cuLogsUnregisterCallback");
    return true;
}

CGD_API int cgd_abi(void)
{
    return CGD_ABI;
}

CGD_API int cgd_configure(const struct cgd_config *from)
{
    if (from->size != sizeof config || from->head == NULL)
        return NO_CONFIG;
    config = *from;
    return ARMED;
}

/* The trace is another file now (it was unlinked and written anew, or opened again). */
CGD_API void cgd_use_trace(int fd, uint64_t dev, uint64_t ino)
{
    config.trace_dev = dev;
    config.trace_ino = ino;
    config.trace_fd = fd;
}

/* Subscribes and enables the calls of the ALWAYS set. Returns 0, a negative reason of ours or a CUptiResult. `version`
 * receives CUPTI's version; `holder` (64 bytes) the name of a tool that is in the way, where CUPTI tells. */
CGD_API int cgd_arm(uint32_t *version, char *holder)
{
    if (subscriber != NULL)
        return ARMED;
    if (config.head == NULL)
        return NO_CONFIG;
    if (!resolve())
        return NO_LIBRARY;
    if (cupti.subscribe == NULL || cupti.unsubscribe == NULL || cupti.enable_callback == NULL ||
        cupti.get_callback_name == NULL || driver.driver_get_version == NULL || driver.is_capturing == NULL ||
        (driver.capture_info_v2 == NULL && driver.capture_info_v3 == NULL))
        return NO_SYMBOL;
    if (cupti.get_version != NULL)
        cupti.get_version(version);
    int result = cupti.subscribe(&subscriber, dispatch, NULL);
    if (result != CUPTI_SUCCESS) {
        subscriber = NULL;
        if (cupti.subscribe_v2 != NULL) { /* fails too, but tells who holds the subscription */
            void *second = NULL;
            struct cupti_subscriber_params params = {sizeof params, "cudagraph-doctor", holder, 64};
            if (cupti.subscribe_v2(&second, dispatch, NULL, &params) == CUPTI_SUCCESS)
                cupti.unsubscribe(second);
        }
        return result;
    }
    if (!declarations_hold()) {
        cupti.unsubscribe(subscriber);
        subscriber = NULL;
        return OTHER_LAYOUT;
    }
    calls_collect(cupti.get_callback_name);
    atomic_store(&probe_off, false);
    while (atomic_flag_test_and_set(&enabling))
        sched_yield();
    enable(ALWAYS, true);
    atomic_flag_clear(&enabling);
    logs_start();
    return ARMED;
}

/* Records nothing any more, without asking CUPTI: the interpreter is about to end. */
CGD_API void cgd_stop(void)
{
    atomic_store(&probe_off, true);
}

/* Gives CUPTI free. Callbacks under way on other threads end as no-ops. */
CGD_API int cgd_release(void)
{
    if (subscriber == NULL)
        return CUPTI_SUCCESS;
    atomic_store(&probe_off, true);
    logs_stop();
    while (atomic_flag_test_and_set(&enabling))
        sched_yield();
    int result = cupti.unsubscribe(subscriber); /* cuptiFinalize is never called: it would take CUPTI from the target */
    subscriber = NULL;
    atomic_store(&applied, false);
    atomic_flag_clear(&enabling);
    return result;
}
