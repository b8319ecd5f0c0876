/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of UTOFU_STATS=job as one process sees it: the test plays its parent and its children,
 * with connections of their own, and reads what the process sends and prints.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap/job.h"
#include "stats/counters.h"
#include "stats/record.h"
#include "stats/region.h"
#include "stats/summary.h"
#include "util/clock.h"
#include "util/env.h"

TestSuite(summary);

enum { MAGIC = 0x53545455, CHILD = 1, PARENT, RECORD, TAKEN, JOB = 40, WAIT_MS = 10000 };

struct head {
    uint32_t magic, type, size, rank;
    uint64_t token;
};

static struct ut_job_info job;
static struct ut_contact own;
static const char *job_timeout = "60";
static char printed[1 << 16];
static FILE *errors;
static pthread_t finisher;

/*
 * What the library asks: the linker puts these functions in the place of the library's
 */

static struct ut_contact published[JOB];
static bool has_published[JOB];
static uint64_t asked_ms[10];  /* when the process asked for the first contacts that are missing */
static unsigned int num_asked; /* atomic */
static uint64_t passed_ms;     /* atomic: by how much the clock is ahead */

int __wrap_ut_peers_contact(uint32_t rank, struct ut_contact *contact);
int __wrap_ut_peers_contact(uint32_t rank, struct ut_contact *contact)
{
    if (rank >= JOB || !__atomic_load_n(&has_published[rank], __ATOMIC_ACQUIRE)) {
        if (num_asked < 10 && gettid() != getpid()) {
            asked_ms[num_asked] = passed_ms;
            __atomic_add_fetch(&num_asked, 1, __ATOMIC_RELEASE);
        }
        return -EAGAIN;
    }
    *contact = published[rank];
    return 0;
}

void __wrap_ut_stats_totals(uint64_t totals[UT_NUM_COUNTERS]);
void __wrap_ut_stats_totals(uint64_t totals[UT_NUM_COUNTERS])
{
    memset(totals, 0, UT_NUM_COUNTERS * sizeof(*totals));
    totals[UT_COUNT_PUTS] = 100;
}

static bool has_read;           /* atomic: the process has read something */
static bool reads_single_bytes; /* of what is there, the process sees one byte at a time */

ssize_t __real_recv(int fd, void *to, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t size, int flags)
{
    ssize_t n = __real_recv(fd, to, reads_single_bytes && size > 1 ? 1 : size, flags);

    if (n > 0 && gettid() != getpid())
        __atomic_store_n(&has_read, true, __ATOMIC_RELEASE);
    return n;
}

/*
 * The C library's functions: in some tests the time of a wait passes at once where nothing comes.
 * It does so for the process, not for this test, until the process sends its record.
 */

static bool time_passes, passes_behind_the_record; /* atomic */
static int refusals;                               /* of connections, for want of descriptors */
static int refused_ms;                             /* the pause after one */

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, t);
    uint64_t ms = __atomic_load_n(&passed_ms, __ATOMIC_RELAXED);

    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)
        t->tv_sec += (time_t)(ms / 1000), t->tv_nsec += (long)(ms % 1000) * 1000000;
    if (t->tv_nsec >= 1000000000)
        t->tv_sec++, t->tv_nsec -= 1000000000;
    return rc;
}

static bool is_process(void)
{
    return gettid() != getpid();
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    bool at_once = is_process() && __atomic_load_n(&time_passes, __ATOMIC_ACQUIRE);
    int n = (int)syscall(SYS_poll, fds, count, at_once ? 0 : timeout_ms);

    if (is_process() && count == 1 && refusals < 0)
        refused_ms = timeout_ms;
    if (n == 0 && at_once)
        __atomic_add_fetch(&passed_ms, (uint64_t)timeout_ms, __ATOMIC_RELEASE);
    return n;
}

static uint64_t real_ms(void)
{
    struct timespec t;

    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Time begins to pass when the thread of the process is told to end. */
static bool passes_from_the_end;
static uint64_t began_ms; /* atomic: by the real clock; 0: not yet */

ssize_t write(int fd, const void *bytes, size_t size)
{
    bool passes = is_process() && passes_from_the_end && size == sizeof(uint64_t);
    uint64_t none = 0;

    if (passes)
        __atomic_compare_exchange_n(&began_ms, &none, real_ms(), false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE);
    ssize_t n = syscall(SYS_write, fd, bytes, size);
    if (passes)
        __atomic_store_n(&time_passes, true, __ATOMIC_RELEASE);
    return n;
}

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    const struct head *h = bytes;

    if (is_process() && size == sizeof(*h) && h->type == RECORD && !passes_behind_the_record)
        __atomic_store_n(&time_passes, false, __ATOMIC_RELEASE);
    return syscall(SYS_sendto, fd, bytes, size, flags, NULL, 0);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    if (refusals <= 0)
        return (int)syscall(SYS_accept4, fd, address, size, flags);
    refusals = refusals == 1 ? -1 : refusals - 1;
    errno = EMFILE;
    return -1;
}

/* True if so much time has passed, of which some passes by itself: on a busy machine seconds. */
static bool has_passed(uint64_t s)
{
    uint64_t ms = __atomic_load_n(&passed_ms, __ATOMIC_ACQUIRE);
    uint64_t began = __atomic_load_n(&began_ms, __ATOMIC_ACQUIRE);

    return began != 0 && ms + (real_ms() - began) >= 1000 * s - 10 && ms <= 1000 * s + 500;
}

/*
 * The process
 */

static void start_with(uint32_t rank, uint32_t size, const uint8_t *ip, const char *launcher)
{
    setenv("UTOFU_STATS", "job", 1);
    setenv("UTOFU_JOB_TIMEOUT", job_timeout, 1);
    cr_assert_eq(ut_env_load(), 0);
    job = (struct ut_job_info){.launcher = launcher, .rank = rank, .size = size};
    cr_assert_eq(ut_summary_open(&job, ip, &own), 0);
    cr_assert_eq(ut_summary_start(), 0);
}

static void start(uint32_t rank, uint32_t size)
{
    start_with(rank, size, NULL, "hand");
}

static void *finish_in_thread(void *unused)
{
    ut_summary_finish(ut_clock_ns());
    return unused;
}

/* Standard error is a file from here on. */
static void begin_to_finish(void)
{
    errors = tmpfile();
    cr_assert(errors && dup2(fileno(errors), STDERR_FILENO) >= 0);
    cr_assert_eq(pthread_create(&finisher, NULL, finish_in_thread, NULL), 0);
}

static const char *end_finish(void)
{
    cr_assert_eq(pthread_join(finisher, NULL), 0);
    ssize_t n = pread(fileno(errors), printed, sizeof(printed) - 1, 0);
    cr_assert(n >= 0);
    printed[n] = '\0';
    return printed;
}

static const char *finish(void)
{
    begin_to_finish();
    return end_finish();
}

/*
 * Its neighbours
 */

static int connect_to_process(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(own.port)};

    memcpy(&a.sin_addr, own.ip + 12, 4);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
    return fd;
}

static void send_bytes(int fd, const void *bytes, size_t size)
{
    cr_assert_eq(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void send_head(int fd, uint32_t type, uint64_t token, uint32_t size)
{
    struct head h = {MAGIC, type, size, 1, token};

    send_bytes(fd, &h, sizeof(h));
}

/* Reads so many bytes. False: the connection ended before. */
static bool read_bytes(int fd, void *to, size_t size)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    for (size_t have = 0; have < size;) {
        cr_assert_eq(poll(&p, 1, WAIT_MS), 1, "the process is silent");
        ssize_t n = recv(fd, (char *)to + have, size - have, 0);
        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    return true;
}

static bool is_closed(int fd)
{
    char byte;

    return !read_bytes(fd, &byte, 1);
}

static struct head read_head(int fd)
{
    struct head h = {0};

    cr_assert(read_bytes(fd, &h, sizeof(h)));
    cr_assert_eq(h.magic, MAGIC);
    cr_assert_eq(h.rank, job.rank);
    return h;
}

/* The packed counters of another process: 100 puts. */
static void *pack(uint32_t rank, uint32_t size, size_t *bytes)
{
    struct ut_job_info other = {.launcher = "hand", .rank = rank, .size = size};
    void *packed = ut_record_own(&other, ut_clock_ns(), bytes);

    cr_assert_not_null(packed);
    return packed;
}

static void send_record(int fd, uint32_t rank, uint32_t size)
{
    size_t bytes;
    void *packed = pack(rank, size, &bytes);

    send_head(fd, RECORD, 0, (uint32_t)bytes);
    send_bytes(fd, packed, bytes);
    free(packed);
}

/* A child that connects, and sends its counters. */
static void report(uint32_t rank, uint32_t size)
{
    int fd = connect_to_process();

    send_head(fd, CHILD, own.token, 0);
    send_record(fd, rank, size);
    struct head h = read_head(fd);
    cr_assert(h.type == TAKEN && h.size == 0);
    cr_assert(is_closed(fd));
    close(fd);
}

/* Another process listens, and the process finds it. */
static int publish(uint32_t rank, uint64_t token, int family)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool is_six = family == AF_INET6;
    struct sockaddr *a = is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four;
    socklen_t size = is_six ? sizeof(six) : sizeof(four);
    int fd = socket(family, SOCK_STREAM, 0);

    if (is_six && (fd < 0 || bind(fd, a, size) != 0))
        cr_skip_test("no IPv6 here");
    cr_assert(fd >= 0 && (is_six || bind(fd, a, size) == 0));
    cr_assert(listen(fd, 8) == 0 && getsockname(fd, a, &size) == 0);
    struct ut_contact *c = &published[rank];
    *c = (struct ut_contact){.port = ntohs(is_six ? six.sin6_port : four.sin_port), .token = token};
    if (is_six)
        c->ip[15] = 1;
    else
        memcpy(c->ip, (uint8_t[16]){[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, 16);
    __atomic_store_n(&has_published[rank], true, __ATOMIC_RELEASE);
    return fd;
}

static int accept_from_process(int listening)
{
    struct pollfd p = {.fd = listening, .events = POLLIN};

    cr_assert_eq(poll(&p, 1, WAIT_MS), 1, "the process does not connect");
    int fd = accept(listening, NULL, NULL);
    cr_assert(fd >= 0);
    return fd;
}

/* The process connects as a child, to the one with this token. */
static int expect_child(int listening, uint64_t token)
{
    int fd = accept_from_process(listening);
    struct head h = read_head(fd);

    cr_assert(h.type == CHILD && h.size == 0 && h.token == token);
    return fd;
}

/* Reads a record of the process. Returns how many ranks are in it. */
static unsigned int take_record(int fd)
{
    static uint8_t bytes[1 << 16];
    struct head h = read_head(fd);

    cr_assert_eq(h.type, RECORD);
    cr_assert(h.size <= sizeof(bytes) && read_bytes(fd, bytes, h.size));
    struct ut_record *r = ut_record_new(job.size);
    cr_assert(ut_record_merge(r, bytes, h.size));
    unsigned int ranks = 0;
    for (uint32_t i = 0; i < job.size; i++) {
        size_t size;
        void *packed = pack(i, job.size, &size);
        ranks += !ut_record_merge(r, packed, size); /* there already */
        free(packed);
    }
    ut_record_free(r);
    return ranks;
}

/* A child that is known, and sends nothing. */
static int add_silent_child(void)
{
    int fd = connect_to_process();

    send_head(fd, CHILD, own.token, 0);
    while (!__atomic_load_n(&has_read, __ATOMIC_ACQUIRE))
        usleep(100);
    return fd;
}

/*
 * Rank 0
 */

Test(summary, children_are_taken_and_printed)
{
    start(0, 3);
    report(1, 3);
    report(2, 3);
    const char *text = finish();
    cr_assert_not_null(strstr(text, "summary of 3 of 3 ranks\n"), "%s", text);
    cr_assert_not_null(strstr(text, "300"), "%s", text);
}

Test(summary, one_that_is_alone_prints_at_once)
{
    start(0, 1);
    const char *text = finish();
    cr_assert_not_null(strstr(text, "summary of 1 of 1 ranks\n"), "%s", text);
    cr_assert_null(strstr(text, "missing"));
}

/* Rank 0 ends first, and waits for the one that runs on. */
Test(summary, child_that_ends_later_is_waited_for)
{
    start(0, 2);
    int fd = connect_to_process();
    send_head(fd, CHILD, own.token, 0);
    begin_to_finish();
    usleep(50000);
    send_record(fd, 1, 2);
    cr_assert_eq(read_head(fd).type, TAKEN);
    cr_assert_not_null(strstr(end_finish(), "summary of 2 of 2 ranks\n"), "%s", printed);
    close(fd);
}

Test(summary, bytes_may_come_one_by_one)
{
    size_t size;
    uint8_t *packed = pack(1, 2, &size);
    struct head h[2] = {{MAGIC, CHILD, 0, 1, 0}, {MAGIC, RECORD, (uint32_t)size, 1, 0}};

    reads_single_bytes = true;
    start(0, 2);
    h[0].token = own.token;
    int fd = connect_to_process(), yes = 1;
    setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &yes, sizeof(yes));
    for (size_t i = 0; i < sizeof(h); i++)
        send_bytes(fd, (uint8_t *)h + i, 1);
    for (size_t i = 0; i < size; i++)
        send_bytes(fd, packed + i, 1);
    cr_assert_eq(read_head(fd).type, TAKEN);
    cr_assert_not_null(strstr(finish(), "summary of 2 of 2 ranks\n"), "%s", printed);
    free(packed);
    close(fd);
}

/* Each is closed without an answer, and the one that follows is served. */
Test(summary, strangers_are_closed)
{
    start(0, 2);
    const struct head wrong[] = {
        {MAGIC + 1, CHILD, 0, 1, own.token},  {MAGIC, CHILD, 0, 1, own.token + 1},
        {MAGIC, PARENT, 0, 1, own.token + 1}, {MAGIC, CHILD, 1, 1, own.token},
        {MAGIC, RECORD, 0, 1, own.token},     {MAGIC, 0, 0, 1, own.token},
        {MAGIC, TAKEN + 1, 0, 1, own.token},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int fd = connect_to_process();
        send_bytes(fd, &wrong[i], sizeof(wrong[i]));
        cr_assert(is_closed(fd), "%zu", i);
        close(fd);
    }
    report(1, 2);
    cr_assert_not_null(strstr(finish(), "summary of 2 of 2 ranks\n"), "%s", printed);
}

/* As many connections as the process has room for; the next one is closed. It does not wait longer
 * for the child that is silent, and closes all. */
Test(summary, many_strangers_do_not_keep_it, .timeout = 60)
{
    enum { MOST = 1024 };
    static int fd[MOST];
    struct rlimit files;

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < 3 * MOST)
        cr_skip_test("the limit of open files is low");
    files.rlim_cur = files.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    job_timeout = "1";
    start(0, 2);
    for (int i = 0; i < MOST; i++)
        fd[i] = connect_to_process();
    int more = connect_to_process();
    cr_assert(is_closed(more));
    close(more);
    send_head(fd[0], CHILD, own.token, 0);
    cr_assert_not_null(strstr(finish(), "summary of 1 of 2 ranks; 1 missing"), "%s", printed);
    for (int i = 0; i < MOST; i++) {
        cr_assert(is_closed(fd[i]), "%d", i);
        close(fd[i]);
    }
}

/* What a child may send, after it has said that it is one. */
Test(summary, children_that_send_nonsense_are_closed)
{
    start(0, 3);
    const struct head wrong[] = {
        {MAGIC, CHILD, 0, 1, own.token},        /* a second time */
        {MAGIC, RECORD, 3, 1, 0},               /* too short */
        {MAGIC, RECORD, (64u << 20) + 1, 1, 0}, /* too long */
        {MAGIC + 1, RECORD, 0, 1, 0},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int fd = connect_to_process();
        send_head(fd, CHILD, own.token, 0);
        send_bytes(fd, &wrong[i], sizeof(wrong[i]));
        if (wrong[i].size == 3)
            send_bytes(fd, "abc", 3);
        cr_assert(is_closed(fd), "%zu", i);
        close(fd);
    }
    report(1, 3);
    int again = connect_to_process();
    send_head(again, CHILD, own.token, 0);
    send_record(again, 1, 3); /* these counters are there */
    cr_assert(is_closed(again));
    close(again);
    report(2, 3);
    cr_assert_not_null(strstr(finish(), "summary of 3 of 3 ranks\n"), "%s", printed);
}

static unsigned int open_files(void)
{
    unsigned int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* What is connected at the end is closed, and no descriptor stays. */
Test(summary, nothing_stays_open)
{
    unsigned int before = open_files();

    start(0, 2);
    int silent = connect_to_process(), begun = connect_to_process();
    send_bytes(begun, "UTTS", 4);
    report(1, 2);
    cr_assert_not_null(strstr(finish(), "summary of 2 of 2 ranks\n"), "%s", printed);
    cr_assert(is_closed(silent) && is_closed(begun));
    close(silent);
    close(begun);
    fclose(errors); /* a copy is standard error */
    cr_assert_eq(open_files(), before);
}

/*
 * Others
 */

static void check_reports_to(uint32_t rank, uint32_t size, uint32_t parent, int family)
{
    int listening = publish(parent, 77, family);

    start(rank, size);
    int fd = expect_child(listening, 77);
    begin_to_finish();
    cr_assert_eq(take_record(fd), 1);
    send_head(fd, TAKEN, 0, 0);
    cr_assert_str_eq(end_finish(), "", "%s", printed);
    cr_assert(is_closed(fd));
    close(fd);
    close(listening);
}

Test(summary, ranks_1_to_16_report_to_rank_0)
{
    check_reports_to(16, JOB, 0, AF_INET);
}

Test(summary, rank_17_reports_to_rank_1)
{
    check_reports_to(17, JOB, 1, AF_INET);
}

Test(summary, rank_33_reports_to_rank_2)
{
    check_reports_to(33, JOB, 2, AF_INET);
}

Test(summary, parent_may_have_an_address_of_ipv6)
{
    check_reports_to(1, 2, 0, AF_INET6);
}

/* Rank 1 has children, whose counters it sends along with its own. */
Test(summary, counters_of_children_go_up)
{
    int listening = publish(0, 5, AF_INET);

    start(1, JOB);
    int fd = expect_child(listening, 5);
    report(17, JOB);
    report(18, JOB);
    begin_to_finish();
    cr_assert_eq(take_record(fd), 3);
    send_head(fd, TAKEN, 0, 0);
    cr_assert_str_eq(end_finish(), "", "%s", printed);
    close(fd);
    close(listening);
}

/* The parent finds the process; with PMI-1 the later one of two finds the other. */
Test(summary, parent_may_connect)
{
    start(1, JOB);
    int fd = connect_to_process();
    send_head(fd, PARENT, own.token, 0);
    begin_to_finish();
    cr_assert_eq(take_record(fd), 1);
    send_head(fd, TAKEN, 0, 0);
    cr_assert_str_eq(end_finish(), "", "%s", printed);
    close(fd);
}

Test(summary, second_parent_is_closed)
{
    start(1, JOB);
    int fd = connect_to_process(), other = connect_to_process();
    send_head(fd, PARENT, own.token, 0);
    usleep(20000);
    send_head(other, PARENT, own.token, 0);
    cr_assert(is_closed(other));
    begin_to_finish();
    cr_assert_eq(take_record(fd), 1);
    send_head(fd, TAKEN, 0, 0);
    cr_assert_str_eq(end_finish(), "", "%s", printed);
    close(fd);
    close(other);
}

Test(summary, with_pmi1_it_connects_to_children_that_are_there)
{
    int listening = publish(2, 9, AF_INET);

    start_with(0, 3, NULL, "pmi1");
    int fd = accept_from_process(listening);
    struct head h = read_head(fd);
    cr_assert(h.type == PARENT && h.token == 9 && h.size == 0);
    report(1, 3);
    send_record(fd, 2, 3);
    cr_assert_eq(read_head(fd).type, TAKEN);
    cr_assert_not_null(strstr(finish(), "summary of 3 of 3 ranks\n"), "%s", printed);
    close(fd);
    close(listening);
}

/* The parent ends without an answer: the counters go to rank 0. */
Test(summary, orphan_reports_to_rank_0)
{
    int parent = publish(1, 5, AF_INET), root = publish(0, 6, AF_INET);

    start(17, JOB);
    close(expect_child(parent, 5));
    int fd = expect_child(root, 6);
    begin_to_finish();
    cr_assert_eq(take_record(fd), 1);
    send_head(fd, TAKEN, 0, 0);
    cr_assert_str_eq(end_finish(), "", "%s", printed);
    close(fd);
    close(parent);
    close(root);
}

Test(summary, record_that_was_not_taken_goes_to_rank_0)
{
    int parent = publish(1, 5, AF_INET), root = publish(0, 6, AF_INET);

    start(17, JOB);
    int fd = expect_child(parent, 5);
    begin_to_finish();
    cr_assert_eq(take_record(fd), 1);
    close(fd);
    fd = expect_child(root, 6);
    cr_assert_eq(take_record(fd), 1);
    send_head(fd, TAKEN, 0, 0);
    cr_assert_str_eq(end_finish(), "", "%s", printed);
    close(fd);
    close(parent);
    close(root);
}

/* Its counters could not go up any more: it turns to rank 0. */
Test(summary, child_that_comes_too_late_is_closed)
{
    int listening = publish(0, 5, AF_INET);

    start(1, JOB);
    int fd = expect_child(listening, 5), child = add_silent_child();
    passes_from_the_end = true;
    begin_to_finish(); /* waits for this child for two seconds */
    cr_assert_eq(take_record(fd), 1);
    cr_assert(has_passed(2), "%llu", (unsigned long long)passed_ms);
    send_record(child, 17, JOB);
    cr_assert(is_closed(child));
    send_head(fd, TAKEN, 0, 0);
    cr_assert_str_eq(end_finish(), "", "%s", printed);
    close(fd);
    close(child);
    close(listening);
}

/* Nobody takes the counters: the process prints them itself. */
Test(summary, without_rank_0_counters_are_printed_here)
{
    int root = publish(0, 6, AF_INET);

    start(1, 2);
    int fd = expect_child(root, 6);
    close(root);
    begin_to_finish();
    cr_assert_eq(take_record(fd), 1);
    close(fd);
    const char *text = end_finish();
    cr_assert_not_null(strstr(text, "rank 0 has ended: the counters of rank 1"), "%s", text);
    cr_assert_not_null(strstr(text, "summary of 1 of 2 ranks; 1 missing: 0\n"), "%s", text);
}

/* A process that listens on an address of its host. */
Test(summary, contact_has_the_address_and_a_port)
{
    const uint8_t ip[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 2};

    start_with(0, 2, ip, "hand");
    cr_assert_eq(memcmp(own.ip, ip, 16), 0);
    cr_assert(own.port != 0 && own.token != 0);
    report(1, 2);
    cr_assert_not_null(strstr(finish(), "summary of 2 of 2 ranks\n"), "%s", printed);
}

/*
 * Time limits
 */

static unsigned int count(const char *text, const char *part)
{
    unsigned int n = 0;

    for (text = strstr(text, part); text; text = strstr(text + 1, part))
        n++;
    return n;
}

/* Rank 0 waits for a child that runs on until the time of the job is over. */
Test(summary, rank_0_waits_a_minute_for_who_is_there)
{
    start(0, 2);
    int fd = add_silent_child();
    passes_from_the_end = true;
    const char *text = finish();
    cr_assert(has_passed(60), "%s", text);
    cr_assert_eq(count(text, "rank 0 has waited "), 5, "after 3, 6, 12, 24 and 48 s: %s", text);
    cr_assert_not_null(strstr(text, "summary of 1 of 2 ranks; 1 missing: 1\n"), "%s", text);
    close(fd);
}

/* And five seconds for one that has never come. */
Test(summary, rank_0_waits_five_seconds_for_who_is_not_there)
{
    start(0, 2);
    passes_from_the_end = true;
    const char *text = finish();
    cr_assert(has_passed(5), "%llu", (unsigned long long)passed_ms);
    cr_assert_not_null(strstr(text, "summary of 1 of 2 ranks; 1 missing: 1\n"), "%s", text);
}

/* A parent that takes nothing has five seconds for each of two attempts. */
Test(summary, parent_has_five_seconds_to_take_the_counters)
{
    int listening = publish(0, 5, AF_INET);

    start(1, 2);
    int fd = expect_child(listening, 5);
    passes_behind_the_record = passes_from_the_end = true;
    const char *text = finish();
    cr_assert(has_passed(10), "%llu: %s", (unsigned long long)passed_ms, text);
    cr_assert_not_null(strstr(text, "summary of 1 of 2 ranks; 1 missing: 0\n"), "%s", text);
    close(fd);
    close(listening);
}

/* Without descriptors there is a pause, and the request is taken later. */
Test(summary, shortage_of_descriptors_is_a_pause)
{
    refusals = 1;
    start(0, 2);
    report(1, 2);
    cr_assert_eq(refused_ms, 200);
    cr_assert_not_null(strstr(finish(), "summary of 2 of 2 ranks\n"), "%s", printed);
}

/* A parent that has not published is looked up less often each time. */
Test(summary, parent_is_looked_up_less_often_each_time)
{
    static const uint64_t pauses[] = {50, 100, 200, 400, 800, 1000, 1000, 1000, 1000};

    time_passes = true;
    start(1, 2);
    while (__atomic_load_n(&num_asked, __ATOMIC_ACQUIRE) < 10)
        usleep(100);
    for (unsigned int i = 0; i < 9; i++)
        cr_assert_eq(asked_ms[i + 1] - asked_ms[i], pauses[i], "%u", i);
    __atomic_store_n(&time_passes, false, __ATOMIC_RELEASE);
    int listening = publish(0, 5, AF_INET), fd = expect_child(listening, 5);
    begin_to_finish();
    cr_assert_eq(take_record(fd), 1);
    send_head(fd, TAKEN, 0, 0);
    cr_assert_str_eq(end_finish(), "", "%s", printed);
    close(fd);
    close(listening);
}
