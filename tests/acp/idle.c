/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the threads of layers wait (layers/common/idle.c), how they are started, and descriptors of a
 * layer (fd.h): with a played clock, kernel and scheduler.
 */
#include "../harness/fake_clock.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../harness/check.h"

#include "../../layers/common/fd.h"
#include "../../layers/common/idle.h"

static uint32_t word;
static uint64_t yield_ns; /* how long a yield takes */
static int num_yields, num_naps, num_waits, num_wakes, change_at_yield, change_at_nap;
static long last_nap_ns;
static int create_error;

int __wrap_sched_yield(void);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest);
long __wrap_syscall(long number, ...);
int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);

int __wrap_sched_yield(void)
{
    fake_clock_ns += yield_ns;
    if (++num_yields == change_at_yield)
        word = 8;
    return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *rest)
{
    CHECK(t->tv_sec == 0 && rest == NULL);
    last_nap_ns = t->tv_nsec;
    if (++num_naps == change_at_nap)
        word = 8;
    return 0;
}

long __wrap_syscall(long number, ...)
{
    va_list args;

    va_start(args, number);
    const uint32_t *at = va_arg(args, const uint32_t *);
    int op = va_arg(args, int);
    uint32_t value = va_arg(args, uint32_t);
    const struct timespec *t = va_arg(args, const struct timespec *);
    va_end(args);
    CHECK(number == SYS_futex && at == &word);
    if (op == FUTEX_WAIT_PRIVATE) {
        CHECK(value == 7 && t->tv_sec == 0 && t->tv_nsec == 1000000);
        num_waits++;
    } else {
        CHECK(op == FUTEX_WAKE_PRIVATE && value == 1 && t == NULL);
        num_wakes++;
    }
    return 0;
}

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    return create_error ? create_error : __real_pthread_create(id, attr, run, arg);
}

/* A yield that takes more than two microseconds has run another thread. */
static void long_yields_are_noticed(void)
{
    yield_ns = 2000 - FAKE_CLOCK_TICK_NS;
    CHECK(!lc_yield_core());
    yield_ns++;
    CHECK(lc_yield_core() && num_yields == 2);
    lc_sleep_ns(12345);
    CHECK(num_naps == 1 && last_nap_ns == 12345);
}

static void locks_are_waited_for(void)
{
    word = 6;
    num_yields = num_naps = 0;
    lc_spin_while_equal(&word, 7);
    CHECK(num_yields == 0 && num_naps == 0);
    word = 7;
    change_at_yield = 1;
    lc_spin_while_equal(&word, 7);
    CHECK(num_yields == 1 && num_naps == 0);
    word = 7;
    change_at_yield = 0;
    change_at_nap = 3;
    num_yields = 0;
    lc_spin_while_equal(&word, 7);
    CHECK(num_yields == 1000 - 64 && num_naps == 3 && last_nap_ns == 50000);
    word = 6;
    lc_futex_wait(&word, 7);
    CHECK(num_waits == 0);
    word = 7;
    lc_futex_wait(&word, 7); /* the kernel may return at any time */
    CHECK(num_waits == 1 && num_wakes == 0);
    lc_futex_wake(&word);
    CHECK(num_wakes == 1);
}

static void *note_thread(void *arg)
{
    sigset_t blocked;

    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    *(bool *)arg = sigismember(&blocked, SIGUSR1) == 1 && sigismember(&blocked, SIGTERM) == 1 &&
                   prctl(PR_GET_TIMERSLACK) == 1000;
    return NULL;
}

static void threads_get_no_signals(void)
{
    bool good = false;
    struct lc_thread thread;
    sigset_t blocked;

    for (create_error = 0; create_error <= EAGAIN; create_error += EAGAIN) {
        CHECK(lc_thread_start(&thread, note_thread, &good) == create_error);
        pthread_sigmask(SIG_SETMASK, NULL, &blocked);
        CHECK(sigismember(&blocked, SIGUSR1) == 0); /* as before */
        if (create_error == 0)
            lc_thread_join(&thread);
    }
    CHECK(good);
}

/* 0, 1 and 2 are the program's, even while they are closed. */
static void descriptors_are_above_stdio(void)
{
    int kept;

    do /* a process may be started without them */
        kept = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (kept >= 0 && kept < 3);
    CHECK(kept >= 3 && lc_fd_above_stdio(-1) == -1);
    for (int i = 0; i < 3; i++) {
        int before = dup(i);
        close(i);
        int fd = lc_fd_above_stdio(dup(kept));
        CHECK(fd >= 3 && fcntl(i, F_GETFD) == -1 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
        close(fd);
        dup2(before, i);
        close(before);
    }
    int third = dup(kept);
    dup2(kept, 3);
    CHECK(lc_fd_above_stdio(3) == 3 && fcntl(3, F_GETFD) != -1);
    int ours = lc_fd_open_ours(open("/dev/null", O_RDONLY | O_CLOEXEC));
    CHECK(ours > 3 && fcntl(ours, F_GETSIG) == SIGURG);
    lc_fd_close(third); /* it is the program's */
    CHECK(fcntl(third, F_GETFD) != -1);
    lc_fd_close(ours);
    CHECK(fcntl(ours, F_GETFD) == -1);
    lc_fd_close(-1);
}

int main(void)
{
    long_yields_are_noticed();
    locks_are_waited_for();
    threads_get_no_signals();
    descriptors_are_above_stdio();
    return 0;
}
