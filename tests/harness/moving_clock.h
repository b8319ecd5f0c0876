/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A monotonic clock for the processes of ut_run(), which they can stop and move: a test of a time
 * limit does not wait for it. The clock runs until a process calls ut_clock_stop(); then it stands
 * still for all of them but for ut_clock_pass_ms(), until ut_clock_run(). It replaces the C
 * library's function in the including program and in the libraries that it uses; sleeps and
 * timeouts of system calls take real time. To be included once.
 */
#ifndef UT_TEST_MOVING_CLOCK_H
#define UT_TEST_MOVING_CLOCK_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ends.h"
#include "harness.h"

static struct {
    uint64_t stopped_ns; /* 0: the clock runs */
    uint64_t passed_ns;  /* ahead of the real clock */
} * moving_clock;        /* shared by all processes of the test */

static void __attribute__((constructor)) share_moving_clock(void)
{
    moving_clock = mmap(NULL, sizeof(*moving_clock), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (moving_clock == MAP_FAILED)
        abort();
}

static uint64_t real_clock_ns(clockid_t clock)
{
    struct timespec t;

    syscall(SYS_clock_gettime, clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (!moving_clock || (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE))
        return (int)syscall(SYS_clock_gettime, clock, t);
    uint64_t ns = __atomic_load_n(&moving_clock->stopped_ns, __ATOMIC_ACQUIRE);

    if (!ns)
        ns = real_clock_ns(clock);
    ns += __atomic_load_n(&moving_clock->passed_ns, __ATOMIC_ACQUIRE);
    t->tv_sec = (time_t)(ns / 1000000000);
    t->tv_nsec = (long)(ns % 1000000000);
    return 0;
}

static inline void ut_clock_stop(void)
{
    __atomic_store_n(&moving_clock->stopped_ns, real_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
}

static inline void ut_clock_run(void)
{
    __atomic_store_n(&moving_clock->stopped_ns, 0, __ATOMIC_RELEASE);
}

static inline void ut_clock_pass_ms(uint64_t ms)
{
    __atomic_add_fetch(&moving_clock->passed_ns, ms * 1000000, __ATOMIC_RELEASE);
}

/* True where only this library has time limits: over a network a peer has to answer meanwhile. */
static inline bool ut_clock_may_stop(void)
{
    const char *provider = getenv("UTOFU_PROVIDER");

    return !provider || strcmp(provider, "shm") == 0;
}

/* Like ut_await_mrq(), with a clock that only moves here, by 10 ms at each empty poll, if it may be
 * stopped. *passed_ms: by how much it has moved. */
static inline int ut_await_mrq_moving(utofu_vcq_hdl_t vcq, struct utofu_mrq_notice *notice,
                                      uint64_t *passed_ms)
{
    bool stops = ut_clock_may_stop();
    struct timespec begin, end;
    int rc;

    if (stops)
        ut_clock_stop();
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while ((rc = utofu_poll_mrq(vcq, 0, notice)) == UTOFU_ERR_NOT_FOUND) {
        if (stops)
            ut_clock_pass_ms(10);
        ut_relax();
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (stops)
        ut_clock_run();
    *passed_ms = (uint64_t)(end.tv_sec - begin.tv_sec) * 1000 + (uint64_t)(end.tv_nsec / 1000000) -
                 (uint64_t)(begin.tv_nsec / 1000000);
    return rc;
}

#endif
