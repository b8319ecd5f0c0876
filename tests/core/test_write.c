/* SPDX-License-Identifier: Apache-2.0 */
/* Reports written to a pipe with a slow reader. */
#include "util/write.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum { SIZE = 1 << 20, PIECE = 4096 };

static char sent[SIZE], got[SIZE + 1];
static int ends[2];
static size_t num_got;

static void *read_slowly(void *unused)
{
    ssize_t n;

    (void)unused;
    do {
        usleep(500);
        n = read(ends[0], got + num_got, PIECE < sizeof(got) - num_got ? PIECE : 0);
        num_got += n > 0 ? (size_t)n : 0;
    } while (n > 0 || (n < 0 && errno == EINTR));
    return NULL;
}

static void open_pipe(int flags)
{
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(fcntl(ends[1], F_SETFL, flags), 0);
    for (size_t i = 0; i < SIZE; i++)
        sent[i] = (char)(i * 2654435761u >> 16);
}

/* The program's errno is not changed. */
static int write_to_slow_reader(void)
{
    pthread_t reader;

    cr_assert_eq(pthread_create(&reader, NULL, read_slowly, NULL), 0);
    errno = EDOM;
    int error = ut_write_all(ends[1], sent, SIZE);
    cr_assert_eq(errno, EDOM);
    close(ends[1]);
    pthread_join(reader, NULL);
    return error;
}

Test(write, pipe_that_does_not_wait_gets_all)
{
    open_pipe(O_NONBLOCK);
    cr_assert_eq(write_to_slow_reader(), 0);
    cr_assert_eq(num_got, SIZE);
    cr_assert_arr_eq(got, sent, SIZE);
}

static int signals;

/* On either thread. */
static void count(int sig)
{
    (void)sig;
    __atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED);
}

Test(write, signals_take_nothing_away)
{
    const struct sigaction action = {.sa_handler = count}; /* without SA_RESTART */
    const struct itimerval each = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};

    open_pipe(0);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &each, NULL);
    cr_assert_eq(write_to_slow_reader(), 0);
    setitimer(ITIMER_REAL, &never, NULL);
    cr_assert_gt(__atomic_load_n(&signals, __ATOMIC_RELAXED), 0);
    cr_assert_eq(num_got, SIZE);
    cr_assert_arr_eq(got, sent, SIZE);
}

Test(write, what_is_lost_is_told)
{
    signal(SIGPIPE, SIG_IGN);
    open_pipe(0);
    close(ends[0]);
    errno = EDOM;
    cr_assert_eq(ut_write_all(ends[1], sent, SIZE), EPIPE);
    cr_assert_eq(errno, EDOM);
    cr_assert_eq(ut_write_all(-1, sent, SIZE), EBADF);
}

/* The C library's function: a wait for the reader, which the test ends at once. */
static bool reader_is_away;
static int waited_ms;

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    waited_ms += timeout_ms;
    return (int)syscall(SYS_poll, fds, count, reader_is_away ? 0 : timeout_ms);
}

/* No data are read: the function gives up after a second without any. */
Test(write, reader_that_takes_nothing_is_given_up)
{
    reader_is_away = true;
    open_pipe(O_NONBLOCK);
    cr_assert_eq(ut_write_all(ends[1], sent, SIZE), EAGAIN);
    cr_assert_eq(waited_ms, 1000);
}
