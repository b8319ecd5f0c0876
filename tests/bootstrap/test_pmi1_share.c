/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing the launcher's socket: this test acts as the MPI library and the launcher. */
#include "bootstrap/pmi1_share.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 20000 };

static int mpi, own; /* the descriptors of MPI and of this library */
static int launcher;

/* How the calls of this library's thread end: by a signal, so many times; with a few bytes. */
static int interrupts;
static size_t at_most = SIZE_MAX;
static pthread_t test_thread;

ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    if (pthread_equal(pthread_self(), test_thread))
        return __real_send(fd, data, size, flags);
    if (interrupts > 0) {
        interrupts--;
        errno = EINTR;
        return -1;
    }
    return __real_send(fd, data, size < at_most ? size : at_most, flags);
}

static void open_all(void)
{
    int ends[2];

    test_thread = pthread_self();
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    mpi = ends[0];
    launcher = ends[1];
    cr_assert(ut_job_pmi1_share(mpi, &own) == 0);
    cr_assert_neq(own, mpi);
}

TestSuite(share, .init = open_all);

static void say(int fd, const char *text)
{
    cr_assert_eq(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

/* Receives exactly this text. */
static void hear(int fd, const char *text)
{
    char got[256] = "";
    size_t have = 0;

    while (have < strlen(text)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        cr_assert(poll(&p, 1, WAIT_MS) == 1, "'%s' does not come, only '%s'", text, got);
        ssize_t n = recv(fd, got + have, strlen(text) - have, 0);
        cr_assert(n > 0);
        have += (size_t)n;
    }
    cr_assert_str_eq(got, text);
}

static void expect_nothing(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    cr_assert_eq(poll(&p, 1, 50), 0);
}

/* Waits until this library may or may not ask, when the thread has seen the messages. */
static void await_turn(int wanted)
{
    int rc = 1;

    for (int i = 0; i < WAIT_MS && rc != wanted; i++) {
        if (i > 0)
            usleep(1000);
        rc = ut_job_pmi1_enter();
        if (rc == 0)
            ut_job_pmi1_leave();
    }
    cr_assert_eq(rc, wanted, "%d", rc);
}

Test(share, mpi_and_this_library_take_turns)
{
    await_turn(0);
    say(mpi, "cmd=get key=a\n");
    hear(launcher, "cmd=get key=a\n");
    await_turn(-EBUSY);
    say(launcher, "cmd=get_result value=b\n");
    hear(mpi, "cmd=get_result value=b\n");
    await_turn(0);
}

Test(share, a_request_of_this_library_is_not_mpis_business)
{
    cr_assert_eq(ut_job_pmi1_enter(), 0);
    say(own, "cmd=lookup_name service=x\n");
    hear(launcher, "cmd=lookup_name service=x\n");
    say(launcher, "cmd=lookup_result info=ok\n");
    say(mpi, "cmd=get key=a\n"); /* meanwhile */
    expect_nothing(launcher);
    expect_nothing(mpi);
    hear(own, "cmd=lookup_result info=ok\n");
    ut_job_pmi1_leave();
    hear(launcher, "cmd=get key=a\n");
    say(launcher, "cmd=get_result value=b\n");
    hear(mpi, "cmd=get_result value=b\n");
}

Test(share, line_is_longer_than_what_is_kept_of_it)
{
    say(mpi, "cmd=get kvsname=kvs_4711_0 key=a\n");
    hear(launcher, "cmd=get kvsname=kvs_4711_0 key=a\n");
    await_turn(-EBUSY);
    say(launcher, "cmd=get_result value=b\n");
    hear(mpi, "cmd=get_result value=b\n");
    await_turn(0);
}

Test(share, half_a_line_keeps_the_turn)
{
    say(mpi, "cmd=g");
    hear(launcher, "cmd=g");
    await_turn(-EBUSY);
    say(mpi, "et key=a\n");
    hear(launcher, "et key=a\n");
    say(launcher, "cmd=get_re");
    hear(mpi, "cmd=get_re");
    await_turn(-EBUSY);
    say(launcher, "sult\n");
    hear(mpi, "sult\n");
    await_turn(0);
}

Test(share, a_command_of_several_lines_is_one_request)
{
    say(mpi, "mcmd=spawn\n");
    hear(launcher, "mcmd=spawn\n");
    await_turn(-EBUSY);
    say(mpi, "nprocs=1\nendcmd\n");
    hear(launcher, "nprocs=1\nendcmd\n");
    await_turn(-EBUSY);
    say(launcher, "cmd=spawn_result rc=0\n");
    hear(mpi, "cmd=spawn_result rc=0\n");
    await_turn(0);
}

Test(share, this_library_asks_while_mpi_is_in_a_barrier)
{
    say(mpi, "cmd=barrier_in\n");
    hear(launcher, "cmd=barrier_in\n");
    await_turn(0);
    cr_assert_eq(ut_job_pmi1_enter(), 0);
    say(own, "cmd=lookup_name service=x\n");
    say(launcher, "cmd=barrier_out rc=0\ncmd=lookup_result info=ok\n");
    hear(own, "cmd=barrier_out rc=0\n");
    cr_assert(ut_job_pmi1_forward_to_mpi("cmd=barrier_out rc=0"));
    hear(own, "cmd=lookup_result info=ok\n");
    cr_assert(!ut_job_pmi1_forward_to_mpi("cmd=lookup_result info=ok"));
    cr_assert(!ut_job_pmi1_forward_to_mpi("cmd=barrier_out rc=0"));
    ut_job_pmi1_leave();
    hear(mpi, "cmd=barrier_out rc=0\n");
    await_turn(0);
}

/* Slurm's daemon handles only one line per read. */
Test(share, this_library_waits_until_a_barrier_is_read)
{
    say(mpi, "cmd=barrier_in\n");
    struct pollfd p = {.fd = launcher, .events = POLLIN};
    cr_assert_eq(poll(&p, 1, WAIT_MS), 1);
    await_turn(-EBUSY);
    hear(launcher, "cmd=barrier_in\n");
    await_turn(0);
}

Test(share, a_late_answer_to_this_library_does_not_reach_mpi)
{
    say(launcher, "cmd=lookup_result info=ok\n");
    expect_nothing(mpi);
    say(mpi, "cmd=get key=a\n");
    hear(launcher, "cmd=get key=a\n");
    say(launcher, "cmd=get_result value=b\n");
    hear(mpi, "cmd=get_result value=b\n");
}

Test(share, after_the_goodbye_nobody_asks)
{
    say(mpi, "cmd=finalize\n");
    hear(launcher, "cmd=finalize\n");
    await_turn(-ESHUTDOWN);
    say(launcher, "cmd=finalize_ack\n");
    hear(mpi, "cmd=finalize_ack\n");
    await_turn(-ESHUTDOWN);
    close(mpi);
    char byte;
    cr_assert_eq(recv(launcher, &byte, 1, 0), 0); /* the launcher sees the end */
    await_turn(-ESHUTDOWN);
}

Test(share, another_protocol_is_passed_on_and_not_spoken)
{
    say(mpi, "    22cmd=fullinit;pmirank=0;\n");
    hear(launcher, "    22cmd=fullinit;pmirank=0;\n");
    await_turn(-EPROTONOSUPPORT);
    say(launcher, "    13cmd=response;");
    hear(mpi, "    13cmd=response;");
}

Test(share, mpi_sees_that_the_launcher_is_gone)
{
    char byte;

    close(launcher);
    cr_assert_eq(recv(mpi, &byte, 1, 0), 0);
}

Test(share, a_request_is_forwarded_in_pieces_and_after_signals)
{
    interrupts = 3;
    at_most = 5;
    say(mpi, "cmd=get kvsname=kvs_4711_0 key=a\n");
    hear(launcher, "cmd=get kvsname=kvs_4711_0 key=a\n");
    interrupts = 2;
    say(launcher, "cmd=get_result value=b\n");
    hear(mpi, "cmd=get_result value=b\n");
    await_turn(0);
}

Test(share, mpi_sees_that_the_launcher_reads_no_more)
{
    struct pollfd p = {.fd = mpi, .events = POLLIN};
    char byte;

    cr_assert(shutdown(launcher, SHUT_RD) == 0);
    say(mpi, "cmd=get key=a\n");
    cr_assert(poll(&p, 1, WAIT_MS) == 1, "MPI waits for an answer");
    cr_assert_eq(recv(mpi, &byte, 1, 0), 0);
}

Test(share, closing_the_number_of_mpi_leaves_the_socket_to_this_library)
{
    close(mpi);
    usleep(50000);
    cr_assert_eq(ut_job_pmi1_enter(), 0);
    say(own, "cmd=lookup_name service=x\n");
    hear(launcher, "cmd=lookup_name service=x\n");
    say(launcher, "cmd=lookup_result info=ok\n");
    hear(own, "cmd=lookup_result info=ok\n");
    ut_job_pmi1_leave();
    await_turn(0);
}

Test(share, a_number_that_is_no_descriptor_is_refused, .init = NULL)
{
    cr_assert_eq(ut_job_pmi1_share(900, &own), -EBADF);
    cr_assert_eq(ut_job_pmi1_enter(), 0);
    ut_job_pmi1_leave();
}
