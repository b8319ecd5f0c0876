/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An idle process sleeps, in waiting calls and between calls, and wakes up for requests of others.
 *
 *     acp_sleep [awake]     awake: a process that spins, which must be detected
 */
#include "check.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { QUIET_MS = 400, COPIES = 50, CPU_MS = 100, TIMES = 100, TRIES = 2 };

static void rest(long ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

struct used {
    long ms, times, at_ms;
};

static struct used used(void)
{
    struct rusage r;
    struct timespec t;

    getrusage(RUSAGE_SELF, &r);
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (struct used){(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000 +
                             (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1000,
                         r.ru_nvcsw + r.ru_nivcsw, t.tv_sec * 1000 + t.tv_nsec / 1000000};
}

/* Says which thread has switched how often. */
static void tell_of_threads(void)
{
    char command[128];

    snprintf(command, sizeof(command),
             "grep -H -e Name -e ctxt /proc/%d/task/*/status | sed 's/.*task.//' >&2",
             (int)getpid());
    if (system(command) != 0)
        fprintf(stderr, "the threads are not known\n");
}

/* Independent of the load: a spinning thread uses more CPU, or yields more often if it gets little,
 * and so does a thread that wakes up every millisecond. A loaded machine may take longer than
 * QUIET_MS: then proportionally more switches are allowed. */
static bool was_asleep(struct used before, const char *where)
{
    struct used now = used();
    long took = now.at_ms - before.at_ms;

    took = took > QUIET_MS ? took : QUIET_MS;
    if (now.ms - before.ms < CPU_MS && (now.times - before.times) * QUIET_MS < TIMES * took)
        return true;
    fprintf(stderr, "%s: %ld ms of CPU in %ld ms of quiet, %ld times\n", where, now.ms - before.ms,
            took, now.times - before.times);
    tell_of_threads();
    return false;
}

static void between_calls(bool awake)
{
    struct used before;

    acp_sync();
    rest(QUIET_MS); /* until it has seen that no more calls are made */
    before = used();
    rest(QUIET_MS);
    while (awake && used().ms - before.ms < 2 * CPU_MS)
        acp_inquire(ACP_HANDLE_ALL);
    CHECK(was_asleep(before, "between calls"));
}

static bool sleeps_in_a_call(void)
{
    struct used before;

    acp_sync();
    if (acp_rank() == 0)
        rest(QUIET_MS);
    before = used();
    if (acp_rank() == 0)
        rest(2 * QUIET_MS);
    acp_sync();
    return acp_rank() == 0 || was_asleep(before, "in acp_sync");
}

/* A process that does not sleep in its calls does so in none of them. On a loaded machine 2 of some
 * 100 runs saw one call in which a thread woke up three times in a millisecond. */
static void in_a_call(void)
{
    bool slept = false;

    for (int i = 0; i < TRIES; i++)
        slept |= sleeps_in_a_call();
    CHECK(slept);
}

/* Copies between two processes that sleep outside the library, and are notified by a word. */
static void for_others(void)
{
    uint64_t *told = acp_query_address(acp_query_starter_ga(acp_rank()));
    acp_ga_t out = acp_query_starter_ga(0);

    told[0] = 0;
    told[1] = 77;
    acp_sync();
    if (acp_rank() == 0) {
        told[2] = 1;
        for (int i = 0; i < COPIES; i++) {
            acp_ga_t from = acp_query_starter_ga(1 + i % 2) + 8;
            acp_ga_t to = acp_query_starter_ga(2 - i % 2) + 24 + 8 * (size_t)i;
            rest(i % 5);
            acp_complete(acp_copy(to, from, 8, ACP_HANDLE_NULL));
        }
        for (int r = 1; r < 3; r++)
            acp_complete(acp_copy(acp_query_starter_ga(r), out + 16, 8, ACP_HANDLE_NULL));
    } else {
        while (__atomic_load_n(told, __ATOMIC_ACQUIRE) == 0)
            rest(10);
        for (int i = 0; i < COPIES; i++)
            CHECK(told[3 + i] == (2 - i % 2 == acp_rank() ? 77 : 0));
    }
    acp_sync();
}

int main(int argc, char **argv)
{
    CHECK(acp_init(&argc, &argv) == 0);
    CHECK(acp_procs() == 3);
    for_others();
    between_calls(argc > 1);
    in_a_call();
    CHECK(acp_finalize() == 0);
    return 0;
}
