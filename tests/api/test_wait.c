/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping until a VCQ has an entry to poll: utofu_wait_vcqs(), utofu_wake_vcq(). */
#include "../harness/moving_clock.h"
#include "ends.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "utofu_ext.h"

TestSuite(wait);

enum { FOR_EVER = -1, NAP_US = 20000, ROUNDS = 300, VCQS = 3, BIG = 1 << 20 };

static int wait_for(const struct ut_end *end, int64_t timeout_us)
{
    return utofu_wait_vcqs(&end->vcq, 1, timeout_us);
}

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static struct ut_comm word_to(const struct ut_end *end, const struct ut_peer *peer, uint64_t *value,
                              unsigned long flags)
{
    return (struct ut_comm){.kind = UT_PIGGYBACK8,
                            .vcq = end->vcq,
                            .rmt = peer->id,
                            .data = value,
                            .rmt_stadd = peer->stadd,
                            .length = 8,
                            .flags = flags};
}

static void put_word(const struct ut_end *end, const struct ut_peer *peer, unsigned long flags)
{
    uint64_t value = 1;
    struct ut_comm comm = word_to(end, peer, &value, flags);

    ut_submit(&comm);
}

static void put_big(const struct ut_end *end, const struct ut_peer *peer, unsigned long flags)
{
    struct ut_comm comm = {.kind = UT_PUT,
                           .vcq = end->vcq,
                           .rmt = peer->id,
                           .lcl_stadd = end->stadd,
                           .rmt_stadd = peer->stadd,
                           .length = BIG,
                           .flags = flags};

    ut_submit(&comm);
}

/* Sleeps until the TCQ, or the MRQ, has an entry, and takes it. The wait may end without an
 * entry. */
static void take_tcq(const struct ut_end *end)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(end->vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        CHECK_OK(wait_for(end, FOR_EVER));
    CHECK_OK(rc);
}

static int take_mrq_of(const utofu_vcq_hdl_t *vcqs, size_t num, struct utofu_mrq_notice *notice)
{
    for (;;) {
        for (size_t i = 0; i < num; i++) {
            int rc = utofu_poll_mrq(vcqs[i], 0, notice);
            if (rc != UTOFU_ERR_NOT_FOUND)
                return rc;
        }
        CHECK_OK(utofu_wait_vcqs(vcqs, num, FOR_EVER));
    }
}

static void take_mrq(const struct ut_end *end, uint8_t type)
{
    struct utofu_mrq_notice notice;

    CHECK_OK(take_mrq_of(&end->vcq, 1, &notice));
    CHECK_EQ(notice.notice_type, type);
}

/*
 * Notices from before the wait, and waits without a notice
 */

static void before(void *arg)
{
    struct ut_end end;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    struct ut_peer self = ut_end_peer(&end);
    ut_flush(&end, &self);
    CHECK_RC(wait_for(&end, 0), UTOFU_ERR_NOT_FOUND);
    put_word(&end, &self, UT_TCQ | UT_LCL | UT_RMT);
    for (int i = 0; i < 3; i++) /* waiting takes no entry */
        CHECK_OK(wait_for(&end, FOR_EVER));
    CHECK_OK(wait_for(&end, 0));
    take_tcq(&end);
    CHECK_OK(wait_for(&end, FOR_EVER));
    take_mrq(&end, UTOFU_MRQ_TYPE_LCL_PUT);
    take_mrq(&end, UTOFU_MRQ_TYPE_RMT_PUT);
    CHECK_RC(wait_for(&end, 0), UTOFU_ERR_NOT_FOUND);
    put_word(&end, &self, 0); /* no notice */
    CHECK_RC(wait_for(&end, NAP_US), UTOFU_ERR_NOT_FOUND);
    ut_end_close(&end);
}

Test(wait, what_is_there_ends_it_at_once)
{
    ut_run(&(struct ut_run_opts){.n = 1}, before, NULL);
}

static void never(void *arg)
{
    struct ut_end ends[VCQS];
    utofu_vcq_hdl_t vcqs[VCQS];
    int64_t begin = now_us();

    (void)arg;
    for (int i = 0; i < VCQS; i++) {
        ut_end_open(&ends[i], (utofu_tni_id_t)i, 0, 4096);
        vcqs[i] = ends[i].vcq;
    }
    CHECK_RC(utofu_wait_vcqs(vcqs, VCQS, 0), UTOFU_ERR_NOT_FOUND);
    CHECK_RC(utofu_wait_vcqs(vcqs, VCQS, NAP_US), UTOFU_ERR_NOT_FOUND);
    CHECK_RC(wait_for(&ends[0], NAP_US), UTOFU_ERR_NOT_FOUND);
    CHECK(now_us() - begin >= 2 * NAP_US);
    for (int i = 0; i < VCQS; i++)
        ut_end_close(&ends[i]);
}

Test(wait, it_ends_when_the_time_is_over)
{
    ut_run(&(struct ut_run_opts){.n = 1}, never, NULL);
}

/* The C library's function: in one test each sleep takes its time at once, to the nanosecond. */
static bool sleeps_pass;
static uint64_t slept_ns[4];
static unsigned int num_sleeps;

__attribute__((visibility("default"))) int ppoll(struct pollfd *fds, nfds_t n,
                                                 const struct timespec *timeout,
                                                 const sigset_t *mask)
{
    if (!sleeps_pass)
        return (int)syscall(SYS_ppoll, fds, n, timeout, mask, sizeof(uint64_t));
    uint64_t ns = (uint64_t)timeout->tv_sec * 1000000000 + (uint64_t)timeout->tv_nsec;

    slept_ns[num_sleeps++ % 4] = ns;
    __atomic_add_fetch(&moving_clock->passed_ns, ns, __ATOMIC_RELEASE);
    return 0;
}

/* A long wait is several sleeps of at most a second: the program may close the descriptors. */
static void long_wait(void *arg)
{
    struct ut_end end;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    if (ut_clock_may_stop()) {
        ut_clock_stop();
        sleeps_pass = true;
        CHECK_RC(wait_for(&end, 2345678), UTOFU_ERR_NOT_FOUND);
        sleeps_pass = false;
        ut_clock_run();
        CHECK(num_sleeps == 3 && slept_ns[0] == 1000000000 && slept_ns[1] == 1000000000 &&
                  slept_ns[2] == 345678000,
              "%u sleeps, the last one of %llu ns", num_sleeps, (unsigned long long)slept_ns[2]);
    }
    ut_end_close(&end);
}

Test(wait, it_sleeps_a_second_at_a_time)
{
    ut_run(&(struct ut_run_opts){.n = 1}, long_wait, NULL);
}

/* Independent of the load: threads that spin, or wake up every millisecond, use more. */
static void sleeping(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    struct rusage first, last;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    ut_flush(&end, &peers[!ut_rank]);
    ut_barrier();
    while (wait_for(&end, NAP_US) == UTOFU_SUCCESS)
        ; /* until the background thread has detected that the program does not poll */
    getrusage(RUSAGE_SELF, &first);
    CHECK_RC(wait_for(&end, 15 * NAP_US), UTOFU_ERR_NOT_FOUND);
    getrusage(RUSAGE_SELF, &last);
    long us = (last.ru_utime.tv_sec - first.ru_utime.tv_sec) * 1000000L +
              (last.ru_stime.tv_sec - first.ru_stime.tv_sec) * 1000000L + last.ru_utime.tv_usec -
              first.ru_utime.tv_usec + last.ru_stime.tv_usec - first.ru_stime.tv_usec;
    long times = last.ru_nvcsw - first.ru_nvcsw;
    CHECK(us < 100000 && times < 60, "%ld us of CPU in 300 ms of sleep, %ld times", us, times);
    ut_close_all(&end);
}

Test(wait, a_thread_that_waits_uses_no_cpu)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2}, sleeping, NULL);
}

/*
 * Entries during the wait
 */

/* The first contact, and every kind of entry, while both processes sleep. */
static void during(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, BIG, peers);
    const struct ut_peer *peer = &peers[!ut_rank];
    for (int round = 0; round < ROUNDS / 3; round++) {
        ut_step("round %d", round);
        if (ut_rank == round % 2) {
            ut_random_delay(2000);
            put_word(&end, peer, UT_TCQ | UT_RMT);
            take_tcq(&end);
            put_big(&end, peer, UT_LCL | UT_RMT);
            take_mrq(&end, UTOFU_MRQ_TYPE_LCL_PUT);
            put_big(&end, peer, UT_TCQ);
            take_tcq(&end);
        } else {
            take_mrq(&end, UTOFU_MRQ_TYPE_RMT_PUT);
            take_mrq(&end, UTOFU_MRQ_TYPE_RMT_PUT);
        }
    }
    ut_close_all(&end);
}

Test(wait, arrivals_and_completions_end_it)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2}, during, NULL);
}

/* A ball returned at once or after a while: all moments between polling and sleeping. */
static void ball(void *arg)
{
    struct ut_end ends[VCQS];
    struct ut_peer mine[VCQS], all[2][VCQS];
    utofu_vcq_hdl_t vcqs[VCQS];

    (void)arg;
    for (int i = 0; i < VCQS; i++) {
        ut_end_open(&ends[i], (utofu_tni_id_t)i, 0, 4096);
        mine[i] = ut_end_peer(&ends[i]);
        vcqs[i] = ends[i].vcq;
    }
    ut_allgather(mine, all, sizeof(mine));
    for (int round = 0; round < 4 * ROUNDS; round++) {
        ut_step("round %d", round);
        if (ut_rank == round % 2) {
            uint64_t k = ut_random_below(VCQS), value = 1;
            struct ut_comm comm =
                word_to(&ends[k], &all[!ut_rank][ut_random_below(VCQS)], &value, UT_RMT);
            if (ut_random_below(2))
                ut_random_delay(300);
            ut_submit(&comm);
        } else {
            struct utofu_mrq_notice notice;
            CHECK_OK(take_mrq_of(vcqs, VCQS, &notice));
        }
    }
    ut_barrier();
    for (int i = 0; i < VCQS; i++)
        ut_end_close(&ends[i]);
}

Test(wait, no_arrival_at_any_of_several_vcqs_is_lost)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .timeout_s = 120}, ball, NULL);
}

static void dying(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    struct utofu_mrq_notice notice;
    int rc;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    ut_flush(&end, &peers[!ut_rank]);
    ut_barrier();
    if (ut_rank == 1) {
        ut_mark_dead(1);
        kill(getpid(), SIGKILL);
    }
    do {
        put_word(&end, &peers[1], UT_LCL);
        rc = take_mrq_of(&end.vcq, 1, &notice);
        (void)wait_for(&end, 1000); /* without a background thread the process learns of it here */
    } while (rc == UTOFU_SUCCESS);
    CHECK_RC(rc, UTOFU_ERR_MRQ_PEER);
    ut_end_close(&end);
}

Test(wait, the_error_of_a_communication_ends_it)
{
    ut_run(&(struct ut_run_opts){.n = 2,
                                 .nodes = 2,
                                 .env = {"UTOFU_PEER_TIMEOUT=2", "UTOFU_LOG_LEVEL=error"},
                                 .may_die = 1u << 1},
           dying, NULL);
}

/*
 * Other threads
 */

struct helper {
    pthread_t thread;
    struct ut_end *end;
    int rounds;
};

static _Atomic int naps; /* waits that have ended */

static void *wait_and_count(void *arg)
{
    struct helper *h = arg;

    for (int i = 0; i < h->rounds; i++) {
        CHECK_OK(wait_for(h->end, FOR_EVER));
        naps++;
    }
    return NULL;
}

static void start(struct helper *h, struct ut_end *end, int rounds, void *(*function)(void *))
{
    *h = (struct helper){.end = end, .rounds = rounds};
    CHECK(pthread_create(&h->thread, NULL, function, h) == 0);
}

static void woken(void *arg)
{
    struct ut_end end;
    struct helper h;

    (void)arg;
    ut_end_open(&end, 0, UTOFU_VCQ_FLAG_THREAD_SAFE, 4096);
    for (int i = 0; i < 3; i++) /* before the wait: they count as one */
        CHECK_OK(utofu_wake_vcq(end.vcq));
    CHECK_OK(wait_for(&end, FOR_EVER));
    CHECK_RC(wait_for(&end, 0), UTOFU_ERR_NOT_FOUND);
    CHECK_OK(utofu_wake_vcq(end.vcq));
    CHECK_OK(wait_for(&end, 0));
    CHECK_RC(wait_for(&end, NAP_US), UTOFU_ERR_NOT_FOUND);
    /* one wake ends one wait, at any moment */
    naps = 0;
    start(&h, &end, ROUNDS, wait_and_count);
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 4 == 0)
            ut_random_delay(500);
        CHECK_OK(utofu_wake_vcq(end.vcq));
        while (naps == i)
            ut_relax();
        CHECK_EQ(naps, i + 1);
    }
    pthread_join(h.thread, NULL);
    ut_end_close(&end);
}

Test(wait, another_thread_ends_it_once)
{
    ut_run(&(struct ut_run_opts){.n = 1}, woken, NULL);
}

/* All waiting threads return. */
static void all_woken(void *arg)
{
    enum { SLEEPERS = 4 };
    struct ut_end end;
    struct helper helpers[SLEEPERS];

    (void)arg;
    ut_end_open(&end, 0, UTOFU_VCQ_FLAG_THREAD_SAFE, 4096);
    struct ut_peer self = ut_end_peer(&end);
    for (int round = 0; round < ROUNDS / 10; round++) {
        naps = 0;
        for (int i = 0; i < SLEEPERS; i++)
            start(&helpers[i], &end, 1, wait_and_count);
        ut_random_delay(2000);
        put_word(&end, &self, UT_RMT);
        for (int i = 0; i < SLEEPERS; i++)
            pthread_join(helpers[i].thread, NULL);
        CHECK_EQ(naps, SLEEPERS);
        take_mrq(&end, UTOFU_MRQ_TYPE_RMT_PUT);
    }
    ut_end_close(&end);
}

Test(wait, all_threads_that_wait_return)
{
    ut_run(&(struct ut_run_opts){.n = 1}, all_woken, NULL);
}

/* Takes the TCQ entries of puts that another thread starts, which may be complete at once. */
static void *take_tcqs(void *arg)
{
    struct helper *h = arg;

    for (int i = 0; i < h->rounds; i++) {
        take_tcq(h->end);
        naps++;
    }
    return NULL;
}

/* Takes the notices that polls of another thread may have put into the MRQ. */
static void *take_mrqs(void *arg)
{
    struct helper *h = arg;

    for (int i = 0; i < h->rounds; i++) {
        take_mrq(h->end, UTOFU_MRQ_TYPE_RMT_PUT);
        naps++;
    }
    return NULL;
}

static void shared(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    struct helper h;

    (void)arg;
    ut_end_open(&end, 0, UTOFU_VCQ_FLAG_THREAD_SAFE, BIG);
    ut_end_gather(&end, peers);
    naps = 0;
    start(&h, &end, ROUNDS, take_tcqs);
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 4 == 0)
            ut_random_delay(300);
        if (i % 8 == 0)
            put_big(&end, &peers[!ut_rank], UT_TCQ);
        else
            put_word(&end, &peers[!ut_rank], UT_TCQ);
        while (i % 3 == 0 && naps <= i)
            ut_relax(); /* it sleeps when the next put starts */
    }
    pthread_join(h.thread, NULL);
    ut_barrier();
    naps = 0;
    start(&h, &end, ROUNDS, take_mrqs);
    for (int i = 0; i < ROUNDS; i++) {
        void *cbdata;
        if (i % 4 == 0)
            ut_random_delay(300);
        put_word(&end, &peers[!ut_rank], UT_RMT);
        CHECK_RC(utofu_poll_tcq(end.vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
    }
    while (naps < ROUNDS) { /* another poll may put a notice into the MRQ for the waiting thread */
        void *cbdata;
        CHECK_RC(utofu_poll_tcq(end.vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
        ut_random_delay(100);
    }
    pthread_join(h.thread, NULL);
    ut_barrier();
    ut_end_close(&end);
}

Test(wait, calls_of_other_threads_end_it)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2}, shared, NULL);
}

static void *wait_for_the_end(void *arg)
{
    struct helper *h = arg;
    utofu_vcq_hdl_t vcq = h->end->vcq;
    int rc = utofu_wait_vcqs(&vcq, 1, FOR_EVER);

    CHECK_RC(rc, UTOFU_ERR_INVALID_VCQ_HDL);
    return NULL;
}

static void freed(void *arg)
{
    struct ut_end end;
    struct helper h;

    (void)arg;
    for (int round = 0; round < ROUNDS / 10; round++) {
        ut_end_open(&end, 0, UTOFU_VCQ_FLAG_THREAD_SAFE, 4096);
        struct ut_end copy = end;
        start(&h, &copy, 1, wait_for_the_end);
        ut_random_delay(1000);
        ut_end_close(&end);
        pthread_join(h.thread, NULL);
    }
}

static _Atomic int waiting_tid;

static void *wait_on_own_variable(void *arg)
{
    struct helper *h = arg;

    waiting_tid = gettid();
    CHECK_RC(utofu_wait_vcqs(&h->end->vcq, 1, FOR_EVER), UTOFU_ERR_INVALID_VCQ_HDL);
    return NULL;
}

static bool is_in_ppoll(int tid)
{
    char path[64];
    long call = -1;

    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%ld", &call) != 1)
        call = -1;
    if (f)
        fclose(f);
    return call == SYS_ppoll;
}

/* The variable with the handle is cleared while the thread sleeps, before the VCQ is freed. */
static void cleared(void *arg)
{
    struct ut_end end;
    struct helper h;

    (void)arg;
    for (int round = 0; round < ROUNDS / 10; round++) {
        ut_end_open(&end, 0, UTOFU_VCQ_FLAG_THREAD_SAFE, 4096);
        struct ut_end variable = end;
        waiting_tid = 0;
        start(&h, &variable, 1, wait_on_own_variable);
        while (waiting_tid == 0 || !is_in_ppoll(waiting_tid))
            ut_relax();
        variable.vcq = 0;
        ut_end_close(&end);
        pthread_join(h.thread, NULL);
    }
}

Test(wait, handle_that_is_cleared_does_not_matter)
{
    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_LOG_LEVEL=error"}}, cleared, NULL);
}

Test(wait, a_vcq_that_is_freed_ends_it)
{
    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_LOG_LEVEL=error"}}, freed, NULL);
}

/*
 * Communications that the check mode holds: only polls start them as long as no time passes.
 */

static void held(void *arg)
{
    struct ut_end end;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    struct ut_peer self = ut_end_peer(&end);
    ut_flush(&end, &self);
    if (ut_clock_may_stop())
        ut_clock_stop();
    for (int i = 0; i < 3; i++) {
        put_word(&end, &self, UT_TCQ | UT_RMT);
        unsigned int polls = 0;
        while (wait_for(&end, 0) == UTOFU_ERR_NOT_FOUND)
            CHECK(++polls < 1000000);
        take_tcq(&end);
        take_mrq(&end, UTOFU_MRQ_TYPE_RMT_PUT);
    }
    ut_clock_run();
    ut_end_close(&end);
}

Test(wait, without_a_sleep_it_is_a_poll_that_starts_what_is_held)
{
    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_CHECK=1", "UTOFU_PROGRESS_THREAD=0"}}, held,
           NULL);
}

/*
 * Bad arguments
 */

static void bad(void *arg)
{
    struct ut_end end, other;
    utofu_vcq_hdl_t many[4097];

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    ut_end_open(&other, 1, 0, 4096);
    CHECK_RC(utofu_wait_vcqs(NULL, 1, FOR_EVER), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_wait_vcqs(&end.vcq, 0, FOR_EVER), UTOFU_ERR_INVALID_NUMBER);
    for (size_t i = 0; i < NUM(many); i++)
        many[i] = end.vcq;
    CHECK_RC(utofu_wait_vcqs(many, 4097, 0), UTOFU_ERR_INVALID_NUMBER);
    CHECK_RC(utofu_wait_vcqs(many, 4096, 0), UTOFU_ERR_NOT_FOUND);
    CHECK_RC(utofu_wait_vcqs(many, 4096, 1), UTOFU_ERR_NOT_FOUND);
    CHECK_OK(utofu_wake_vcq(end.vcq));
    CHECK_OK(utofu_wait_vcqs(many, 4096, FOR_EVER));
    CHECK_OK(utofu_wake_vcq(end.vcq));
    CHECK_OK(utofu_wait_vcqs(many, 2, INT64_MAX));
    utofu_vcq_hdl_t stale = other.vcq;
    ut_end_close(&other);
    for (size_t i = 0; i < 3; i++) {
        const utofu_vcq_hdl_t wrong[] = {stale, 0, 12345};
        many[1] = wrong[i];
        CHECK_RC(utofu_wait_vcqs(many, 2, FOR_EVER), UTOFU_ERR_INVALID_VCQ_HDL);
        CHECK_RC(utofu_wait_vcqs(many, 2, 0), UTOFU_ERR_INVALID_VCQ_HDL);
        CHECK_RC(utofu_wake_vcq(wrong[i]), UTOFU_ERR_INVALID_VCQ_HDL);
    }
    struct ut_peer self = ut_end_peer(&end);
    put_word(&end, &self, UT_RMT);
    CHECK_RC(utofu_wait_vcqs(many, 2, 0), UTOFU_ERR_INVALID_VCQ_HDL); /* whatever is there */
    take_mrq(&end, UTOFU_MRQ_TYPE_RMT_PUT);
    ut_end_close(&end);
}

Test(wait, bad_arguments_are_refused)
{
    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_LOG_LEVEL=error"}}, bad, NULL);
}
