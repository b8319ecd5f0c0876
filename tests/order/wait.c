/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleep and wake-up above the providers: threads that wait for VCQs, and the background thread
 * (src/runtime/wait.c, src/runtime/thread.c, src/vcq/wait.c). The locks of VCQs are mutexes of the
 * verifier, the descriptors bits of a word. The provider is a model: an endpoint has a number of
 * arrivals, and a doorbell as that of provider/shm, which ring.c verifies. A sleep without a
 * timeout ends only when a descriptor is readable, also where the library looks each second for
 * descriptors that the program has closed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "verifier.h"

#include "../../src/runtime/thread.c"
#include "../../src/runtime/wait.c"

#define SIZE(array) (sizeof(array) / sizeof((array)[0]))

enum { VCQS = 2, FIRST_FD = 10, WAKE_FD = FIRST_FD, PROV_FD, EPOLL_FD, WAITER_FD };

/* A model of a provider's endpoint. */
struct device_ep {
    uint32_t arrived, armed, rung; /* atomic */
    struct ut_vcq *vcq;
    bool tells; /* posts `served` when something has arrived */
};

static struct ut_vcq vcqs[VCQS];
static struct device_ep device[VCQS];
static uint64_t readable; /* descriptors: bits from FIRST_FD on */
static uint64_t served;   /* an event: the arrivals of a program that computes */
static struct prov prov;
static struct ut_process process;
static utofu_vcq_hdl_t handles[VCQS];
static int rcs[UV_MAX_THREADS + 1];
static bool freed;
bool tries_wait; /* as ut_lock(), for fewer states */

static uint64_t bit_of(int fd)
{
    return 1ull << (fd - FIRST_FD);
}

/*
 * The kernel
 */

ssize_t __wrap_write(int fd, const void *what, size_t size);
ssize_t __wrap_write(int fd, const void *what, size_t size)
{
    (void)what;
    uv_events_post(&readable, bit_of(fd));
    return (ssize_t)size;
}

ssize_t __wrap_read(int fd, void *what, size_t size);
ssize_t __wrap_read(int fd, void *what, size_t size)
{
    (void)what;
    return uv_events_take(&readable, bit_of(fd)) ? (ssize_t)size : -1;
}

/* Sleeps until one of the descriptors is readable; with a timeout until anything has changed, and
 * not at all if that is 0. */
static uint64_t sleep_on(uint64_t mask, int64_t timeout_ms)
{
    if (timeout_ms < 0 || timeout_ms >= UT_FD_CHECK_MS)
        return uv_events_poll(&readable, mask);
    if (timeout_ms > 0)
        uv_pause();
    return uv_events_now(&readable, mask);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                 const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    uint64_t bits = 0;
    int ready = 0;

    (void)mask;
    for (nfds_t i = 0; i < n; i++)
        bits |= bit_of(fds[i].fd);
    bits = sleep_on(bits, timeout ? timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000 : -1);
    for (nfds_t i = 0; i < n; i++) {
        fds[i].revents = bits & bit_of(fds[i].fd) ? POLLIN : 0;
        ready += fds[i].revents != 0;
    }
    return ready;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int num, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int num, int timeout)
{
    static const int fds[] = {WAKE_FD, PROV_FD};
    int n = 0;

    (void)fd, (void)num;
    uint64_t bits = sleep_on(bit_of(WAKE_FD) | bit_of(PROV_FD), timeout);
    for (size_t i = 0; i < SIZE(fds); i++)
        if (bits & bit_of(fds[i]))
            events[n++].data.fd = fds[i];
    return n;
}

int __wrap_eventfd(unsigned int count, int flags);
int __wrap_eventfd(unsigned int count, int flags)
{
    (void)count, (void)flags;
    return WAITER_FD + (int)uv_self();
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = 1000};
    return 0;
}

void __wrap_ut_fd_reserve_stdio(void);
void __wrap_ut_fd_reserve_stdio(void)
{
}

int __wrap_ut_fd_release_stdio_and_move(int fd);
int __wrap_ut_fd_release_stdio_and_move(int fd)
{
    return fd;
}

int __wrap_ut_fd_mark_ours(int fd);
int __wrap_ut_fd_mark_ours(int fd)
{
    return fd;
}

void __wrap_ut_fd_close(int fd);
void __wrap_ut_fd_close(int fd)
{
    (void)fd;
}

bool __wrap_ut_fd_check_still_ours(int fd);
bool __wrap_ut_fd_check_still_ours(int fd)
{
    return fd >= 0;
}

bool __wrap_ut_fd_is_still_ours(int fd);
bool __wrap_ut_fd_is_still_ours(int fd)
{
    return fd >= 0;
}

/*
 * The provider
 */

static void arrive_as(unsigned int i, enum prov_arm least)
{
    __atomic_add_fetch(&device[i].arrived, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&device[i].armed, __ATOMIC_SEQ_CST) >= (uint32_t)least &&
        __atomic_exchange_n(&device[i].armed, 0, __ATOMIC_SEQ_CST)) {
        __atomic_store_n(&device[i].rung, 1, __ATOMIC_SEQ_CST);
        uv_events_post(&readable, bit_of(PROV_FD));
    }
}

static void arrive(unsigned int i)
{
    arrive_as(i, PROV_ARM_ALL);
}

static int poll_device(struct prov_ep *base)
{
    struct device_ep *ep = (struct device_ep *)(void *)base;

    uint32_t n = __atomic_exchange_n(&ep->arrived, 0, __ATOMIC_SEQ_CST);

    if (n == 0)
        return 0;
    ep->vcq->mrq_tail += n;
    if (ep->tells)
        uv_event_post(&served);
    return 1;
}

static bool arm_device(struct prov_ep *base, enum prov_arm what)
{
    struct device_ep *ep = (struct device_ep *)(void *)base;

    __atomic_exchange_n(&ep->armed, what, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ep->arrived, __ATOMIC_SEQ_CST) == 0)
        return false;
    __atomic_store_n(&ep->armed, 0, __ATOMIC_SEQ_CST);
    return true;
}

static void disarm_device(struct prov_ep *base)
{
    struct device_ep *ep = (struct device_ep *)(void *)base;

    __atomic_store_n(&ep->armed, 0, __ATOMIC_SEQ_CST);
}

static int fd_of_device(struct prov *of)
{
    (void)of;
    return PROV_FD;
}

static const struct prov_ops device_ops = {
    .ep_poll = poll_device, .ep_arm = arm_device, .ep_disarm = disarm_device, .fd = fd_of_device};

/* As progress() of the provider. */
int __wrap_ut_process_progress(void);
int __wrap_ut_process_progress(void)
{
    uv_events_take(&readable, bit_of(PROV_FD));
    for (unsigned int i = 0; i < VCQS; i++)
        if (device[i].vcq && __atomic_exchange_n(&device[i].rung, 0, __ATOMIC_SEQ_CST))
            ut_thread_wake(device[i].vcq);
    return -1;
}

const struct ut_process *__wrap_ut_process_peek(void);
const struct ut_process *__wrap_ut_process_peek(void)
{
    return &process;
}

/*
 * The VCQs
 */

void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg);
void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg)
{
    for (unsigned int i = 0; i < VCQS; i++)
        if (device[i].vcq)
            visit(&vcqs[i], arg);
}

struct ut_vcq *__wrap_ut_vcq_enter_recorded(struct ut_vcq *vcq, utofu_vcq_hdl_t handle);
struct ut_vcq *__wrap_ut_vcq_enter_recorded(struct ut_vcq *vcq, utofu_vcq_hdl_t handle)
{
    (void)handle;
    ut_unlock(&vcq->lock);
    return NULL;
}

bool __wrap_ut_engine_has_entry(struct ut_vcq *vcq);
bool __wrap_ut_engine_has_entry(struct ut_vcq *vcq)
{
    return vcq->mrq_head != vcq->mrq_tail;
}

void __wrap_ut_engine_request_completions(struct ut_vcq *vcq);
void __wrap_ut_engine_request_completions(struct ut_vcq *vcq)
{
    (void)vcq;
}

void __wrap_ut_job_set_background_thread(void);
void __wrap_ut_job_set_background_thread(void)
{
}

static void make_vcqs(unsigned int num, bool has_thread, bool waits)
{
    tries_wait = waits;
    memset(vcqs, 0, sizeof(vcqs));
    memset(device, 0, sizeof(device));
    memset(rcs, 0, sizeof(rcs));
    memset(&process, 0, sizeof(process));
    readable = served = 0;
    freed = false;
    prov.ops = &device_ops;
    process.prov[0] = &prov;
    spare_fd = -1;
    background.epoll_fd = EPOLL_FD;
    background.sleepers = 0;
    ut_vcq_thread.runs = has_thread;
    ut_vcq_thread.wake_fd = WAKE_FD;
    for (unsigned int i = 0; i < num; i++) {
        device[i].vcq = &vcqs[i];
        vcqs[i].handle = handles[i] = 1 + i + UT_MAX_VCQS;
        vcqs[i].num_eps = 1;
        vcqs[i].eps[0] =
            (struct ut_vcq_ep){.ops = &device_ops, .ep = (struct prov_ep *)(void *)&device[i]};
        vcqs[i].eps_end = &vcqs[i].eps[1];
        ut_vcqs[handles[i] % UT_MAX_VCQS] = &vcqs[i];
    }
}

static void make_one(void)
{
    make_vcqs(1, true, true);
}

static void make_one_whose_tries_fail(void)
{
    make_vcqs(1, true, false);
}

static void make_two(void)
{
    make_vcqs(2, true, true);
}

static void make_two_of_which_one_is_due(void)
{
    make_two();
    device[1].arrived = 1;
    device[1].tells = true;
}

/* A program that posts to it, and computes. */
static void make_one_in_session_mode(void)
{
    make_one();
    device[0].tells = true;
    vcqs[0].flags = UTOFU_VCQ_FLAG_SESSION_MODE;
    vcqs[0].pace = UT_PACE_COMPUTES;
}

static void make_one_without_thread(void)
{
    make_vcqs(1, false, true);
}

static void make_two_without_thread(void)
{
    make_vcqs(2, false, true);
}

/*
 * Threads
 */

static void background_thread(void)
{
    thread_main(NULL);
}

static void arrive_at_first(void)
{
    arrive(0);
}

static void arrive_at_second(void)
{
    arrive(1);
}

static void arrive_at_both(void)
{
    arrive(0);
    arrive(1);
}

static void take_entry(unsigned int i)
{
    ut_lock(&vcqs[i].lock);
    vcqs[i].mrq_head = vcqs[i].mrq_tail;
    ut_unlock(&vcqs[i].lock);
}

static void sleep_on_vcqs(unsigned int first, unsigned int num)
{
    utofu_vcq_hdl_t bad;

    rcs[uv_self()] = ut_wait_for_any(&handles[first], num, -1, &bad);
}

static void wait_for_first(void)
{
    sleep_on_vcqs(0, 1);
    UV_CHECK(rcs[uv_self()] == UTOFU_SUCCESS);
}

static void wait_for_second(void)
{
    sleep_on_vcqs(1, 1);
    UV_CHECK(rcs[uv_self()] == UTOFU_SUCCESS);
}

static void wait_for_any(void)
{
    sleep_on_vcqs(0, 2);
    UV_CHECK(rcs[uv_self()] == UTOFU_SUCCESS);
}

static void wait_and_take(void)
{
    wait_for_first();
    take_entry(0);
}

/* The verifier does not see that a waiter's memory on the stack is used again: this one has another
 * place. */
static __attribute__((noinline)) void wait_elsewhere(void)
{
    volatile char below[256];

    below[0] = 0;
    wait_and_take();
    UV_CHECK(below[0] == 0);
}

static void take_two(void)
{
    wait_and_take();
    if (vcqs[0].mrq_head < 2)
        wait_elsewhere();
    UV_CHECK(vcqs[0].mrq_head == 2);
}

static void arrive_twice(void)
{
    arrive(0);
    arrive(0);
}

/* The program is in a call that makes no progress. */
static void arrive_and_call(void)
{
    arrive(0);
    ut_lock(&vcqs[0].lock);
    ut_unlock(&vcqs[0].lock);
}

static void post_and_compute(void)
{
    ut_lock(&vcqs[0].lock);
    vcqs[0].toq_tail++;
    ut_thread_on_post(&vcqs[0]);
    ut_unlock(&vcqs[0].lock);
    uv_event_wait(&served);
}

/* An SPS, say. */
static void arrive_solicited(void)
{
    arrive_as(0, PROV_ARM_SOLICITED);
}

static void request_progress(void)
{
    ut_lock(&vcqs[1].lock);
    ut_vcq_request_progress(&vcqs[1]);
    ut_unlock(&vcqs[1].lock);
    uv_event_wait(&served);
}

/* A call that makes progress, but visits no VCQs. */
static void arrive_and_progress(void)
{
    arrive(0);
    __wrap_ut_process_progress();
}

/* Something waits in the endpoint of the second VCQ, which nobody has armed. */
static void request_and_end(void)
{
    ut_lock(&vcqs[1].lock);
    ut_vcq_request_progress(&vcqs[1]);
    ut_unlock(&vcqs[1].lock);
    UV_CHECK(ut_wait_end(handles[0]) == UTOFU_SUCCESS);
    uv_event_wait(&served);
}

static void wait_for_freed(void)
{
    sleep_on_vcqs(0, 1);
    UV_CHECK(rcs[uv_self()] == UTOFU_ERR_INVALID_VCQ_HDL);
}

static void end_wait(void)
{
    UV_CHECK(ut_wait_end(handles[0]) == UTOFU_SUCCESS);
}

/* As ut_vcq_free(). */
static void free_vcq(void)
{
    ut_lock(&vcqs[0].lock);
    __atomic_store_n(&vcqs[0].handle, 1, __ATOMIC_RELAXED);
    ut_vcq_end_waits(&vcqs[0]);
    vcqs[0].num_eps = 0;
    freed = true;
    ut_unlock(&vcqs[0].lock);
}

/*
 * The end
 */

static void nobody_waits(void)
{
    for (unsigned int i = 0; i < VCQS; i++)
        UV_CHECK(vcqs[i].waits == NULL && !vcqs[i].wait_ended);
    UV_CHECK(background.sleepers == 0);
}

/* The bits of `daemons` are of the background thread. */
static const struct uv_scenario scenarios[] = {
    {"computes",
     make_one_in_session_mode,
     {post_and_compute, arrive_solicited, background_thread},
     nobody_waits,
     1 << 2,
     false},
    {"requested",
     make_two_of_which_one_is_due,
     {request_progress, background_thread},
     nobody_waits,
     1 << 1,
     false},
    {"ended", make_one, {wait_for_first, end_wait, background_thread}, nobody_waits, 1 << 2, false},
    {"freed", make_one, {wait_for_freed, free_vcq, background_thread}, nobody_waits, 1 << 2, false},
    {"alone", make_one_without_thread, {wait_and_take, arrive_at_first}, nobody_waits, 0, false},
    {"beside_progress",
     make_one_without_thread,
     {wait_for_first, arrive_and_progress},
     nobody_waits,
     0,
     false},
    {"one",
     make_one,
     {wait_and_take, arrive_at_first, background_thread},
     nobody_waits,
     1 << 2,
     UV_SLOW},
    {"tries_fail",
     make_one_whose_tries_fail,
     {wait_and_take, arrive_at_first, background_thread},
     nobody_waits,
     1 << 2,
     UV_SLOW},
    {"beside_a_call",
     make_one_whose_tries_fail,
     {wait_and_take, arrive_and_call, background_thread},
     nobody_waits,
     1 << 2,
     UV_NAMED},
    {"twice",
     make_one,
     {take_two, arrive_twice, background_thread},
     nobody_waits,
     1 << 2,
     UV_ENDLESS},
    {"requested_beside_a_wait",
     make_two_of_which_one_is_due,
     {wait_for_first, request_and_end, background_thread},
     nobody_waits,
     1 << 2,
     UV_SLOW},
    {"any_of_two",
     make_two,
     {wait_for_any, arrive_at_second, background_thread},
     nobody_waits,
     1 << 2,
     UV_SLOW},
    {"two_sleepers_alone",
     make_one_without_thread,
     {wait_for_first, wait_for_first, arrive_at_first},
     nobody_waits,
     0,
     UV_ENDLESS},
    {"two_vcqs_alone",
     make_two_without_thread,
     {wait_for_first, wait_for_second, arrive_at_both},
     nobody_waits,
     0,
     UV_ENDLESS},
};

int main(int argc, char **argv)
{
    return uv_main(argc, argv, scenarios, SIZE(scenarios));
}
