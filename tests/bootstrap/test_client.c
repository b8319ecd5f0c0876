/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process and the rendezvous server that this test plays: right answers, wrong ones, late ones
 * and none. The process is a child with a clock of its own; what it learns and what it logs is
 * compared as text.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../harness/fake_clock.h"
#include "../harness/held_locks.h"
#include "bootstrap/channel.h"
#include "bootstrap/client.h"
#include "bootstrap/job.h"
#include "bootstrap/records.h"
#include "util/clock.h"
#include "util/env.h"

TestSuite(client);

enum { RANK = 1, SIZE = 200, WAIT_MS = 60000, LIMIT_S = 20, NONE = -1 };

static const char secret[] = "00112233445566778899aabbccddeeff";
static char root_text[64];
static struct ut_job_root root;
static struct ut_key key;

/*
 * Time passes for the process when its thread has nothing to do, or when its caller waits, as the
 * test says; else hardly.
 */

static enum { NOWHERE, IN_POLL, IN_WAITS, IN_STEPS } time_passes, passes_then;
static enum ut_job_wire_type passes_from; /* passes_then, from this request on; 0: none */

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    if (passes_from && ((const struct ut_job_wire *)bytes)->type == passes_from)
        time_passes = passes_then;
    return syscall(SYS_sendto, fd, bytes, size, flags, NULL, 0);
}

/* The server of a process that is rank 0. */
int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms)
{
    bool at_once = time_passes == IN_STEPS && timeout_ms > 0;
    int n = (int)syscall(SYS_epoll_pwait, epoll, events, most, at_once ? 0 : timeout_ms, NULL, 8);

    if (n == 0 && at_once)
        fake_clock_pass_ms((uint64_t)timeout_ms);
    return n;
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    bool at_once = time_passes == IN_POLL && timeout_ms > 0;
    int n = (int)syscall(SYS_poll, fds, count, at_once ? 0 : timeout_ms);

    if (n == 0 && at_once)
        fake_clock_pass_ms((uint64_t)timeout_ms);
    return n;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                           const struct timespec *until)
{
    uint64_t until_ms = (uint64_t)until->tv_sec * 1000 + (uint64_t)until->tv_nsec / 1000000;
    uint64_t now_ms = fake_clock_ms();
    struct timespec soon;

    if (time_passes == IN_WAITS && until_ms > now_ms)
        fake_clock_pass_ms(until_ms - now_ms);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &soon);
    soon.tv_nsec += 1000000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    return pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &soon);
}

/* The C library's functions in the process: it may get no socket, and tells what it sets. */
static bool gets_no_socket;

int socket(int domain, int type, int protocol)
{
    if (!gets_no_socket)
        return (int)syscall(SYS_socket, domain, type, protocol);
    errno = EMFILE;
    return -1;
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    if (level == IPPROTO_TCP && option == TCP_NODELAY)
        printf("TCP_NODELAY is set\n");
    return (int)syscall(SYS_setsockopt, fd, level, option, value, size);
}

/*
 * The process
 */

static struct {
    pid_t pid;
    int output; /* its standard output and standard error */
} process;

static unsigned int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned int n = 0;

    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void start_client(void)
{
    cr_assert_eq(
        ut_job_client_start(&root, RANK, SIZE, &key, (int64_t)ut_clock_ms() + LIMIT_S * 1000), 0);
}

static int look_up(uint32_t rank, int wait_ms)
{
    char record[UT_JOB_RECORD_MAX];
    size_t size = 0;
    int rc = ut_job_client_lookup(rank, record, &size, wait_ms);

    if (rc == 0)
        printf("%u is %.*s\n", rank, (int)size, record);
    else
        printf("%u: %s\n", rank, strerror(-rc));
    return rc;
}

static void publish(void)
{
    int rc = ut_job_client_publish("own", 3);

    printf("published: %s\n", rc == 0 ? "yes" : strerror(-rc));
}

static void explain(void)
{
    char text[400];

    printf("%s\n", ut_job_client_explain_absence(text, sizeof(text)) ? text : "nothing to explain");
}

/* Publishes, and looks up a rank with a record. */
static void usual(void)
{
    unsigned int before = count_descriptors();

    start_client();
    publish();
    look_up(2, WAIT_MS);
    explain();
    printf("%u descriptors more", count_descriptors() - before);
    ut_job_client_stop();
    printf(", %u at the end\n", count_descriptors() - before);
}

/* Fails at its first call, and again. */
static void unlucky(void)
{
    start_client();
    publish();
    look_up(2, WAIT_MS);
    ut_job_client_stop();
}

/* Looks up many ranks, without waiting and then waiting. */
static void busy(void)
{
    unsigned int found = 0, wrong = 0;
    char record[UT_JOB_RECORD_MAX];
    bool has[SIZE] = {false};
    size_t size;

    start_client();
    publish();
    for (int wait_ms = 0; wait_ms <= WAIT_MS; wait_ms += WAIT_MS) {
        for (uint32_t rank = 2; rank < SIZE; rank++) {
            int rc = has[rank] ? -EALREADY : ut_job_client_lookup(rank, record, &size, wait_ms);
            has[rank] |= rc == 0;
            found += rc == 0 && size == rank + 1 && record[rank] == (char)rank;
            wrong += rc != 0 && rc != -EINPROGRESS && rc != -EALREADY;
        }
    }
    printf("%u found, %u wrong, %u questions\n", found, wrong,
           (unsigned int)ut_job_num_questions());
    ut_job_client_stop();
}

/* Fails when the server, or that there is none, has taken the whole time. */
static void patient(void)
{
    unsigned int before = count_descriptors();

    time_passes = IN_POLL;
    start_client();
    look_up(2, WAIT_MS);
    printf("%u descriptors more\n", count_descriptors() - before);
    ut_job_client_stop();
}

static void without_sockets(void)
{
    gets_no_socket = true;
    patient();
}

/* Ends while nobody serves the job. */
static void early(void)
{
    time_passes = IN_WAITS;
    start_client();
    publish();
    explain();
    ut_job_client_stop();
    printf("end\n");
}

/* Publishes, and calls nothing until the thread has noticed something. */
static void idle(void)
{
    uint32_t before = ut_job_num_answers();

    start_client();
    ut_job_client_publish("own", 3); /* fails if the thread has noticed it already */
    while (ut_job_num_answers() == before)
        usleep(1000);
    look_up(2, 0);
    ut_job_client_stop();
}

/* Tells when no server has been found yet. */
static void first(void)
{
    char text[400];

    start_client();
    while (!ut_job_client_explain_absence(text, sizeof(text)))
        usleep(100);
    printf("absent\n");
    publish();
    look_up(2, WAIT_MS);
    explain();
    ut_job_client_stop();
}

/* The server takes neither the record nor the question. */
static void waits_for_an_answer(void)
{
    passes_from = UT_JOB_WIRE_PUBLISH;
    passes_then = IN_WAITS;
    start_client();
    uint64_t before = fake_clock_ms();
    publish();
    printf("after %llu s\n", (unsigned long long)(fake_clock_ms() - before) / 1000);
}

static void asks_in_vain(void)
{
    passes_from = UT_JOB_WIRE_LOOKUP;
    passes_then = IN_POLL;
    start_client();
    publish();
    look_up(2, WAIT_MS);
    ut_job_client_stop();
}

/* A process that finds its job by its variables. */
static uint64_t end_began;

static void tell_end(void)
{
    printf("ended after %llu s\n", (unsigned long long)(fake_clock_ms() - end_began) / 1000);
}

static void end_as_rank_0(uint32_t after)
{
    const struct ut_job_info *info;
    char record[UT_JOB_RECORD_MAX];
    size_t size;

    atexit(tell_end);
    if (ut_job_open(&info) != 0 || ut_job_publish("first", 5) != 0)
        exit(1);
    if (after && ut_job_lookup(after, record, &size, WAIT_MS) != 0)
        exit(1);
    time_passes = IN_STEPS;
    end_began = fake_clock_ms();
}

static void ends_alone(void)
{
    end_as_rank_0(0);
}

static void ends_before_rank_1(void)
{
    end_as_rank_0(RANK);
}

static void stays(void)
{
    start_client();
    publish();
    look_up(0, WAIT_MS);
    pause();
}

static void patient_job(void)
{
    const struct ut_job_info *info;
    char record[UT_JOB_RECORD_MAX];
    size_t size;

    time_passes = IN_POLL;
    if (ut_job_open(&info) != 0)
        exit(1);
    printf("%s\n", strerror(-ut_job_lookup(2, record, &size, WAIT_MS)));
}

static void start_process(void (*body)(void))
{
    int ends[2];

    fflush(NULL);
    cr_assert_eq(pipe(ends), 0);
    process.pid = fork();
    if (process.pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        setvbuf(stdout, NULL, _IONBF, 0);
        body();
        exit(0);
    }
    close(ends[1]);
    process.output = ends[0];
}

/* What the process has written, with ROOT for its root; waits for its end. */
static const char *output(void)
{
    static char text[8192], out[8192];
    size_t have = 0, n = 0;
    ssize_t got;
    int status;

    while ((got = read(process.output, text + have, sizeof(text) - 1 - have)) > 0)
        have += (size_t)got;
    text[have] = '\0';
    cr_assert_eq(waitpid(process.pid, &status, 0), process.pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x: %s", status, text);
    for (const char *p = text; *p; p++) {
        if (strncmp(p, root_text, strlen(root_text)) == 0) {
            n += (size_t)sprintf(out + n, "ROOT");
            p += strlen(root_text) - 1;
        } else {
            out[n++] = *p;
        }
    }
    out[n] = '\0';
    return out;
}

#define CHECK_OUTPUT(expected)                                                                     \
    do {                                                                                           \
        const char *got_ = output();                                                               \
        cr_assert_str_eq(got_, expected, "%s\nand not\n%s", got_, expected);                       \
    } while (0)

/*
 * The server
 */

static struct {
    int listen, fd;
    struct ut_job_channel channel;
    uint8_t nonce[UT_JOB_WIRE_NONCE];
    struct ut_job_wire in; /* the last request */
} server = {.listen = -1, .fd = -1};

static void make_root(void)
{
    snprintf(root_text, sizeof(root_text), "unix:@utofu.client.%d", (int)getpid());
    setenv("UTOFU_JOB_TIMEOUT", "20", 1);
    setenv("UTOFU_LOG_LEVEL", "warning", 1);
    cr_assert_eq(ut_env_load(), 0);
    cr_assert_eq(ut_job_root_parse(&root, root_text), 0);
    cr_assert_eq(ut_key_parse(secret, &key), 0);
}

static void listen_at_root(void)
{
    server.listen = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(server.listen, (struct sockaddr *)&root.address, root.address_len), 0);
    cr_assert_eq(listen(server.listen, 8), 0);
}

/* Starts a process and accepts its connection. */
static void accept_process(void (*body)(void))
{
    make_root();
    listen_at_root();
    start_process(body);
    server.fd = accept(server.listen, NULL, NULL);
    cr_assert(server.fd >= 0);
}

/* Sends a message with up to two descriptors, in pieces if `piece` is not 0. */
static void send_message(const struct ut_job_wire *msg, size_t n, const int fds[2], size_t piece)
{
    struct iovec iov = {(void *)msg, n};
    char control[CMSG_SPACE(2 * sizeof(int))] __attribute__((aligned(8))) = {0};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    int count = !fds ? 0 : fds[1] >= 0 ? 2 : 1;

    if (count > 0) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        *c = (struct cmsghdr){CMSG_LEN((size_t)count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(c), fds, (size_t)count * sizeof(int));
    }
    if (piece == 0) {
        cr_assert_eq(sendmsg(server.fd, &header, MSG_NOSIGNAL), (ssize_t)n);
        return;
    }
    for (size_t at = 0; at < n; at += piece) {
        size_t k = n - at < piece ? n - at : piece;
        cr_assert_eq(send(server.fd, (const char *)msg + at, k, MSG_NOSIGNAL), (ssize_t)k);
        usleep(200);
    }
}

static void send_challenge(void)
{
    struct ut_job_wire msg;

    memset(server.nonce, 7, sizeof(server.nonce));
    size_t n = ut_job_wire_fill(&msg, UT_JOB_WIRE_CHALLENGE, UT_JOB_WIRE_OK, server.nonce,
                                sizeof(server.nonce));
    send_message(&msg, n, NULL, 0);
}

static void receive(void *bytes, size_t size)
{
    cr_assert_eq(recv(server.fd, bytes, size, MSG_WAITALL), (ssize_t)size);
}

/* Receives a request of this type with a right tag. */
static void expect(enum ut_job_wire_type type)
{
    receive(&server.in, UT_JOB_WIRE_HEADER);
    receive(server.in.data, le16toh(server.in.size) + UT_JOB_WIRE_TAG);
    cr_assert_eq(server.in.type, type);
    if (type == UT_JOB_WIRE_HELLO)
        ut_job_channel_init(&server.channel, UT_JOB_SIDE_SERVER, &key, server.nonce,
                            server.in.data);
    cr_assert(ut_job_channel_check(&server.channel, &server.in));
}

static void answer(enum ut_job_wire_status status, const void *data, size_t size)
{
    struct ut_job_wire msg;
    size_t n = ut_job_wire_fill(&msg, server.in.type, status, data, size);

    ut_job_channel_seal(&server.channel, &msg);
    send_message(&msg, n, NULL, 0);
}

static void welcome(void)
{
    send_challenge();
    expect(UT_JOB_WIRE_HELLO);
    cr_assert_eq(ut_job_wire_u32(&server.in, UT_JOB_WIRE_NONCE), RANK);
    cr_assert_eq(ut_job_wire_u32(&server.in, UT_JOB_WIRE_NONCE + 4), SIZE);
    answer(UT_JOB_WIRE_OK, NULL, 0);
}

static void take_record(void)
{
    expect(UT_JOB_WIRE_PUBLISH);
    cr_assert_eq(le16toh(server.in.size), 3);
    cr_assert_eq(memcmp(server.in.data, "own", 3), 0);
    answer(UT_JOB_WIRE_OK, NULL, 0);
}

/* The process has ended the connection, and asked for nothing else. */
static void expect_end(void)
{
    char byte;

    cr_assert_eq(recv(server.fd, &byte, 1, 0), 0);
}

#define ERROR   "utofu: error: [rank ?, bootstrap] UTOFU_ROOT=ROOT: "
#define WARNING "utofu: warning: [rank ?, bootstrap] UTOFU_ROOT=ROOT: "
#define LOSS                                                                                       \
    ERROR                                                                                          \
    "the process that serves it (rank 0) has ended or does not answer properly; it must run "      \
    "until every process has contacted the others\n"

Test(client, publishes_and_looks_up)
{
    accept_process(usual);
    welcome();
    take_record();
    expect(UT_JOB_WIRE_LOOKUP);
    cr_assert_eq(ut_job_wire_u32(&server.in, 0), 2);
    answer(UT_JOB_WIRE_NOT_YET, NULL, 0);
    expect(UT_JOB_WIRE_LOOKUP);
    answer(UT_JOB_WIRE_OK, "there", 5);
    expect_end();
    CHECK_OUTPUT(
        "published: yes\n2 is there\nnothing to explain\n2 descriptors more, 0 at the end\n");
}

Test(client, takes_answers_in_pieces)
{
    struct ut_job_wire msg;

    accept_process(usual);
    welcome();
    take_record();
    expect(UT_JOB_WIRE_LOOKUP);
    size_t n = ut_job_wire_fill(&msg, UT_JOB_WIRE_LOOKUP, UT_JOB_WIRE_OK, "there", 5);
    ut_job_channel_seal(&server.channel, &msg);
    send_message(&msg, n, NULL, 3);
    expect_end();
    CHECK_OUTPUT(
        "published: yes\n2 is there\nnothing to explain\n2 descriptors more, 0 at the end\n");
}

/* With one, two or no descriptors, of which the last one may be of something else. */
Test(client, reads_records_without_asking)
{
    struct ut_job_records records;
    struct ut_job_wire msg;

    make_root();
    cr_assert_eq(ut_job_records_create(&records, SIZE), 0);
    ut_job_records_write(&records, 2, "shared", 6);
    for (int kind = 0; kind < 4; kind++) {
        int fds[2] = {records.fd, NONE}, other = open("/dev/null", O_RDONLY);
        if (kind == 1)
            fds[0] = other, fds[1] = records.fd;
        else if (kind == 2)
            fds[1] = other;
        else if (kind == 3)
            fds[0] = other;
        bool at_hand = kind < 2;
        accept_process(usual);
        send_challenge();
        expect(UT_JOB_WIRE_HELLO);
        size_t n = ut_job_wire_fill(&msg, UT_JOB_WIRE_HELLO, UT_JOB_WIRE_OK, NULL, 0);
        ut_job_channel_seal(&server.channel, &msg);
        send_message(&msg, n, fds, 0);
        take_record();
        if (!at_hand) {
            expect(UT_JOB_WIRE_LOOKUP);
            answer(UT_JOB_WIRE_OK, "asked", 5);
        }
        expect_end();
        CHECK_OUTPUT(at_hand ? "published: yes\n2 is shared\nnothing to explain\n2 descriptors "
                               "more, 0 at the end\n"
                             : "published: yes\n2 is asked\nnothing to explain\n2 descriptors "
                               "more, 0 at the end\n");
        close(other);
        close(server.fd);
        close(server.listen);
    }
    ut_job_records_free(&records);
}

/* Requests are sent together, at most 64, and answered in order. */
Test(client, asks_for_many_ranks_at_once)
{
    accept_process(busy);
    welcome();
    take_record();
    uint8_t record[UT_JOB_RECORD_MAX];
    bool asked[SIZE] = {false};
    for (uint32_t i = 2; i < SIZE; i++) {
        expect(UT_JOB_WIRE_LOOKUP);
        uint32_t rank = ut_job_wire_u32(&server.in, 0);
        cr_assert(rank >= 2 && rank < SIZE && !asked[rank]);
        asked[rank] = true;
        memset(record, (int)rank, sizeof(record));
        answer(UT_JOB_WIRE_OK, record, rank + 1);
    }
    expect_end();
    CHECK_OUTPUT("published: yes\n198 found, 0 wrong, 198 questions\n");
}

static const struct {
    enum ut_job_wire_status status;
    bool challenge, sealed, other_version;
    const char *line, *error;
} wrong_hellos[] = {
    {UT_JOB_WIRE_REFUSED, false, false, false,
     ERROR "the process that listens there has another key than this one; give all processes "
           "of the job one UTOFU_JOB_KEY or UTOFU_JOB_KEY_FILE, and every job a port of its "
           "own\n",
     "Permission denied"},
    {UT_JOB_WIRE_OK, false, false, false,
     ERROR "the process that listens there does not know the key of the job and is not "
           "trusted; is it rank 0 of this job, with the same UTOFU_JOB_KEY?\n",
     "Key was rejected by service"},
    {UT_JOB_WIRE_DUPLICATE, false, true, false,
     ERROR "another process claims to be rank 1; give every process its own UTOFU_RANK (a "
           "launcher inside a launcher? unset UTOFU_RANK there)\n",
     "File exists"},
    {UT_JOB_WIRE_BAD_SIZE, false, true, false,
     ERROR "rank 1 of 200 does not belong to the job that is served there; give all processes "
           "the same UTOFU_SIZE\n",
     "Invalid argument"},
    {UT_JOB_WIRE_BAD_RANK, false, true, false,
     ERROR "rank 1 of 200 does not belong to the job that is served there; give all processes "
           "the same UTOFU_SIZE\n",
     "Invalid argument"},
    {UT_JOB_WIRE_REFUSED, true, false, false,
     ERROR "the process that listens there (rank 0) began as uid UID and this process runs as "
           "uid UID, so they reject each other; start all ranks as the same user, and let a "
           "program that changes its user call the library before\n",
     "Operation not permitted"},
    {UT_JOB_WIRE_OK, true, false, true,
     ERROR "the process that listens there runs another version of this library; use one "
           "version in a job\n",
     "Protocol not supported"},
};

/* Wrong answers to a hello: each is told once, with its remedy, and every call fails. */
Test(client, tells_that_the_server_is_another_one)
{
    char expected[1000], uid[20];

    snprintf(uid, sizeof(uid), "%u", geteuid());
    for (size_t i = 0; i < sizeof(wrong_hellos) / sizeof(wrong_hellos[0]); i++) {
        struct ut_job_wire msg;
        accept_process(unlucky);
        if (!wrong_hellos[i].challenge) {
            send_challenge();
            expect(UT_JOB_WIRE_HELLO);
        }
        size_t n = ut_job_wire_fill(
            &msg, wrong_hellos[i].challenge ? UT_JOB_WIRE_CHALLENGE : UT_JOB_WIRE_HELLO,
            wrong_hellos[i].status, NULL, 0);
        if (wrong_hellos[i].sealed)
            ut_job_channel_seal(&server.channel, &msg);
        if (wrong_hellos[i].other_version)
            msg.magic ^= htole32(1u << 24);
        send_message(&msg, n, NULL, 0);
        expect_end();
        size_t at = 0;
        for (const char *p = wrong_hellos[i].line; *p; p++) {
            bool is_uid = strncmp(p, "UID", 3) == 0;
            at += (size_t)sprintf(expected + at, is_uid ? "%s" : "%.1s", is_uid ? uid : p);
            p += is_uid ? 2 : 0;
        }
        sprintf(expected + at, "published: %s\n2: %s\n", wrong_hellos[i].error,
                wrong_hellos[i].error);
        CHECK_OUTPUT(expected);
        close(server.fd);
        close(server.listen);
    }
}

/* After the hello, the end of the server and wrong answers are one thing. */
Test(client, tells_once_that_the_server_is_lost)
{
    enum { ENDS, HALF, WRONG_TYPE, WRONG_TAG, WRONG_STATUS, TOO_MUCH, KINDS };

    for (int kind = 0; kind < KINDS; kind++) {
        struct ut_job_wire msg;
        accept_process(unlucky);
        welcome();
        expect(UT_JOB_WIRE_PUBLISH);
        size_t n =
            ut_job_wire_fill(&msg, kind == WRONG_TYPE ? UT_JOB_WIRE_LOOKUP : UT_JOB_WIRE_PUBLISH,
                             kind == WRONG_STATUS ? UT_JOB_WIRE_BAD_RANK : UT_JOB_WIRE_OK, NULL, 0);
        ut_job_channel_seal(&server.channel, &msg);
        if (kind == WRONG_TAG)
            msg.data[0] ^= 1;
        if (kind == TOO_MUCH)
            msg.size = htole16(UT_JOB_WIRE_DATA + 1);
        if (kind != ENDS)
            send_message(&msg, kind == HALF ? n - 1 : n, NULL, 0);
        if (kind == ENDS || kind == HALF)
            shutdown(server.fd, SHUT_RDWR);
        else
            expect_end();
        const char *error = kind == ENDS || kind == HALF ? "Connection reset by peer"
                            : kind == WRONG_TAG          ? "Key was rejected by service"
                                                         : "Protocol error";
        char expected[1000];
        snprintf(expected, sizeof(expected), "%spublished: %s\n2: %s\n", LOSS, error, error);
        CHECK_OUTPUT(expected);
        close(server.fd);
        close(server.listen);
    }
}

/* An answer that nobody has asked for, and one that says that there is no such rank. */
Test(client, does_not_use_a_server_that_says_too_much)
{
    accept_process(usual);
    welcome();
    take_record();
    expect(UT_JOB_WIRE_LOOKUP);
    answer(UT_JOB_WIRE_BAD_RANK, NULL, 0);
    expect_end();
    CHECK_OUTPUT("published: yes\n" LOSS "2: Protocol error\nnothing to explain\n"
                 "2 descriptors more, 0 at the end\n");
    close(server.fd);
    close(server.listen);

    struct ut_job_wire two[2];
    accept_process(idle);
    welcome();
    expect(UT_JOB_WIRE_PUBLISH);
    size_t n = ut_job_wire_fill(&two[0], UT_JOB_WIRE_PUBLISH, UT_JOB_WIRE_OK, NULL, 0);
    ut_job_channel_seal(&server.channel, &two[0]);
    memcpy((char *)two + n, two, n);
    send_message(two, 2 * n, NULL, 0);
    expect_end();
    CHECK_OUTPUT(LOSS "2: Connection reset by peer\n");
}

/* A server that cannot be used yet is tried again, with a pause between, until the time is over. */
Test(client, tries_again)
{
    struct ut_job_wire msg;

    accept_process(usual);
    for (int i = 0; i < 3; i++) {
        size_t n = ut_job_wire_fill(&msg, UT_JOB_WIRE_CHALLENGE, UT_JOB_WIRE_OK, "short", 5);
        if (i == 1)
            msg.magic = 0;
        if (i < 2)
            send_message(&msg, n, NULL, 0);
        close(server.fd);
        server.fd = accept(server.listen, NULL, NULL);
    }
    welcome();
    take_record();
    expect(UT_JOB_WIRE_LOOKUP);
    answer(UT_JOB_WIRE_OK, "there", 5);
    expect_end();
    CHECK_OUTPUT(
        "published: yes\n2 is there\nnothing to explain\n2 descriptors more, 0 at the end\n");
}

Test(client, server_that_comes_later_is_not_absent)
{
    char line[7];

    make_root();
    start_process(first);
    for (size_t i = 0; i < sizeof(line); i++) /* it comes in pieces */
        cr_assert_eq(read(process.output, line + i, 1), 1);
    cr_assert_eq(strncmp(line, "absent\n", sizeof(line)), 0);
    listen_at_root();
    server.fd = accept(server.listen, NULL, NULL);
    welcome();
    take_record();
    expect(UT_JOB_WIRE_LOOKUP);
    answer(UT_JOB_WIRE_OK, "there", 5);
    expect_end();
    CHECK_OUTPUT("published: yes\n2 is there\nnothing to explain\n");
}

/* Nobody listens. */
Test(client, gives_up_when_nobody_serves_the_job)
{
    make_root();
    start_process(patient);
    CHECK_OUTPUT(WARNING
                 "no process has served this job there for 3 s (Connection refused); trying for 16 "
                 "s more (UTOFU_JOB_TIMEOUT)\n" WARNING
                 "no process has served this job there for 6 s (Connection refused); trying for 13 "
                 "s more (UTOFU_JOB_TIMEOUT)\n" WARNING
                 "no process has served this job there for 12 s (Connection refused); trying for 7 "
                 "s more (UTOFU_JOB_TIMEOUT)\n" ERROR
                 "no process serves this job there (Connection refused); tried for 20 seconds "
                 "(UTOFU_JOB_TIMEOUT); is rank 0 running, with this UTOFU_ROOT and the same host "
                 "name everywhere?\n2: Connection timed out\n1 descriptors more\n");
}

/* The reason is that of the last try. */
Test(client, gives_up_without_sockets)
{
    make_root();
    start_process(without_sockets);
    const char *got = output();
    cr_assert_not_null(strstr(got, ERROR "no process serves this job there (Too many open files); "
                                         "tried for 20 seconds"),
                       "%s", got);
}

/* Small messages do not wait for each other. */
Test(client, over_tcp_is_not_delayed)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    make_root();
    server.listen = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(server.listen, (struct sockaddr *)&address, size), 0);
    cr_assert(listen(server.listen, 8) == 0 &&
              getsockname(server.listen, (struct sockaddr *)&address, &size) == 0);
    snprintf(root_text, sizeof(root_text), "127.0.0.1:%u", ntohs(address.sin_port));
    cr_assert_eq(ut_job_root_parse(&root, root_text), 0);
    start_process(usual);
    server.fd = accept(server.listen, NULL, NULL);
    welcome();
    take_record();
    expect(UT_JOB_WIRE_LOOKUP);
    answer(UT_JOB_WIRE_OK, "there", 5);
    expect_end();
    CHECK_OUTPUT("TCP_NODELAY is set\npublished: yes\n2 is there\nnothing to explain\n2 "
                 "descriptors more, 0 at the end\n");
}

/* One listens, and is silent. */
Test(client, gives_up_when_the_server_is_silent)
{
    accept_process(patient);
    CHECK_OUTPUT(WARNING
                 "the process that serves it (rank 0) has not answered for 3 s; giving up in 17 s "
                 "(UTOFU_JOB_TIMEOUT)\n" WARNING
                 "the process that serves it (rank 0) has not answered for 6 s; giving up in 14 s "
                 "(UTOFU_JOB_TIMEOUT)\n" WARNING
                 "the process that serves it (rank 0) has not answered for 12 s; giving up in 8 s "
                 "(UTOFU_JOB_TIMEOUT)\n" ERROR
                 "no process serves this job there (Connection timed out); tried for 20 seconds "
                 "(UTOFU_JOB_TIMEOUT); is rank 0 running, with this UTOFU_ROOT and the same host "
                 "name everywhere?\n2: Connection timed out\n1 descriptors more\n");
}

static unsigned int count(const char *text, const char *part)
{
    unsigned int n = 0;

    for (text = strstr(text, part); text; text = strstr(text + 1, part))
        n++;
    return n;
}

/* The record is not lost at once: rank 0 may begin to serve the job later. */
Test(client, waits_at_its_end_for_a_server)
{
    static const char begins[] =
        "published: yes\ncannot be looked up, because no process serves UTOFU_ROOT=ROOT: rank 0, "
        "which should, has not started or has ended\n";

    make_root();
    start_process(early);
    const char *got = output();
    cr_assert_eq(strncmp(got, begins, strlen(begins)), 0, "%s", got);
    cr_assert_eq(count(got, WARNING "the end of this process waits at most "), 1, "%s", got);
    cr_assert_eq(count(got, " s more for rank 0, which does not serve this job yet, and without "
                            "this wait never knows this process\n"),
                 1, "%s", got);
    cr_assert_eq(strcmp(got + strlen(got) - 4, "end\n"), 0, "%s", got);
}

/* A server that answers nothing more: the call returns after ten seconds, and the record may still
 * be taken; a question is given up when the time of the job is over. */
Test(client, waits_ten_seconds_until_its_record_is_taken)
{
    accept_process(waits_for_an_answer);
    welcome();
    expect(UT_JOB_WIRE_PUBLISH);
    CHECK_OUTPUT("published: yes\nafter 10 s\n");
}

Test(client, question_without_an_answer_is_given_up)
{
    accept_process(asks_in_vain);
    welcome();
    take_record();
    expect(UT_JOB_WIRE_LOOKUP);
    CHECK_OUTPUT("published: yes\n" WARNING
                 "the process that serves it (rank 0) has not answered for 3 s; giving up in 17 s "
                 "(UTOFU_JOB_TIMEOUT)\n" WARNING
                 "the process that serves it (rank 0) has not answered for 6 s; giving up in 14 s "
                 "(UTOFU_JOB_TIMEOUT)\n" WARNING
                 "the process that serves it (rank 0) has not answered for 12 s; giving up in 8 s "
                 "(UTOFU_JOB_TIMEOUT)\n"
                 "2: Connection timed out\n");
}

/* The process has these variables, and the rest of make_root(). */
static void make_job(uint32_t rank)
{
    char text[64];

    snprintf(text, sizeof(text), "%u", rank);
    setenv("UTOFU_RANK", text, 1);
    snprintf(text, sizeof(text), "%d", SIZE);
    setenv("UTOFU_SIZE", text, 1);
    snprintf(text, sizeof(text), "unix:@utofu.client.%d", (int)getpid());
    setenv("UTOFU_ROOT", text, 1);
    setenv("UTOFU_JOB_KEY", secret, 1);
    make_root();
}

/* Rank 0, which serves the job, ends: it waits five seconds for processes that have not come. */
Test(client, server_waits_at_its_end_for_those_who_come_late)
{
    make_job(0);
    start_process(ends_alone);
    const char *got = output();
    cr_assert_eq(count(got, "rank 0 is at its end, and has waited for 3 s because it serves "
                            "UTOFU_ROOT=ROOT, which 0 processes still use and 199 have not "
                            "contacted; it exits in at most 1"),
                 1, "%s", got);
    cr_assert_not_null(strstr(got, "ended after 5 s\n"), "%s", got);
}

/* And for those who may still ask until the time of the job is over. */
Test(client, server_waits_at_its_end_for_those_who_are_there)
{
    make_job(0);
    start_process(stays);
    pid_t stays_there = process.pid;
    start_process(ends_before_rank_1);
    const char *got = output();
    cr_assert_eq(count(got, "which 1 processes still use and 198 have not contacted; it exits"), 3,
                 "%s", got);
    cr_assert_not_null(strstr(got, "ended after 20 s\n"), "%s", got);
    kill(stays_there, SIGKILL);
}

Test(client, job_is_looked_for_until_its_time_is_over)
{
    make_job(1);
    start_process(patient_job);
    const char *got = output();
    cr_assert_eq(count(got, "no process has served this job there for"), 3, "%s", got);
    cr_assert_not_null(strstr(got, "Connection timed out\n"), "%s", got);
}
