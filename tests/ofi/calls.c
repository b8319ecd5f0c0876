/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many system calls a put of 8 bytes over libfabric takes: the functions of the C library that
 * libfabric and this library call in the program's thread are counted here on their way. A put and
 * its notice take a message, which is received at once, and a question whether the target is there;
 * an empty poll takes one epoll_wait(), and the control endpoint is polled at each 64th.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

TestSuite(calls);

enum { WARM_UP = 200, ROUNDS = 1000, MOST = ROUNDS + ROUNDS / 20, BYTES = 8 };
enum what { SENDS, RECEIVES, WAITS, COPIES, QUESTIONS, NUM_WHATS };
static const char *const names[] = {"sends", "receives", "waits", "copies", "questions"};

static _Thread_local bool counting; /* the background thread has waits of its own */
static uint64_t counts[NUM_WHATS];
static struct ut_end end;

static void count(enum what what)
{
    if (counting)
        counts[what]++;
}

/* The C library's function of this name; found at the first call. */
#define REAL(name)                                                                                 \
    ({                                                                                             \
        static __typeof__(name) *real;                                                             \
        if (!real)                                                                                 \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                             \
        real;                                                                                      \
    })
#define WRAP(what, result, name, parameters, arguments)                                            \
    __attribute__((visibility("default"))) result name parameters                                  \
    {                                                                                              \
        count(what);                                                                               \
        return REAL(name) arguments;                                                               \
    }

WRAP(SENDS, ssize_t, send, (int fd, const void *data, size_t n, int flags), (fd, data, n, flags))
WRAP(SENDS, ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
WRAP(RECEIVES, ssize_t, recv, (int fd, void *data, size_t n, int flags), (fd, data, n, flags))
WRAP(RECEIVES, ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
WRAP(WAITS, int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms),
     (fd, events, n, ms))
WRAP(COPIES, ssize_t, pread, (int fd, void *data, size_t n, off_t at), (fd, data, n, at))
WRAP(COPIES, ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at))
WRAP(COPIES, ssize_t, preadv, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
WRAP(COPIES, ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
WRAP(COPIES, ssize_t, process_vm_readv,
     (pid_t pid, const struct iovec *l, unsigned long nl, const struct iovec *r, unsigned long nr,
      unsigned long flags),
     (pid, l, nl, r, nr, flags))
WRAP(COPIES, ssize_t, process_vm_writev,
     (pid_t pid, const struct iovec *l, unsigned long nl, const struct iovec *r, unsigned long nr,
      unsigned long flags),
     (pid, l, nl, r, nr, flags))

__attribute__((visibility("default"))) ssize_t sendto(int fd, const void *data, size_t n, int flags,
                                                      const struct sockaddr *to, socklen_t size)
{
    count(SENDS);
    return REAL(sendto)(fd, data, n, flags, to, size);
}

__attribute__((visibility("default"))) ssize_t recvfrom(int fd, void *data, size_t n, int flags,
                                                        struct sockaddr *from, socklen_t *size)
{
    count(RECEIVES);
    return REAL(recvfrom)(fd, data, n, flags, from, size);
}

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long a[6];
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_futex || number == SYS_rt_sigprocmask)
        count(QUESTIONS);
    return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Returns the number of polls. */
static uint64_t await_notice(void)
{
    struct utofu_mrq_notice notice;
    uint64_t polls = 1;
    int rc;

    for (; (rc = utofu_poll_mrq(end.vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND; polls++)
        ut_relax();
    CHECK_RC(rc, UTOFU_SUCCESS);
    return polls;
}

static uint64_t play(const struct ut_peer *peer, int rounds)
{
    uint64_t polls = 0;

    for (int i = 0; i < rounds; i++) {
        if (ut_rank == 1)
            polls += await_notice();
        CHECK_OK(
            utofu_put(end.vcq, peer->id, end.stadd, peer->stadd + BYTES, BYTES, 0, UT_RMT, NULL));
        if (ut_rank == 0)
            polls += await_notice();
    }
    return polls;
}

static void body(void *arg)
{
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    play(&peers[!ut_rank], WARM_UP);
    counting = true;
    uint64_t polls = play(&peers[!ut_rank], ROUNDS);
    counting = false;
    fprintf(stderr, "%llu polls", (unsigned long long)polls);
    for (int i = 0; i < NUM_WHATS; i++)
        fprintf(stderr, ", %llu %s", (unsigned long long)counts[i], names[i]);
    fprintf(stderr, "\n");
    CHECK(counts[SENDS] <= MOST && counts[RECEIVES] <= MOST && counts[QUESTIONS] <= MOST);
    CHECK_EQ(counts[COPIES], 0);
    CHECK(counts[WAITS] <= polls + polls / 32 + ROUNDS / 10);
    ut_close_all(&end);
}

Test(calls, put_of_a_word_takes_few_system_calls)
{
    ut_run(&(struct ut_run_opts){.timeout_s = 120}, body, NULL);
}
