/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous server, spoken to by hand: what it answers, and that strangers cannot harm it. */
#include "job/job_server.h"
#include "job/job_wire.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 4 };

static struct ut_job_root root;
static struct ut_job_server *server;

static void start(void)
{
    static char text[64];

    snprintf(text, sizeof(text), "unix:@utofu.test.%d", (int)getpid());
    cr_assert_eq(ut_job_root_parse(&root, text), 0);
    cr_assert_eq(ut_job_server_create(&server, &root, SIZE), 0);
}

static void stop(void)
{
    ut_job_server_destroy(server);
}

TestSuite(rendezvous, .init = start, .fini = stop);

static int open_client(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    cr_assert_eq(connect(fd, (struct sockaddr *)&root.address, root.address_len), 0);
    return fd;
}

/* Sends bytes and lets the server work; the answer's status, or -1 when it hung up. */
static int tell(int fd, struct ut_job_wire *msg, const void *bytes, size_t n)
{
    if (send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        return -1;
    for (int i = 0; i < 4; i++)
        ut_job_server_step(server, 5);
    ssize_t got = recv(fd, msg, sizeof(*msg), MSG_DONTWAIT);
    return got < UT_JOB_WIRE_HEADER ? -1 : msg->status;
}

static int ask(int fd, struct ut_job_wire *answer, enum ut_job_wire_type type, const void *data,
               size_t size)
{
    struct ut_job_wire msg;

    return tell(fd, answer, &msg, ut_job_wire_fill(&msg, type, UT_JOB_WIRE_OK, data, size));
}

static int hello(int fd, uint32_t rank, uint32_t size)
{
    uint32_t ids[2] = {htole32(rank), htole32(size)};
    struct ut_job_wire answer;

    return ask(fd, &answer, UT_JOB_WIRE_HELLO, ids, sizeof(ids));
}

Test(rendezvous, hands_out_what_was_published)
{
    int a = open_client(), b = open_client();
    uint32_t rank = htole32(2);
    struct ut_job_wire answer;

    cr_assert_eq(hello(a, 2, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(hello(b, 3, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(ask(b, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_NOT_YET);
    cr_assert_eq(ask(a, &answer, UT_JOB_WIRE_PUBLISH, "blob", 4), UT_JOB_WIRE_OK);
    cr_assert_eq(ask(b, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_OK);
    cr_assert_eq(le16toh(answer.size), 4);
    cr_assert_arr_eq(answer.data, "blob", 4);
    /* the publisher's end does not take its blob away */
    close(a);
    cr_assert_eq(ask(b, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_OK);
    rank = htole32(SIZE);
    cr_assert_eq(ask(b, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_BAD_RANK);
    close(b);
}

Test(rendezvous, refuses_who_does_not_belong)
{
    int a = open_client(), b = open_client();

    cr_assert_eq(hello(a, 1, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(hello(b, 1, SIZE), UT_JOB_WIRE_DUPLICATE);
    cr_assert_eq(hello(b, SIZE, SIZE), UT_JOB_WIRE_BAD_RANK);
    cr_assert_eq(hello(b, 2, SIZE + 1), UT_JOB_WIRE_BAD_SIZE);
    cr_assert_eq(hello(b, 2, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(hello(b, 3, SIZE), -1, "a second hello");
    close(a);
    close(b);
}

Test(rendezvous, a_rank_may_run_one_program_after_another)
{
    int a = open_client(), b = open_client();
    uint32_t rank = htole32(1), seen, connected;
    struct ut_job_wire answer;

    cr_assert_eq(hello(b, 0, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(hello(a, 1, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(ask(a, &answer, UT_JOB_WIRE_PUBLISH, "old", 3), UT_JOB_WIRE_OK);
    close(a);
    a = open_client();
    cr_assert_eq(hello(a, 1, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(ask(b, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_NOT_YET);
    ut_job_server_count(server, &seen, &connected);
    cr_assert_eq(seen, 2);
    cr_assert_eq(connected, 2);
    close(a);
    close(b);
}

Test(rendezvous, requests_before_hello_end_the_connection)
{
    int fd = open_client();
    struct ut_job_wire answer;

    cr_assert_eq(ask(fd, &answer, UT_JOB_WIRE_PUBLISH, "blob", 4), -1);
    close(fd);
}

Test(rendezvous, damaged_messages_end_the_connection)
{
    static const struct {
        uint8_t type;
        uint16_t size;
    } bad[] = {{0, 0}, {99, 4}, {UT_JOB_WIRE_LOOKUP, 3}, {UT_JOB_WIRE_PUBLISH, 256}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int fd = open_client();
        char data[UT_JOB_WIRE_DATA] = {0};
        struct ut_job_wire answer;
        cr_assert_eq(hello(fd, 0, SIZE), UT_JOB_WIRE_OK);
        cr_assert_eq(ask(fd, &answer, bad[i].type, data, bad[i].size), -1, "case %zu", i);
        close(fd);
        ut_job_server_step(server, 5);
    }
}

Test(rendezvous, random_bytes_do_no_harm)
{
    unsigned char bytes[300];
    struct ut_job_wire *msg = (struct ut_job_wire *)bytes, answer;
    int good = open_client();

    srand(1);
    cr_assert_eq(hello(good, 0, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(ask(good, &answer, UT_JOB_WIRE_PUBLISH, "blob", 4), UT_JOB_WIRE_OK);
    for (int i = 0; i < 500; i++) {
        int fd = open_client();
        size_t n = 1 + (size_t)rand() % sizeof(bytes);
        for (size_t k = 0; k < sizeof(bytes); k++)
            bytes[k] = (unsigned char)rand();
        /* every other one passes the first check */
        if (i % 2) {
            ut_job_wire_fill(msg, (uint8_t)(rand() % 5), UT_JOB_WIRE_OK, NULL, 0);
            msg->size = htole16((uint16_t)(rand() % 300));
        }
        if (send(fd, bytes, n, MSG_NOSIGNAL) < 0)
            cr_assert_eq(errno, EPIPE);
        ut_job_server_step(server, 0);
        close(fd);
        ut_job_server_step(server, 0);
    }
    uint32_t rank = 0;
    cr_assert_eq(ask(good, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_OK);
    close(good);
}

Test(rendezvous, silent_strangers_do_not_keep_others_out)
{
    enum { MANY = 300 };
    int fds[MANY];

    for (int i = 0; i < MANY; i++) {
        fds[i] = open_client();
        ut_job_server_step(server, 0);
    }
    int fd = open_client();
    cr_assert_eq(hello(fd, 1, SIZE), UT_JOB_WIRE_OK);
    struct pollfd oldest = {.fd = fds[0], .events = POLLIN};
    cr_assert_eq(poll(&oldest, 1, 0), 1, "the oldest stranger was dropped");
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close(fd);
}
