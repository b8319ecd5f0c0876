/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which VCQs the background thread polls, and when it looks again (runtime/thread.c), to the
 * millisecond. The test is the clock, the endpoints, the program that polls or does not, and the
 * check mode.
 */
#include "runtime/thread.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "check/check.h"
#include "engine/engine.h"
#include "runtime/wait.h"
#include "util/env.h"
#include "vcq/vcq.h"
#include "vcq/wait.h"

enum { VCQS = 2, EPS = 2, START_MS = 700000 };

static uint64_t now_ns = START_MS * UINT64_C(1000000);
static struct ut_vcq vcqs[VCQS], *const vcq = &vcqs[0];
static int progress_ms = -1; /* of the providers */

int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){.tv_sec = (time_t)(now_ns / 1000000000),
                           .tv_nsec = (long)(now_ns % 1000000000)};
    return 0;
}

static void pass_ms(uint64_t ms)
{
    now_ns += ms * 1000000;
}

void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg);
void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg)
{
    for (int i = 0; i < VCQS; i++)
        visit(&vcqs[i], arg);
}

static struct ut_process process;
const struct ut_process *__wrap_ut_process_peek(void);
const struct ut_process *__wrap_ut_process_peek(void)
{
    return &process;
}

int __wrap_ut_process_progress(void);
int __wrap_ut_process_progress(void)
{
    return progress_ms;
}

/*
 * The endpoints and the engine
 */

static unsigned int polls, arms, disarms, events, completions_requested;
static unsigned int armed_too_early; /* how often something arrives before */
static enum prov_arm armed;
static bool has_entry;

static int poll_endpoint(struct prov_ep *ep)
{
    cr_assert(ep == (void *)&polls && ut_is_locked(&vcq->lock));
    polls++;
    if (events == 0)
        return 0;
    events--;
    return 1;
}

static bool arm(struct prov_ep *ep, enum prov_arm what)
{
    cr_assert_eq(ep, (void *)&polls);
    arms++;
    armed = what;
    if (armed_too_early == 0)
        return false;
    armed_too_early--;
    return true;
}

static void disarm(struct prov_ep *ep)
{
    cr_assert_eq(ep, (void *)&polls);
    disarms++;
}

static int descriptor_of(struct prov *prov)
{
    return prov == process.prov[0] ? 100 : 101;
}

static const struct prov_ops ops = {
    .ep_poll = poll_endpoint, .ep_arm = arm, .ep_disarm = disarm, .fd = descriptor_of};

int __wrap_ut_engine_progress_slow(struct ut_vcq *v);
int __wrap_ut_engine_progress_slow(struct ut_vcq *v)
{
    (void)v;
    return 0;
}

bool __wrap_ut_engine_has_entry(struct ut_vcq *v);
bool __wrap_ut_engine_has_entry(struct ut_vcq *v)
{
    (void)v;
    return has_entry;
}

void __wrap_ut_engine_request_completions(struct ut_vcq *v);
void __wrap_ut_engine_request_completions(struct ut_vcq *v)
{
    cr_assert(v == vcq && v->waits);
    completions_requested++;
}

static uint32_t started[VCQS]; /* held communications */
void __wrap_ut_engine_start_held(struct ut_vcq *v, uint32_t max);
void __wrap_ut_engine_start_held(struct ut_vcq *v, uint32_t max)
{
    cr_assert(ut_is_locked(&v->lock));
    started[v - vcqs] = max;
}

/* The check mode. */
static unsigned int serves;
static uint32_t due;
static bool is_overdue, others_have_held;

void __wrap_ut_check_serve(void);
void __wrap_ut_check_serve(void)
{
    serves++;
}
uint32_t __wrap_ut_check_polled(struct ut_vcq *v);
uint32_t __wrap_ut_check_polled(struct ut_vcq *v)
{
    cr_assert_eq(v, vcq);
    return due;
}
bool __wrap_ut_check_others_have_held(const struct ut_vcq *v);
bool __wrap_ut_check_others_have_held(const struct ut_vcq *v)
{
    cr_assert_eq(v, vcq);
    return others_have_held;
}
uint32_t __wrap_ut_check_polled_elsewhere(struct ut_vcq *v);
uint32_t __wrap_ut_check_polled_elsewhere(struct ut_vcq *v)
{
    cr_assert_eq(v, &vcqs[1]);
    return 17;
}
bool __wrap_ut_check_is_overdue(struct ut_vcq *v);
bool __wrap_ut_check_is_overdue(struct ut_vcq *v)
{
    cr_assert(v->check && v->num_eps);
    return is_overdue && v == vcq;
}

static void open_vcq(void)
{
    vcq->num_eps = EPS;
    for (int i = 0; i < EPS; i++)
        vcq->eps[i] = (struct ut_vcq_ep){.ep = (void *)&polls, .ops = &ops};
    vcq->eps_end = vcq->eps + EPS;
    vcq->toq_mask = 15;
}

TestSuite(thread, .init = open_vcq);

static void wake(void)
{
    vcq->wake_pending = 1;
}

/* One look: whether it polled, and the time to the next one. */
static void look(unsigned int expected_polls, int timeout)
{
    polls = 0;
    int ms = ut_thread_run_once();
    cr_assert(polls == expected_polls && ms == timeout, "%u polls, %d ms", polls, ms);
    cr_assert(!ut_is_locked(&vcq->lock) && !ut_is_locked(&vcqs[1].lock));
}

/*
 * A program that polls, or does not
 */

Test(thread, vcq_that_nothing_happened_to_is_left_alone)
{
    look(0, -1);
    wake();
    look(EPS, -1);
    cr_assert(armed == PROV_ARM_SOLICITED && arms == EPS && vcq->wake_pending == 0);
    look(0, -1);
}

Test(thread, program_that_polls_is_looked_at_less_often)
{
    static const int ms[] = {2, 4, 8, 16, 16, 16};

    wake();
    for (int i = 0; i < 6; i++) {
        vcq->poll_count++;
        look(EPS, ms[i]);
        cr_assert(disarms == EPS * (i + 1u) && arms == 0 && vcq->pace == UT_PACE_POLLS);
        pass_ms((uint64_t)ms[i] - 1);
        look(0, 1);
        pass_ms(1);
    }
    look(EPS, -1); /* it polls no more */
    cr_assert(arms == EPS && vcq->pace == UT_PACE_UNSURE);
    wake();
    vcq->poll_count++;
    look(EPS, 2);
    wake(); /* something arrives: not later */
    vcq->poll_count++;
    look(EPS, 4);
    vcq->pace = UT_PACE_COMPUTES;
    wake();
    look(EPS, -1);
    cr_assert_eq(vcq->pace, UT_PACE_COMPUTES);
}

/* Threads that sleep in utofu_wait_vcqs() poll nothing. */
Test(thread, waits_are_armed_for_every_arrival)
{
    struct ut_waiter waiter = {.fd = -1};
    struct ut_wait wait = {.vcq = vcq};

    ut_lock(&vcq->lock);
    ut_wait_enter(&wait, &waiter);
    ut_unlock(&vcq->lock);
    vcq->poll_count++;
    wake();
    look(EPS, -1);
    cr_assert(armed == PROV_ARM_ALL && disarms == 0 && completions_requested == 1);
    cr_assert(!ut_waiter_has_ended(&waiter));
    has_entry = true;
    wake();
    look(EPS, -1);
    cr_assert(ut_waiter_has_ended(&waiter) && !vcq->waits && completions_requested == 1);
}

/* What arrives between the poll and the arming is polled, up to the turn of the other VCQs. */
Test(thread, busy_vcq_gives_the_others_a_turn)
{
    wake();
    armed_too_early = 1;
    events = 1;
    look(3 * EPS, -1);
    cr_assert_eq(arms, 2 * EPS);
    for (unsigned int i = 0; i < 2; i++) {
        wake();
        vcqs[1].next_check_at = now_ns / 1000000 + 5; /* which is later */
        events = UINT32_MAX;
        look(64 * EPS, 0);
        cr_assert_eq(vcq->wake_pending, 1);
    }
    events = 0;
    look(EPS, 5);
    wake();
    armed_too_early = UINT32_MAX;
    look(64 * EPS, 0);
}

/* Links that wait for a time. */
Test(thread, deadline_of_a_link_is_kept)
{
    static const struct {
        int64_t retry_ms;
        int timeout;
    } all[] = {{-5, 1}, {0, 1}, {1, 1}, {2, 2}, {15, 15}, {16, 16}, {17, 16}, {900, 16}};
    struct ut_link link = {.vcq = vcq, .state = UT_LINK_RESOLVING};

    vcq->scheduled_links = &link;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        uint64_t now = now_ns / 1000000;
        link.retry_ms = now + (uint64_t)all[i].retry_ms;
        wake();
        look(EPS, all[i].timeout);
        cr_assert_eq(vcq->next_check_at, now + (uint64_t)all[i].timeout);
        pass_ms(1000);
    }
    wake();
    events = UINT32_MAX;
    look(64 * EPS, 1); /* the time is enough */
    cr_assert_eq(vcq->wake_pending, 0);
}

static void *hold(void *arg)
{
    ut_lock(&vcq->lock);
    return arg;
}

Test(thread, call_that_holds_the_lock_is_waited_for)
{
    static const int ms[] = {1, 2, 4, 8, 16, 16};
    pthread_t thread;

    wake();
    for (int k = 0; k < 2; k++) {
        pthread_create(&thread, NULL, hold, NULL);
        pthread_join(thread, NULL);
        for (int i = 0; i < 6; i++) {
            cr_assert_eq(ut_thread_run_once(), ms[i], "%d", i);
            cr_assert(polls == 0 && vcq->wake_pending == 1);
        }
        ut_unlock(&vcq->lock);
        look(EPS, -1);
        polls = 0;
        wake();
    }
}

Test(thread, freed_vcq_is_not_polled)
{
    vcq->num_eps = 0;
    wake();
    look(0, -1);
}

Test(thread, providers_have_times_of_their_own)
{
    progress_ms = 7;
    look(0, 7);
    vcq->poll_count++;
    wake();
    look(EPS, 2);
    progress_ms = 3;
    look(0, 2);
    progress_ms = 1;
    look(0, 1);
    pass_ms(2);
    wake();
    progress_ms = 50;
    look(EPS, 50);
}

/*
 * Between a post and the next poll
 */

static void poll_after(uint64_t ns)
{
    vcq->pace = UT_PACE_UNSURE;
    ut_thread_on_post(vcq);
    cr_assert_eq(vcq->posted_at, now_ns);
    now_ns += ns;
    ut_thread_on_poll(vcq);
    cr_assert_eq(vcq->posted_at, 0);
}

Test(thread, program_that_polls_late_computes_meanwhile)
{
    poll_after(20000);
    cr_assert_eq(vcq->pace, UT_PACE_POLLS);
    ut_thread_on_post(vcq);
    cr_assert_eq(vcq->posted_at, 1, "no clock is read");
    now_ns += 1000000;
    ut_thread_on_poll(vcq);
    cr_assert(vcq->pace == UT_PACE_POLLS && vcq->posted_at == 0);
    poll_after(20001);
    cr_assert_eq(vcq->pace, UT_PACE_COMPUTES);
}

/* Then the post itself looks for what has arrived, if nobody else waits for it. */
Test(thread, post_of_a_program_that_computes_polls)
{
    struct ut_link link = {.vcq = vcq};

    vcq->pace = UT_PACE_COMPUTES;
    ut_lock(&vcq->lock);
    ut_thread_on_post(vcq);
    cr_assert_eq(polls, 0, "there is no thread that would arm it");
    ut_vcq_thread.runs = true;
    vcq->poll_count = 5;
    ut_thread_on_post(vcq);
    cr_assert(polls == EPS && arms == EPS && vcq->seen_calls == 5 && vcq->wake_pending == 0);
    events = 64 * EPS;
    ut_thread_on_post(vcq);
    cr_assert_eq(vcq->wake_pending, 1, "more arrives than it polls");
    vcq->wake_pending = 0;
    vcq->scheduled_links = &link;
    events = 0;
    ut_thread_on_post(vcq);
    cr_assert_eq(vcq->wake_pending, 1);
    vcq->pace = UT_PACE_UNSURE;
    polls = 0;
    ut_thread_on_post(vcq);
    cr_assert_eq(polls, 0);
}

/*
 * The check mode
 */

Test(thread, checked_vcqs_are_looked_at_each_millisecond)
{
    ut_check_on = true;
    look(0, 1);
    cr_assert(serves == 1 && started[0] == 0);
    vcq->check = (void *)&polls;
    look(0, 1);
    cr_assert(started[0] == 0 && vcq->wake_pending == 0);
    is_overdue = true;
    look(EPS, 1); /* the program may not poll */
    cr_assert_eq(started[0], UINT32_MAX);
    started[0] = 0;
    vcq->num_eps = 0;
    look(0, 1);
    vcq->num_eps = EPS;
    vcq->check = NULL;
    look(0, 1);
    vcq->check = (void *)&polls;
    pthread_t thread;
    pthread_create(&thread, NULL, hold, NULL);
    pthread_join(thread, NULL);
    cr_assert_eq(ut_thread_run_once(), 1);
    cr_assert_eq(started[0], 0, "a call of the program holds the lock");
}

Test(thread, poll_starts_what_is_held)
{
    vcq->check = (void *)&polls;
    vcqs[1].check = (void *)&polls;
    vcqs[1].num_eps = 1;
    ut_lock(&vcq->lock);
    for (int session = 0; session < 2; session++)
        for (due = 0; due < 2; due++) {
            vcq->flags = session ? UTOFU_VCQ_FLAG_SESSION_MODE : 0;
            vcq->pace = UT_PACE_UNSURE;
            vcq->posted_at = 5;
            started[0] = started[1] = 0;
            others_have_held = due;
            ut_thread_on_poll(vcq);
            cr_assert(started[0] == due && started[1] == (due ? 17 : 0));
            cr_assert_eq(vcq->pace, session ? UT_PACE_COMPUTES : UT_PACE_UNSURE);
            cr_assert_eq(vcq->posted_at, session ? 1 : 5, "each empty poll is reported");
        }
    started[1] = 0;
    vcqs[1].num_eps = 0;
    ut_thread_on_poll(vcq);
    vcqs[1].num_eps = 1;
    vcqs[1].check = NULL;
    ut_thread_on_poll(vcq);
    cr_assert_eq(started[1], 0);
}

/*
 * Threads of the program that do its work
 */

static uint64_t wakeups(void)
{
    uint64_t count = 0;

    if (read(ut_vcq_wake_fd(), &count, sizeof(count)) < 0)
        return 0;
    return count;
}

Test(thread, last_one_that_serves_leaves_the_work_to_others)
{
    cr_assert_geq(ut_vcq_wake_fd(), 0);
    ut_thread_wake(vcq);
    cr_assert(vcq->wake_pending == 1 && wakeups() == 0);
    ut_thread_begin_serving();
    ut_thread_wake(vcq);
    cr_assert_eq(wakeups(), 1);
    ut_thread_begin_serving();
    ut_thread_wake(vcq);
    cr_assert_eq(wakeups(), 1);
    ut_thread_end_serving(false);
    cr_assert_eq(wakeups(), 1, "the other one goes on");
    ut_thread_end_serving(true);
    cr_assert_eq(wakeups(), 0);
    ut_thread_wake(vcq);
    cr_assert_eq(wakeups(), 0);
    ut_vcq_thread.runs = true;
    ut_thread_begin_serving();
    ut_thread_wake(vcq);
    cr_assert_eq(wakeups(), 0, "the thread looks before it sleeps");
    ut_thread_end_serving(false);
    cr_assert_eq(wakeups(), 0);
    ut_thread_begin_serving();
    ut_thread_end_serving(true);
    ut_thread_clear_wakeups();
    cr_assert_eq(wakeups(), 0);
}

Test(thread, descriptors_are_those_of_the_providers)
{
    struct prov some[2] = {{&ops}, {&ops}};
    struct pollfd fds[UT_THREAD_FDS];

    process.prov[0] = &some[0];
    process.prov[PROV_COUNT - 1] = &some[1];
    cr_assert_eq(ut_thread_fds(fds), 3);
    cr_assert(fds[0].fd == ut_vcq_wake_fd() && fds[1].fd == 100 && fds[2].fd == 101);
    for (int i = 0; i < 3; i++)
        cr_assert(fds[i].events == POLLIN && fds[i].revents == 0);
}

/*
 * Threads that wait
 */

/* Nothing arrives while it sleeps. */
int ppoll(struct pollfd fds[], nfds_t n, const struct timespec *limit, const sigset_t *signals)
{
    (void)fds, (void)n, (void)limit, (void)signals;
    pass_ms(1);
    return 0;
}

/* How often the wait, and whoever serves meanwhile, have armed the endpoints. */
static unsigned int arms_of_a_wait(void)
{
    const utofu_vcq_hdl_t handle = 5;
    utofu_vcq_hdl_t bad;

    ut_vcqs[handle] = vcq;
    vcq->handle = handle;
    arms = 0;
    cr_assert_eq(ut_wait_for_any(&handle, 1, 500, &bad), UTOFU_ERR_NOT_FOUND);
    cr_assert(!vcq->waits && !ut_is_locked(&vcq->lock));
    return arms / EPS;
}

/* The background thread looks at what a wait has not armed, and at links with a time limit. */
Test(thread, wait_leaves_to_the_thread_what_is_not_at_rest)
{
    struct ut_link link = {
        .vcq = vcq, .state = UT_LINK_RESOLVING, .retry_ms = now_ns / 1000000 + 5000};

    cr_assert_eq(arms_of_a_wait(), 1);
    armed_too_early = 64 * EPS;
    cr_assert_eq(arms_of_a_wait(), 64 + 1);
    armed_too_early = 63 * EPS;
    cr_assert_eq(arms_of_a_wait(), 64);
    vcq->scheduled_links = &link;
    cr_assert_eq(arms_of_a_wait(), 2);
}

/*
 * How long the thread sleeps
 */

enum { SLEEPS = 9 };
static struct {
    int ms[SLEEPS];
    unsigned int count; /* atomic */
} slept;

static void note_sleep(int ms)
{
    unsigned int n = __atomic_load_n(&slept.count, __ATOMIC_RELAXED);

    if (n < SLEEPS)
        slept.ms[n] = ms;
    __atomic_store_n(&slept.count, n + 1, __ATOMIC_RELEASE);
    while (n + 1 >= SLEEPS)
        pause();
}

/* The descriptors are not readable, except in the sixth sleep. The first look has a time of 2.5 s,
 * the second one 1 s, the others none. */
int __wrap_epoll_wait(int fd, struct epoll_event *found, int max, int ms);
int __wrap_epoll_wait(int fd, struct epoll_event *found, int max, int ms)
{
    static const int next[] = {2500, 1000, -1, -1};

    cr_assert(fd >= 0 && max == 8);
    note_sleep(ms);
    unsigned int n = slept.count;
    progress_ms = next[n < 4 ? 0 : n == 4 ? 1 : 2];
    found[0].data.fd = -1;
    return n == 7;
}

static bool is_closed;
int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
    note_sleep((int)us);
    return 0;
}

bool __wrap_ut_fd_check_still_ours(int fd);
bool __wrap_ut_fd_check_still_ours(int fd)
{
    return fd >= 0 && !is_closed;
}

static unsigned int num_threads;
int __real_ut_thread_create(const char *name, void *(*main)(void *), void *arg, pthread_t *id);
int __wrap_ut_thread_create(const char *name, void *(*main)(void *), void *arg, pthread_t *id);
int __wrap_ut_thread_create(const char *name, void *(*main)(void *), void *arg, pthread_t *id)
{
    num_threads++;
    return __real_ut_thread_create(name, main, arg, id);
}

static void start_thread(void)
{
    cr_assert_eq(ut_env_load(), 0);
    cr_assert_eq(ut_thread_start(), 0);
    cr_assert(ut_vcq_has_thread());
    while (__atomic_load_n(&slept.count, __ATOMIC_ACQUIRE) < SLEEPS)
        sched_yield();
}

Test(thread, sleeps_a_second_at_a_time_until_it_is_due)
{
    static const int ms[SLEEPS] = {0, 1000, 1000, 500, 1000, 1000, 1000, 1000, 1000};

    progress_ms = 2500;
    start_thread();
    for (int i = 0; i < SLEEPS; i++)
        cr_assert_eq(slept.ms[i], ms[i], "%d: %d", i, slept.ms[i]);
}

Test(thread, works_without_descriptors_each_two_milliseconds)
{
    is_closed = true;
    start_thread();
    for (int i = 0; i < SLEEPS; i++)
        cr_assert_eq(slept.ms[i], 2000, "%d", i);
    cr_assert(ut_thread_start() == 0 && num_threads == 1);
}
