/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous server, with messages made by hand: its answers, and that processes of other users
 * and without the key can neither disturb it nor learn anything from it.
 */
#include "../harness/limit.h"
#include "bootstrap/channel.h"
#include "bootstrap/job.h"
#include "bootstrap/records.h"
#include "bootstrap/server.h"
#include "util/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 4, STRANGER = 54322 };

static struct ut_job_root root;
static struct ut_job_server *server;
static struct ut_key key, other_key, no_key;
static int descriptor = -1; /* received with the last answer, or -1 */

/* A process of the job, or a stranger. */
struct peer {
    int fd;
    uint8_t challenge[UT_JOB_WIRE_NONCE]; /* the server's */
    struct ut_job_channel channel;
    size_t hello_size;
    struct ut_job_wire hello; /* as it was sent last */
};

static void start(void)
{
    static char text[64];

    snprintf(text, sizeof(text), "unix:@utofu.test.%d", (int)getpid());
    cr_assert_eq(ut_job_root_parse(&root, text), 0);
    cr_assert_eq(ut_key_parse("00112233445566778899aabbccddeeff", &key), 0);
    cr_assert_eq(ut_key_parse("00112233445566778899aabbccddeefe", &other_key), 0);
    cr_assert_eq(ut_job_server_create(&server, &root, SIZE, &key), 0);
}

static void stop(void)
{
    ut_job_server_destroy(server);
}

TestSuite(rendezvous, .init = start, .fini = stop);

static bool epoll_fails;

/* The C library's function. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    if (!epoll_fails)
        return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
    errno = ENOSPC;
    return -1;
}

static int connect_to_server(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    cr_assert_eq(connect(fd, (struct sockaddr *)&root.address, root.address_len), 0);
    return fd;
}

static void let_it_work(void)
{
    for (int i = 0; i < 4; i++)
        ut_job_server_step(server, 5);
}

static void drop_descriptor(void)
{
    if (descriptor >= 0)
        close(descriptor);
    descriptor = -1;
}

/* The bytes of an answer, or -1 when there is none. */
static ssize_t take_answer(int fd, struct ut_job_wire *answer)
{
    struct iovec iov = {answer, sizeof(*answer)};
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};

    let_it_work();
    drop_descriptor();
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);
    if (n >= 0 && CMSG_FIRSTHDR(&msg))
        memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
    return n;
}

static struct peer open_peer(void)
{
    struct peer p = {.fd = connect_to_server()};
    struct ut_job_wire msg;

    cr_assert_eq(take_answer(p.fd, &msg), UT_JOB_WIRE_HEADER + UT_JOB_WIRE_NONCE + UT_JOB_WIRE_TAG);
    cr_assert_eq(msg.type, UT_JOB_WIRE_CHALLENGE);
    memcpy(p.challenge, msg.data, sizeof(p.challenge));
    return p;
}

/* Sends bytes and lets the server work; returns the answer's status, or -1 if it hung up. */
static int tell(int fd, struct ut_job_wire *msg, const void *bytes, size_t n)
{
    if (send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        return -1;
    return take_answer(fd, msg) < UT_JOB_WIRE_HEADER ? -1 : msg->status;
}

static int ask(struct peer *p, struct ut_job_wire *answer, enum ut_job_wire_type type,
               const void *data, size_t size)
{
    struct ut_job_wire msg;
    size_t n = ut_job_wire_fill(&msg, type, UT_JOB_WIRE_OK, data, size);

    ut_job_channel_seal(&p->channel, &msg);
    int status = tell(p->fd, answer, &msg, n);
    cr_assert(status < 0 || status == UT_JOB_WIRE_REFUSED ||
                  ut_job_channel_check(&p->channel, answer),
              "every answer is sealed");
    return status;
}

static int hello_with(struct peer *p, const struct ut_key *with, uint32_t rank, uint32_t size)
{
    uint32_t ids[2] = {htole32(rank), htole32(size)};
    uint8_t data[UT_JOB_WIRE_HELLO_SIZE] = "any random bytes";
    struct ut_job_wire answer;

    memcpy(data + UT_JOB_WIRE_NONCE, ids, sizeof(ids));
    ut_job_channel_init(&p->channel, UT_JOB_SIDE_CLIENT, with, p->challenge, data);
    p->hello_size =
        ut_job_wire_fill(&p->hello, UT_JOB_WIRE_HELLO, UT_JOB_WIRE_OK, data, sizeof(data));
    ut_job_channel_seal(&p->channel, &p->hello);
    int status = tell(p->fd, &answer, &p->hello, p->hello_size);
    cr_assert(status < 0 || status == UT_JOB_WIRE_REFUSED ||
                  ut_job_channel_check(&p->channel, &answer),
              "every answer is sealed");
    return status;
}

static int hello(struct peer *p, uint32_t rank, uint32_t size)
{
    return hello_with(p, &key, rank, size);
}

static bool is_closed(int fd)
{
    char byte;

    let_it_work();
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
}

Test(rendezvous, hands_out_what_was_published)
{
    struct peer a = open_peer(), b = open_peer();
    uint32_t rank = htole32(2);
    struct ut_job_wire answer;

    cr_assert_eq(hello(&a, 2, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(hello(&b, 3, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(ask(&b, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_NOT_YET);
    cr_assert_eq(ask(&a, &answer, UT_JOB_WIRE_PUBLISH, "record", 4), UT_JOB_WIRE_OK);
    cr_assert_eq(ask(&b, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_OK);
    cr_assert_eq(le16toh(answer.size), 4);
    cr_assert_arr_eq(answer.data, "record", 4);
    /* the record stays after its publisher has ended */
    close(a.fd);
    cr_assert_eq(ask(&b, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_OK);
    rank = htole32(SIZE);
    cr_assert_eq(ask(&b, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_BAD_RANK);
    close(b.fd);
}

/* Appends `count` look-ups of rank 1. */
static size_t fill_lookups(struct peer *p, uint8_t *bytes, int count)
{
    struct ut_job_wire msg;
    uint32_t rank = htole32(1);
    size_t size = 0;

    for (int i = 0; i < count; i++) {
        size_t n = ut_job_wire_fill(&msg, UT_JOB_WIRE_LOOKUP, UT_JOB_WIRE_OK, &rank, sizeof(rank));
        ut_job_channel_seal(&p->channel, &msg);
        memcpy(bytes + size, &msg, n);
        size += n;
    }
    return size;
}

/* Appends what the server has sent. */
static size_t take_bytes(int fd, uint8_t *bytes, size_t have, size_t room)
{
    ssize_t n;

    while (have < room && (n = recv(fd, bytes + have, room - have, MSG_DONTWAIT)) > 0)
        have += (size_t)n;
    return have;
}

/* In one piece the answers fill the server's buffer more than three times; the pieces end inside
 * requests. */
Test(rendezvous, requests_that_come_together_or_in_pieces_are_answered_in_order)
{
    enum { COUNT = 200, ANSWER = UT_JOB_WIRE_HEADER + UT_JOB_RECORD_MAX + UT_JOB_WIRE_TAG };
    static const size_t pieces[] = {COUNT * ANSWER, 37, 1000};
    static uint8_t requests[COUNT * sizeof(struct ut_job_wire)], answers[COUNT * ANSWER];
    uint8_t record[UT_JOB_RECORD_MAX];
    struct peer p = open_peer();
    struct ut_job_wire answer;

    for (size_t i = 0; i < sizeof(record); i++)
        record[i] = (uint8_t)(i * 7);
    cr_assert_eq(hello(&p, 1, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(ask(&p, &answer, UT_JOB_WIRE_PUBLISH, record, sizeof(record)), UT_JOB_WIRE_OK);
    for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
        size_t size = fill_lookups(&p, requests, COUNT), have = 0;
        for (size_t at = 0; at < size; at += pieces[k]) {
            size_t n = size - at < pieces[k] ? size - at : pieces[k];
            cr_assert_eq(send(p.fd, requests + at, n, MSG_NOSIGNAL), (ssize_t)n);
            ut_job_server_step(server, 0);
            have = take_bytes(p.fd, answers, have, sizeof(answers));
        }
        let_it_work();
        have = take_bytes(p.fd, answers, have, sizeof(answers));
        cr_assert_eq(have, sizeof(answers), "%zu bytes, pieces of %zu", have, pieces[k]);
        for (int i = 0; i < COUNT; i++) {
            memcpy(&answer, answers + i * ANSWER, ANSWER);
            cr_assert(ut_job_channel_check(&p.channel, &answer));
            cr_assert_eq(memcmp(answer.data, record, sizeof(record)), 0);
        }
    }
    close(p.fd);
}

static bool has_record(const struct ut_job_records *records, uint32_t rank, const char *text)
{
    char record[UT_JOB_RECORD_MAX + 1];
    size_t size;

    return ut_job_records_read(records, rank, record, &size) && size == strlen(text) &&
           memcmp(record, text, size) == 0;
}

Test(rendezvous, records_are_read_without_asking)
{
    struct peer a = open_peer(), b = open_peer();
    struct ut_job_records records;
    struct ut_job_wire answer;

    cr_assert_eq(hello(&a, 1, SIZE), UT_JOB_WIRE_OK);
    cr_assert(ut_job_records_map(&records, descriptor, SIZE));
    cr_assert_eq(hello(&b, 3, SIZE), UT_JOB_WIRE_OK);
    cr_assert(!has_record(&records, 3, "one"));
    cr_assert_eq(ask(&b, &answer, UT_JOB_WIRE_PUBLISH, "one", 3), UT_JOB_WIRE_OK);
    cr_assert_eq(descriptor, -1, "it comes once");
    cr_assert(has_record(&records, 3, "one"));
    cr_assert_eq(ask(&b, &answer, UT_JOB_WIRE_PUBLISH, "another", 7), UT_JOB_WIRE_OK);
    cr_assert(has_record(&records, 3, "another"));
    cr_assert(!has_record(&records, SIZE, "another"), "there is no such rank");
    /* the next program with that rank has published nothing */
    close(b.fd);
    let_it_work();
    cr_assert(has_record(&records, 3, "another"));
    b = open_peer();
    cr_assert_eq(hello(&b, 3, SIZE), UT_JOB_WIRE_OK);
    cr_assert(!has_record(&records, 3, "another"));
    ut_job_records_free(&records);
    close(a.fd);
    close(b.fd);
}

Test(rendezvous, nobody_else_gets_the_records)
{
    struct peer a = open_peer(), b = open_peer(), c = open_peer(), d = open_peer();

    cr_assert_eq(descriptor, -1, "not with the challenge");
    cr_assert_eq(hello_with(&a, &other_key, 1, SIZE), UT_JOB_WIRE_REFUSED);
    cr_assert_eq(descriptor, -1);
    cr_assert_eq(hello(&b, 1, SIZE + 1), UT_JOB_WIRE_BAD_SIZE);
    cr_assert_eq(descriptor, -1);
    cr_assert_eq(hello(&c, 1, SIZE), UT_JOB_WIRE_OK);
    cr_assert_neq(descriptor, -1);
    cr_assert_eq(hello(&d, 1, SIZE), UT_JOB_WIRE_DUPLICATE);
    cr_assert_eq(descriptor, -1);
    close(a.fd);
    close(b.fd);
    close(c.fd);
    close(d.fd);
}

/* If no descriptor can be sent, as too many are in flight, the answer comes without one. */
Test(rendezvous, without_the_records_the_server_is_asked)
{
    struct peer a = open_peer(), b = open_peer();
    uint32_t rank = htole32(1);
    struct ut_job_wire answer;
    struct stat own, other;

    cr_assert_eq(hello(&a, 1, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(fstat(descriptor, &own), 0);
    for (int fd = 3; fd < 64; fd++) { /* the server's */
        if (fd != descriptor && fstat(fd, &other) == 0 && other.st_ino == own.st_ino &&
            other.st_dev == own.st_dev)
            close(fd);
    }
    cr_assert_eq(ask(&a, &answer, UT_JOB_WIRE_PUBLISH, "one", 3), UT_JOB_WIRE_OK);
    cr_assert_eq(hello(&b, 2, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(descriptor, -1);
    cr_assert_eq(ask(&b, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_OK);
    cr_assert_eq(memcmp(answer.data, "one", 3), 0);
    close(a.fd);
    close(b.fd);
}

Test(rendezvous, refuses_who_does_not_belong)
{
    struct peer a = open_peer(), b = open_peer();

    cr_assert_eq(hello(&a, 1, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(hello(&b, 1, SIZE), UT_JOB_WIRE_DUPLICATE);
    cr_assert_eq(hello(&b, SIZE, SIZE), UT_JOB_WIRE_BAD_RANK);
    cr_assert_eq(hello(&b, 2, SIZE + 1), UT_JOB_WIRE_BAD_SIZE);
    cr_assert_eq(hello(&b, 2, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(hello(&b, 3, SIZE), -1, "a second hello");
    close(a.fd);
    close(b.fd);
}

Test(rendezvous, a_rank_may_run_one_program_after_another)
{
    struct peer a = open_peer(), b = open_peer();
    uint32_t rank = htole32(1), seen, connected;
    struct ut_job_wire answer;

    cr_assert_eq(hello(&b, 0, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(hello(&a, 1, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(ask(&a, &answer, UT_JOB_WIRE_PUBLISH, "old", 3), UT_JOB_WIRE_OK);
    close(a.fd);
    a = open_peer();
    cr_assert_eq(hello(&a, 1, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(ask(&b, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_NOT_YET);
    ut_job_server_count(server, &seen, &connected);
    cr_assert_eq(seen, 2);
    cr_assert_eq(connected, 2);
    close(a.fd);
    close(b.fd);
}

Test(rendezvous, requests_before_hello_end_the_connection)
{
    struct peer p = open_peer();
    struct ut_job_wire answer;

    ut_job_channel_init(&p.channel, UT_JOB_SIDE_CLIENT, &key, p.challenge, p.challenge);
    cr_assert_eq(ask(&p, &answer, UT_JOB_WIRE_PUBLISH, "record", 6), -1);
    close(p.fd);
}

Test(rendezvous, damaged_messages_end_the_connection)
{
    static const struct {
        uint8_t type;
        uint16_t size;
    } bad[] = {{0, 0}, {99, 4}, {UT_JOB_WIRE_LOOKUP, 3}, {UT_JOB_WIRE_PUBLISH, 256}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct peer p = open_peer();
        char data[UT_JOB_WIRE_DATA] = {0};
        struct ut_job_wire answer;
        cr_assert_eq(hello(&p, 0, SIZE), UT_JOB_WIRE_OK);
        cr_assert_eq(ask(&p, &answer, bad[i].type, data, bad[i].size), -1, "case %zu", i);
        close(p.fd);
        ut_job_server_step(server, 5);
    }
}

Test(rendezvous, random_bytes_do_no_harm)
{
    unsigned char bytes[300];
    struct ut_job_wire *msg = (struct ut_job_wire *)bytes, answer;
    struct peer good = open_peer();

    srand(1);
    cr_assert_eq(hello(&good, 0, SIZE), UT_JOB_WIRE_OK);
    cr_assert_eq(ask(&good, &answer, UT_JOB_WIRE_PUBLISH, "record", 4), UT_JOB_WIRE_OK);
    for (int i = 0; i < 500; i++) {
        int fd = connect_to_server();
        size_t n = 1 + (size_t)rand() % sizeof(bytes);
        for (size_t k = 0; k < sizeof(bytes); k++)
            bytes[k] = (unsigned char)rand();
        /* every second one passes the first check */
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
    cr_assert_eq(ask(&good, &answer, UT_JOB_WIRE_LOOKUP, &rank, 4), UT_JOB_WIRE_OK);
    close(good.fd);
}

Test(rendezvous, silent_strangers_do_not_keep_others_out)
{
    enum { MANY = 300 };
    int fds[MANY];

    for (int i = 0; i < MANY; i++) {
        fds[i] = connect_to_server();
        ut_job_server_step(server, 0);
    }
    struct peer p = open_peer();
    cr_assert_eq(hello(&p, 1, SIZE), UT_JOB_WIRE_OK);
    char bytes[64];
    ssize_t n = recv(fds[0], bytes, sizeof(bytes), MSG_DONTWAIT);
    cr_assert(n > 0 && recv(fds[0], bytes, sizeof(bytes), MSG_DONTWAIT) == 0,
              "the oldest stranger was dropped");
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close(p.fd);
}

/* HELLO_TIMEOUT_MS of the server is 10 s. */
Test(rendezvous, a_single_one_without_a_hello_is_dropped_too)
{
    struct peer p = open_peer();
    char byte;
    int64_t start = ut_clock_ms();

    while (recv(p.fd, &byte, 1, MSG_DONTWAIT) != 0) {
        cr_assert_lt((int64_t)ut_clock_ms(), start + 30000);
        ut_job_server_step(server, 100);
    }
    cr_assert_gt((int64_t)ut_clock_ms(), start + 5000, "not at once");
    close(p.fd);
}

/* 200 connect at once: a step of the server accepts a few, and serves the other connections before
 * it accepts more. */
Test(rendezvous, strangers_who_knock_without_end_do_not_keep_others_waiting)
{
    enum { MANY = 200 };
    struct peer p = open_peer();
    struct ut_job_wire answer;
    uint32_t rank = htole32(1);
    int fds[MANY];

    cr_assert_eq(hello(&p, 1, SIZE), UT_JOB_WIRE_OK);
    for (int i = 0; i < MANY; i++)
        fds[i] = connect_to_server();
    struct ut_job_wire msg;
    size_t n = ut_job_wire_fill(&msg, UT_JOB_WIRE_LOOKUP, UT_JOB_WIRE_OK, &rank, sizeof(rank));
    ut_job_channel_seal(&p.channel, &msg);
    cr_assert_eq(send(p.fd, &msg, n, 0), (ssize_t)n);
    ut_job_server_step(server, 5);
    cr_assert_gt(recv(p.fd, &answer, sizeof(answer), MSG_DONTWAIT), 0);
    struct pollfd last = {.fd = fds[MANY - 1], .events = POLLIN};
    cr_assert_eq(poll(&last, 1, 0), 0, "the last one waits for the next steps");
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close(p.fd);
}

Test(rendezvous, strangers_do_not_take_the_last_descriptors)
{
    enum { MANY = 60, SPARE = 100 };
    struct rlimit limit;
    int fds[MANY], low = dup(0);

    for (int i = 0; i < MANY; i++)
        fds[i] = connect_to_server();
    struct peer p = {.fd = connect_to_server()};
    /* half of them find a descriptor */
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)p.fd + 1 + MANY / 2;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < SPARE; i++)
        ut_job_server_step(server, 0);
    struct ut_job_wire msg;
    cr_assert_gt(take_answer(p.fd, &msg), 0, "the last one got in");
    memcpy(p.challenge, msg.data, sizeof(p.challenge));
    cr_assert_eq(hello(&p, 1, SIZE), UT_JOB_WIRE_OK);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close(p.fd);
    close(low);
}

/* ---- without the key, with another one, or with recorded messages ---- */

Test(rendezvous, who_has_another_key_learns_nothing)
{
    const struct ut_key *const keys[] = {&other_key, &no_key};
    struct ut_job_wire answer;
    uint32_t seen, connected;

    /* right and wrong sizes and ranks, and one in use: the same answer */
    struct peer taken = open_peer();
    cr_assert_eq(hello(&taken, 1, SIZE), UT_JOB_WIRE_OK);
    for (uint32_t size = 1; size <= SIZE + 2; size++) {
        for (uint32_t rank = 0; rank < SIZE + 2; rank++) {
            struct peer p = open_peer();
            cr_assert_eq(hello_with(&p, keys[rank % 2], rank, size), UT_JOB_WIRE_REFUSED);
            cr_assert(is_closed(p.fd));
            close(p.fd);
        }
    }
    /* without a tag */
    struct peer p = open_peer();
    size_t n = ut_job_wire_fill(&answer, UT_JOB_WIRE_HELLO, UT_JOB_WIRE_OK, p.hello.data,
                                UT_JOB_WIRE_HELLO_SIZE);
    cr_assert_eq(tell(p.fd, &answer, &answer, n), UT_JOB_WIRE_REFUSED);
    cr_assert_eq(le16toh(answer.size), 0);
    close(p.fd);
    ut_job_server_count(server, &seen, &connected);
    cr_assert_eq(seen, 1);
    cr_assert_eq(connected, 1);
    close(taken.fd);
}

Test(rendezvous, what_was_recorded_is_refused)
{
    struct peer a = open_peer();
    struct ut_job_wire answer, msg;

    cr_assert_eq(hello(&a, 1, SIZE), UT_JOB_WIRE_OK);
    /* another connection has another challenge */
    struct peer b = open_peer();
    cr_assert_neq(memcmp(a.challenge, b.challenge, sizeof(a.challenge)), 0);
    close(a.fd);
    cr_assert_eq(tell(b.fd, &answer, &a.hello, a.hello_size), UT_JOB_WIRE_REFUSED);
    close(b.fd);
    /* on the same connection, the number is used up */
    a = open_peer();
    cr_assert_eq(hello(&a, 1, SIZE), UT_JOB_WIRE_OK);
    size_t n = ut_job_wire_fill(&msg, UT_JOB_WIRE_PUBLISH, UT_JOB_WIRE_OK, "record", 6);
    ut_job_channel_seal(&a.channel, &msg);
    cr_assert_eq(tell(a.fd, &answer, &msg, n), UT_JOB_WIRE_OK);
    cr_assert_eq(tell(a.fd, &answer, &msg, n), -1);
    close(a.fd);
    /* an answer of the server is not a request */
    a = open_peer();
    cr_assert_eq(hello(&a, 1, SIZE), UT_JOB_WIRE_OK);
    a.channel.side = UT_JOB_SIDE_SERVER;
    cr_assert_eq(ask(&a, &answer, UT_JOB_WIRE_PUBLISH, "record", 6), -1);
    close(a.fd);
}

Test(rendezvous, a_message_that_was_changed_ends_the_connection)
{
    struct ut_job_wire msg, answer;
    size_t n = ut_job_wire_fill(&msg, UT_JOB_WIRE_PUBLISH, UT_JOB_WIRE_OK, "record", 6);

    for (size_t i = 0; i < n; i++) {
        struct peer p = open_peer();
        cr_assert_eq(hello(&p, 1, SIZE), UT_JOB_WIRE_OK);
        ut_job_wire_fill(&msg, UT_JOB_WIRE_PUBLISH, UT_JOB_WIRE_OK, "record", 6);
        ut_job_channel_seal(&p.channel, &msg);
        ((uint8_t *)&msg)[i] ^= 1;
        /* one byte more or less: the message ends there, or waits for the rest */
        cr_assert_eq(tell(p.fd, &answer, &msg, n), -1, "byte %zu", i);
        close(p.fd);
        ut_job_server_step(server, 5);
    }
}

/* For a unix socket the key is not sufficient, and another user is refused in any case. */
static int be_another_user(void)
{
    struct ut_job_wire msg;

    if (setresgid(STRANGER, STRANGER, STRANGER) != 0 ||
        setresuid(STRANGER, STRANGER, STRANGER) != 0)
        return 77;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&root.address, root.address_len) != 0)
        return 1;
    if (recv(fd, &msg, sizeof(msg), MSG_WAITALL) != UT_JOB_WIRE_HEADER + UT_JOB_WIRE_TAG)
        return 1; /* more would be a challenge: it was let in */
    return msg.type != UT_JOB_WIRE_CHALLENGE || msg.status != UT_JOB_WIRE_REFUSED;
}

static long rejected_user;
static int rejections;

static void note_rejection(long uid, long pid)
{
    (void)pid;
    rejected_user = uid;
    rejections++;
}

Test(rendezvous, another_user_is_turned_away)
{
    int status;

    if (geteuid() != 0)
        return;
    ut_job_server_on_rejection(server, note_rejection);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(be_another_user());
        while (waitpid(child, &status, WNOHANG) == 0)
            ut_job_server_step(server, 5);
        cr_assert(WIFEXITED(status));
        cr_assert(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
        if (WEXITSTATUS(status) == 77)
            return;
    }
    cr_assert_eq(rejected_user, STRANGER);
    cr_assert_eq(rejections, 1, "once for each user");
    /* the bad twin: the same by this user is accepted */
    struct peer p = open_peer();
    close(p.fd);
}

/* The C library's functions, where a test plays other users: this process is 1000. */
static long played_user = -1;

uid_t geteuid(void)
{
    return played_user >= 0 ? 1000 : (uid_t)syscall(SYS_geteuid);
}

int getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
    if (played_user < 0 || level != SOL_SOCKET || option != SO_PEERCRED)
        return (int)syscall(SYS_getsockopt, fd, level, option, value, size);
    *(struct ucred *)value = (struct ucred){.pid = 5, .uid = (uid_t)played_user};
    return 0;
}

/* Also root; the eight last ones are known. */
Test(rendezvous, each_other_user_is_told_once)
{
    static const int users[] = {7, 0, 7, 0, 8, 9, 10, 11, 12, 13, 13, 7, 0, 14, 15, 7, 15};
    static const bool told[] = {1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0};
    struct ut_job_wire msg;

    ut_job_server_on_rejection(server, note_rejection);
    for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
        rejections = 0;
        played_user = users[i];
        int fd = connect_to_server();
        while (recv(fd, &msg, sizeof(msg), MSG_DONTWAIT) < 0)
            ut_job_server_step(server, 5);
        close(fd);
        cr_assert_eq(msg.status, UT_JOB_WIRE_REFUSED);
        cr_assert_eq(rejections, told[i], "%zu: user %d", i, users[i]);
        cr_assert(!told[i] || rejected_user == users[i]);
    }
}

static unsigned int count_descriptors(void)
{
    unsigned int n = 0;

    for (int fd = 0; fd < 200; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Connections with and without a hello, and the name: another server may have it at once. */
Test(rendezvous, server_gives_everything_back)
{
    struct peer a = open_peer(), b = open_peer();

    drop_descriptor();
    cr_assert_eq(hello(&a, 1, SIZE), UT_JOB_WIRE_OK);
    drop_descriptor();
    unsigned int before = count_descriptors();
    ut_job_server_destroy(server);
    /* two connections; the name's, epoll's and the records' */
    cr_assert_eq(count_descriptors(), before - 5);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert(connect(fd, (struct sockaddr *)&root.address, root.address_len) != 0 &&
              errno == ECONNREFUSED);
    close(fd);
    cr_assert_eq(ut_job_server_create(&server, &root, SIZE, &key), 0);
    cr_assert_eq(count_descriptors(), before - 2);
    /* the name is taken: nothing stays */
    struct ut_job_server *second;
    cr_assert_eq(ut_job_server_create(&second, &root, SIZE, &key), -EADDRINUSE);
    cr_assert_eq(count_descriptors(), before - 2);
    /* nor if the kernel has no more room for what is watched (max_user_watches) */
    ut_job_server_destroy(server);
    epoll_fails = true;
    cr_assert_eq(ut_job_server_create(&server, &root, SIZE, &key), -ENOSPC);
    cr_assert_eq(count_descriptors(), before - 5);
    epoll_fails = false;
    cr_assert_eq(ut_job_server_create(&server, &root, SIZE, &key), 0);
    close(a.fd);
    close(b.fd);
}

/* A port whose last connection the server has ended: the kernel keeps the port for a minute. */
Test(rendezvous, port_is_used_again_at_once)
{
    /* at an address that no other process of this machine has ports of */
    const uint32_t host = INADDR_LOOPBACK | ((uint32_t)getpid() & 0x7fff) << 8;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
    socklen_t size = sizeof(address);
    struct ut_job_root tcp;
    char text[64], byte;

    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(bind(fd, (struct sockaddr *)&address, size) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    close(fd);
    snprintf(text, sizeof(text), "127.%u.%u.1:%u", host >> 16 & 255, host >> 8 & 255,
             ntohs(address.sin_port));
    cr_assert_eq(ut_job_root_parse(&tcp, text), 0);
    ut_job_server_destroy(server);
    cr_assert_eq(ut_job_server_create(&server, &tcp, SIZE, &key), 0);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(send(fd, "not a hello at all, but more than a header", 42, 0), 42);
    while (recv(fd, &byte, 1, MSG_DONTWAIT) != 0 && errno != ECONNRESET)
        ut_job_server_step(server, 5);
    ut_job_server_destroy(server);
    close(fd);
    cr_assert_eq(ut_job_server_create(&server, &tcp, SIZE, &key), 0);
}
