/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a communication is given up that cannot reach its peer, for each reason: the time limit is
 * UTOFU_PEER_TIMEOUT, UTOFU_JOB_TIMEOUT or a sum, which two pairs of values tell apart. No
 * communication fails before its limit, and none later than one delay between attempts behind it.
 * One process, two VCQs; the fake provider, and a clock that the test moves. Each case is a
 * process, because a peer that was given up may stay so.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../harness/fake_clock.h"
#include "link/fsm.h"
#include "pair.h"

enum { ALWAYS = 1000000, STEP_MS = 4, POLLS = 2, HOUR_MS = 3600000 };
enum { CROSSED_MS = 500, PAUSE_MS = 32, EARLY_MS = 1000 }; /* of the links */

static const unsigned long int notice = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
static unsigned int peer_s, job_s; /* UTOFU_PEER_TIMEOUT and UTOFU_JOB_TIMEOUT */

static void poll_peer(void)
{
    int rc = fake_poll_mrq(peer);

    CHECK(rc == UTOFU_ERR_NOT_FOUND);
}

/* Polls both VCQs until the put of the origin has ended, and moves the clock meanwhile. Returns how
 * long that took. */
static uint64_t time_to_end(int expected)
{
    uint64_t begin = fake_clock_ms();

    for (;; fake_clock_pass_ms(STEP_MS)) {
        for (int i = 0; i < POLLS; i++) {
            int rc = fake_poll_mrq(origin);
            poll_peer();
            if (rc == UTOFU_ERR_NOT_FOUND)
                continue;
            if (rc != expected)
                printf("%d after %llu ms, expected %d\n", rc,
                       (unsigned long long)(fake_clock_ms() - begin), expected);
            CHECK(rc == expected);
            return fake_clock_ms() - begin;
        }
        CHECK(fake_clock_ms() - begin < HOUR_MS);
    }
}

static void put_and_wait(void)
{
    here[0]++;
    put_there(notice);
    (void)time_to_end(UTOFU_SUCCESS);
    CHECK(there[0] == here[0]);
}

static void break_once(void)
{
    fake_breaks = true;
    fake_on_write = NULL;
}

/* The connection is up, for longer than a communication can be the cause of its break, and breaks
 * when the next put is posted. */
static void connect_and_break(void)
{
    put_and_wait();
    fake_clock_pass_ms(EARLY_MS + 1);
    fake_on_write = break_once;
}

/* What prevents a connection from here on. */

static void lack_memory(void)
{
    fake_lacks_memory = ALWAYS;
}

static void break_attempts(void)
{
    fake_attempts_break = true;
}

static void reject_attempts(void)
{
    fake_has_no_room = ALWAYS;
}

static void free_peer(void)
{
    CHECK(utofu_free_vcq(peer) == UTOFU_SUCCESS);
    CHECK(utofu_create_vcq(3, 0, &peer) == UTOFU_SUCCESS); /* which is polled in its place */
}

static const struct limit {
    const char *name;
    void (*prevent)(void);
    bool connected;           /* the peer was reached before */
    unsigned int peers, jobs; /* the limit: so many peer and job timeouts */
    int rc;
    unsigned int delay_ms; /* between attempts, at the end */
    const char *says;      /* the text of the error, before the limit */
} limits[] = {
    {"no memory", lack_memory, false, 0, 1, UTOFU_ERR_MRQ_OTHER, PAUSE_MS, NULL},
    {"no memory after a break", lack_memory, true, 1, 0, UTOFU_ERR_MRQ_OTHER, PAUSE_MS, NULL},
    {"attempts break", break_attempts, false, 0, 1, UTOFU_ERR_MRQ_PEER, PAUSE_MS, "could be made"},
    {"attempts break after a break", break_attempts, true, 1, 0, UTOFU_ERR_MRQ_PEER, PAUSE_MS,
     "could be made"},
    {"the peer rejects", reject_attempts, false, 1, 1, UTOFU_ERR_MRQ_PEER, CROSSED_MS,
     "could be made"},
    {"the peer rejects after a break", reject_attempts, true, 2, 0, UTOFU_ERR_MRQ_PEER, CROSSED_MS,
     "could be made"},
    {"no such VCQ", free_peer, false, 1, 0, UTOFU_ERR_MRQ_PEER, PAUSE_MS, "not created"},
    {"the VCQ was freed", free_peer, true, 0, 0, UTOFU_ERR_MRQ_PEER, PAUSE_MS, NULL},
};

/* The error names the limit. */
static void check_text(const char *says, unsigned int limit_s)
{
    char text[1024], want[64];

    snprintf(want, sizeof(want), "%s within %u s", says, limit_s);
    utofu_get_last_error(text);
    if (!strstr(text, want))
        printf("'%s' lacks '%s'\n", text, want);
    CHECK(strstr(text, want));
}

static void check_limit(const struct limit *l)
{
    if (l->connected)
        connect_and_break();
    if (l->prevent == free_peer || !l->connected)
        l->prevent();
    put_there(notice);
    if (l->connected)
        l->prevent();
    uint64_t limit = 1000ull * (l->peers * peer_s + l->jobs * job_s), took = time_to_end(l->rc);
    printf("%s, limits of %u and %u s: after %llu ms\n", l->name, peer_s, job_s,
           (unsigned long long)took);
    CHECK(took + STEP_MS >= limit && took <= limit + l->delay_ms + 4 * STEP_MS);
    if (l->says)
        check_text(l->says, (unsigned int)(limit / 1000));
}

/* How long puts to a silent peer fail at once: each pause is twice as long as the one before, in
 * proportion to UTOFU_PEER_TIMEOUT. */
static void check_silence(int pauses)
{
    uint64_t pause = 1000ull * peer_s / UT_FSM_FIRST_PAUSE_DIVISOR;
    const uint64_t longest = 1000ull * peer_s * UT_FSM_MAX_PAUSE_FACTOR;

    fake_hears_nothing = true;
    for (int i = 0; i < pauses; i++) {
        put_there(notice); /* tries */
        CHECK(time_to_end(UTOFU_ERR_MRQ_PEER) <= 4 * STEP_MS);
        uint32_t asks = fake_asks;
        fake_clock_pass_ms(pause - 10 * STEP_MS);
        put_there(notice); /* does not try */
        CHECK(time_to_end(UTOFU_ERR_MRQ_PEER) <= STEP_MS && fake_asks == asks);
        fake_clock_pass_ms(10 * STEP_MS);
        pause = 2 * pause < longest ? 2 * pause : longest;
    }
    fake_hears_nothing = false;
    put_and_wait();
}

/* The first pause is the shortest again when the peer was reached meanwhile. */
static void check_pauses(void)
{
    check_silence(7);
    check_silence(3);
}

static unsigned int breaks_left, break_after_ms;

static void break_late(void)
{
    if (breaks_left == 0)
        return;
    breaks_left--;
    fake_clock_pass_ms(break_after_ms);
    fake_breaks = true;
}

/* A connection that breaks long after it came up is not held against the communication that was
 * posted last, however often that happens. */
static void check_breaks(void)
{
    put_and_wait();
    fake_on_write = break_late;
    break_after_ms = EARLY_MS;
    breaks_left = 3 * UT_FSM_MAX_BREAKS;
    put_and_wait();
    CHECK(breaks_left == 0);
    break_after_ms = EARLY_MS - 4 * STEP_MS;
    breaks_left = 3 * UT_FSM_MAX_BREAKS;
    put_there(notice);
    (void)time_to_end(UTOFU_ERR_MRQ_OTHER);
    CHECK(breaks_left == 2 * UT_FSM_MAX_BREAKS);
}

/* exit() during a call of another thread: waits longer than a few milliseconds. */
static pthread_t caller, exiting;
static bool inside;         /* atomic */
static bool exits;          /* the caller's thread no longer reads it */
static unsigned int yields; /* in exit() */

__attribute__((visibility("default"))) int sched_yield(void)
{
    if (!exits || !pthread_equal(pthread_self(), exiting))
        return (int)syscall(SYS_sched_yield);
    fake_clock_pass_ms(1);
    if (++yields == 5)
        _exit(0);
    return 0;
}

static void stay_inside(void)
{
    __atomic_store_n(&inside, true, __ATOMIC_RELEASE);
    for (;;)
        pause();
}

static void *put_in_thread(void *unused)
{
    put_there(notice);
    return unused;
}

/* Runs after the library's handler, which has given up. */
static void fail_at_exit(void)
{
    printf("exit() has waited for a call for %u ms\n", yields);
    fflush(NULL);
    _exit(1);
}

static void exit_during_call(void)
{
    put_and_wait();
    fake_on_write = stay_inside;
    exiting = pthread_self();
    CHECK(pthread_create(&caller, NULL, put_in_thread, NULL) == 0);
    while (!__atomic_load_n(&inside, __ATOMIC_ACQUIRE))
        usleep(100);
    exits = true;
    exit(0);
}

static void run_case(unsigned int number)
{
    enum { LIMITS = sizeof(limits) / sizeof(limits[0]) };

    if (number == LIMITS + 2)
        atexit(fail_at_exit); /* before the library's handler */
    pair_open();
    here[0] = 4711;
    if (number < LIMITS)
        check_limit(&limits[number]);
    else if (number == LIMITS)
        check_pauses();
    else if (number == LIMITS + 1)
        check_breaks();
    else
        exit_during_call();
}

int main(void)
{
    static const unsigned int seconds[][2] = {{3, 50}, {40, 7}};
    enum { CASES = sizeof(limits) / sizeof(limits[0]) + 3 };

    for (unsigned int i = 0; i < 2 * CASES; i++) {
        char text[16];
        int status;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            peer_s = seconds[i / CASES][0];
            job_s = seconds[i / CASES][1];
            snprintf(text, sizeof(text), "%u", peer_s);
            setenv("UTOFU_PEER_TIMEOUT", text, 1);
            snprintf(text, sizeof(text), "%u", job_s);
            setenv("UTOFU_JOB_TIMEOUT", text, 1);
            run_case(i % CASES);
            fflush(NULL);
            _exit(0); /* without the library's end, whose time limits stand still, too */
        }
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
        CHECK(status == 0);
    }
    printf("ok\n");
    return 0;
}
