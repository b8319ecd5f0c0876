/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outstanding look-ups: what is asked, how often and in which order, and what becomes of answers
 * that are early, late, too long or about another rank. The launcher and the clock are the test's.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "../harness/fake_clock.h"
#include "../harness/held_locks.h"
#include "bootstrap/ops.h"
#include "bootstrap/request.h"
#include "util/clock.h"

enum { RANKS = 8 };

static struct ut_job_requests requests;
static unsigned int num_queued;
static uint64_t queued_us[100]; /* times */
static int answer_at_once;      /* what the launcher answers inside the call; 1: nothing */
static const char *at_hand;     /* the record of rank 5 that needs no query */

/* The rank whose answer comes during a wait of another thread; 0: none does. */
static uint32_t arrives;
static unsigned int num_woken, num_waits;

/* The C library's function, with which a wait ends whose time is by the monotonic clock. */
int pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    static const pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    clockid_t clock;

    cr_assert(attr && pthread_condattr_getclock(attr, &clock) == 0 && clock == CLOCK_MONOTONIC);
    *cond = condition;
    return 0;
}

int pthread_cond_broadcast(pthread_cond_t *cond)
{
    (void)cond;
    num_woken++;
    return 0;
}

/* A wait that nobody ends takes its whole time. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                           const struct timespec *until)
{
    uint64_t until_us = (uint64_t)until->tv_sec * 1000000 + (uint64_t)until->tv_nsec / 1000;
    uint64_t now_us = fake_clock_ns / 1000;

    (void)cond;
    num_waits++;
    if (arrives) {
        uint32_t rank = arrives;
        unsigned int before = num_woken;
        arrives = 0;
        pthread_mutex_unlock(lock);
        ut_job_requests_answer(&requests, rank, 0, "arrived", 7);
        pthread_mutex_lock(lock);
        if (num_woken > before)
            return 0;
    }
    if (until_us > now_us)
        fake_clock_ns += (until_us - now_us) * 1000;
    return ETIMEDOUT;
}

static void note_queued(uint32_t rank)
{
    uint32_t taken;

    queued_us[num_queued++ % 100] = ut_clock_us();
    if (answer_at_once == 1)
        return;
    cr_assert(ut_job_requests_take(&requests, &taken) && taken == rank);
    ut_job_requests_answer(&requests, rank, answer_at_once, "at once", 7);
}

static bool read_at_hand(uint32_t rank, void *record, size_t *size)
{
    if (rank != 5 || !at_hand)
        return false;
    *size = strlen(at_hand);
    memcpy(record, at_hand, *size);
    return true;
}

static void open_requests(void)
{
    answer_at_once = 1;
    ut_job_requests_init(&requests, note_queued);
}

static void free_requests(void)
{
    ut_job_requests_free(&requests);
}

TestSuite(request, .init = open_requests, .fini = free_requests);

static char record[UT_JOB_RECORD_MAX];
static size_t size;

static int look_up(uint32_t rank, int wait_ms)
{
    memset(record, 0, sizeof(record));
    size = 0;
    return ut_job_requests_wait(&requests, rank, record, &size, wait_ms);
}

static bool has(const char *text)
{
    return size == strlen(text) && memcmp(record, text, size) == 0;
}

static void expect_taken(uint32_t rank)
{
    uint32_t taken = UINT32_MAX;

    cr_assert(ut_job_requests_take(&requests, &taken));
    cr_assert_eq(taken, rank);
}

Test(request, each_rank_is_asked_once_and_in_order)
{
    static const uint32_t order[] = {3, 1, 7, 0};
    uint32_t none;

    for (int i = 0; i < 4; i++)
        cr_assert_eq(look_up(order[i], 0), -EINPROGRESS);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(look_up(order[i], 0), -EINPROGRESS);
    cr_assert_eq(num_queued, 4);
    for (int i = 0; i < 4; i++)
        expect_taken(order[i]);
    cr_assert(!ut_job_requests_take(&requests, &none));
    cr_assert_eq(look_up(7, 0), -EINPROGRESS);
    ut_job_requests_answer(&requests, 7, 0, "seven", 5);
    ut_job_requests_answer(&requests, 1, -EIO, NULL, 0);
    cr_assert(look_up(7, 0) == 0 && has("seven"));
    cr_assert_eq(look_up(1, 0), -EIO);
    cr_assert_eq(num_queued, 4);
    /* the answer is taken: it is asked again */
    cr_assert_eq(look_up(7, 0), -EINPROGRESS);
    cr_assert_eq(num_queued, 5);
    expect_taken(7);
}

Test(request, launcher_may_answer_at_once)
{
    answer_at_once = 0;
    cr_assert(look_up(2, 0) == 0 && has("at once"));
    answer_at_once = -EPERM;
    cr_assert_eq(look_up(2, 0), -EPERM);
}

/* Not yet: after 0.5, 1, 2, 4, 8, 16 and then 20 ms, until the time is over. */
Test(request, pauses_grow_to_twenty_milliseconds)
{
    uint64_t begin = ut_clock_us(), pause = 500;

    answer_at_once = -EAGAIN;
    cr_assert_eq(look_up(2, 200), -EAGAIN);
    cr_assert(ut_clock_us() - begin >= 200000 && ut_clock_us() - begin < 200200);
    cr_assert_eq(num_queued, 15, "%u", num_queued);
    for (unsigned int i = 1; i < num_queued; i++) {
        uint64_t us = queued_us[i] - queued_us[i - 1];
        cr_assert(us >= pause && us < pause + 50, "pause %u: %llu", i, (unsigned long long)us);
        pause = pause * 2 < 20000 ? pause * 2 : 20000;
    }
    cr_assert_eq(look_up(2, 0), -EAGAIN, "the pause is not over");
    cr_assert_eq(num_queued, 15);
    fake_clock_pass_ms(21);
    answer_at_once = 0;
    cr_assert(look_up(2, 0) == 0 && has("at once"));
}

Test(request, wait_without_an_answer_takes_its_time)
{
    uint64_t begin = ut_clock_us();

    cr_assert_eq(look_up(2, 70), -EINPROGRESS);
    cr_assert(ut_clock_us() - begin >= 70000 && ut_clock_us() - begin < 70100);
    cr_assert_eq(num_queued, 1);
    cr_assert_eq(num_waits, 1, "it sleeps until then");
}

Test(request, answer_ends_the_wait)
{
    uint64_t begin = ut_clock_us();

    cr_assert_eq(look_up(2, 0), -EINPROGRESS);
    expect_taken(2);
    arrives = 2;
    cr_assert(look_up(2, 70) == 0 && has("arrived"));
    cr_assert_lt(ut_clock_us() - begin, 100);
    cr_assert_eq(look_up(2, 0), -EINPROGRESS);
    unsigned int before = num_woken;
    ut_job_requests_fail_all(&requests, -ECONNRESET);
    cr_assert_eq(num_woken, before + 1, "so does the end of the job");
}

/* What an earlier use of the memory has left there does not matter. */
Test(request, job_begins_anew)
{
    cr_assert_eq(look_up(2, 0), -EINPROGRESS);
    requests.at_hand = read_at_hand;
    at_hand = "hand";
    ut_job_requests_fail_all(&requests, -ECONNRESET);
    cr_assert_eq(look_up(3, 0), -ECONNRESET);
    ut_job_requests_free(&requests);
    open_requests();
    cr_assert_eq(look_up(3, 0), -EINPROGRESS);
    cr_assert_eq(look_up(5, 0), -EINPROGRESS);
    expect_taken(3);
    expect_taken(5);
}

Test(request, answers_that_nobody_expects_are_dropped)
{
    char longest[UT_JOB_RECORD_MAX + 1];
    uint32_t before = ut_job_num_answers();

    memset(longest, 'x', sizeof(longest));
    ut_job_requests_answer(&requests, 4, 0, "early", 5);
    cr_assert_eq(ut_job_num_answers(), before + 1);
    cr_assert_eq(look_up(4, 0), -EINPROGRESS);
    ut_job_requests_answer(&requests, 4, 0, "early", 5); /* it is not sent yet */
    cr_assert_eq(look_up(4, 0), -EINPROGRESS);
    expect_taken(4);
    ut_job_requests_answer(&requests, 4, 0, longest, sizeof(longest));
    cr_assert_eq(look_up(4, 0), -EPROTO);
    cr_assert_eq(look_up(4, 0), -EINPROGRESS);
    expect_taken(4);
    ut_job_requests_answer(&requests, 4, 0, longest, sizeof(longest) - 1);
    ut_job_requests_answer(&requests, 4, 0, "late", 4);
    cr_assert(look_up(4, 0) == 0 && size == UT_JOB_RECORD_MAX && record[size - 1] == 'x');
}

Test(request, broken_job_still_gives_what_has_arrived)
{
    uint32_t before;

    cr_assert_eq(look_up(1, 0), -EINPROGRESS);
    cr_assert_eq(look_up(2, 0), -EINPROGRESS);
    expect_taken(1);
    ut_job_requests_answer(&requests, 1, 0, "one", 3);
    before = ut_job_num_answers();
    ut_job_requests_fail_all(&requests, -ECONNRESET);
    cr_assert_eq(ut_job_num_answers(), before + 1);
    cr_assert_eq(look_up(2, 1000), -ECONNRESET);
    cr_assert_eq(look_up(3, 1000), -ECONNRESET);
    cr_assert(look_up(1, 0) == 0 && has("one"));
    cr_assert_eq(look_up(1, 0), -ECONNRESET);
}

Test(request, record_at_hand_is_not_asked_for)
{
    requests.at_hand = read_at_hand;
    answer_at_once = -EAGAIN;
    cr_assert_eq(look_up(5, 0), -EAGAIN);
    at_hand = "hand";
    cr_assert(look_up(5, 0) == 0 && has("hand"));
    cr_assert_eq(num_queued, 1);
    cr_assert_eq(requests.table.used, 0, "the request is forgotten");
    at_hand = NULL;
    answer_at_once = 1;
    cr_assert_eq(look_up(5, 0), -EINPROGRESS);
    at_hand = "hand";
    cr_assert(look_up(5, 0) == 0 && has("hand"));
    expect_taken(5); /* it is with the launcher, and stays */
    cr_assert_eq(requests.table.used, 1);
}

/* With AddressSanitizer: nothing is lost. */
Test(request, all_states_are_freed)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        cr_assert_eq(look_up(rank, 0), -EINPROGRESS);
    for (uint32_t rank = 0; rank < RANKS / 2; rank++)
        expect_taken(rank);
    ut_job_requests_answer(&requests, 0, 0, "done", 4);
    ut_job_requests_answer(&requests, 1, -EAGAIN, NULL, 0);
    ut_job_requests_free(&requests);
    uint32_t none;
    cr_assert(!ut_job_requests_take(&requests, &none));
    cr_assert_eq(requests.table.used, 0);
}

/* A launcher that is asked anew each time: after 0.5, 1, 2, 4, 8, 16 and then 20 ms, and at last
 * when the time is over. */
static uint64_t retried_us[20];
static unsigned int num_retries;

int usleep(useconds_t us)
{
    fake_clock_ns += us * UINT64_C(1000);
    return 0;
}

static int not_there_yet(uint32_t rank, void *bytes, size_t *n)
{
    (void)bytes, (void)n;
    cr_assert(rank == 7 && num_retries < 20);
    retried_us[num_retries++] = fake_clock_ns / 1000;
    return -EAGAIN;
}

Test(request, retries_grow_to_twenty_milliseconds)
{
    static const unsigned int at_us[] = {0,     500,   1500,  3500,  7500, 15500,
                                         31500, 51500, 71500, 91500, 95000};

    cr_assert_eq(ut_job_retry(not_there_yet, 7, record, &size, 95), -EAGAIN);
    cr_assert_eq(num_retries, 11);
    for (unsigned int i = 0; i < 11; i++) {
        uint64_t us = retried_us[i] - retried_us[0];
        cr_assert(us >= at_us[i] && us < at_us[i] + 50, "%u: %llu", i, (unsigned long long)us);
    }
}
