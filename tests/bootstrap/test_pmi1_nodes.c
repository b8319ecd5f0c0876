/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a PMI-1 job on several nodes: this test plays the names that the launcher keeps, and
 * the processes, which are children that live until the test ends. The requests of a process are
 * compared as text: P for publishing a name, L for looking it up.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/job.h"
#include "bootstrap/ops.h"
#include "bootstrap/pmi1.h"
#include "util/env.h"

enum { NAMES = 400, REQUESTS = 2048 };

/*
 * The played launcher
 */

/* What all processes see. */
static struct {
    struct {
        char name[64], value[1100];
    } names[NAMES];
    unsigned int count;
    char requests[REQUESTS];
} * shared;

/* What a process sees: set before it starts. */
static struct ut_job_pmi1_info info;
static const char *good = "rc=0"; /* what an answer says if all is well */
static const char *damaged;       /* the answer to each look-up */
static int fails;                 /* the result of each request */
static bool only_counts;          /* names are not kept */
static unsigned int published;

int __wrap_ut_job_pmi1_open(struct ut_job_info *job, const struct ut_job_pmi1_info **launcher);
int __wrap_ut_job_pmi1_open(struct ut_job_info *job, const struct ut_job_pmi1_info **launcher)
{
    (void)job;
    *launcher = &info;
    return 0;
}

static void note(char what, const char *name)
{
    size_t used = strlen(shared->requests);

    if (!only_counts)
        snprintf(shared->requests + used, REQUESTS - used, "%c %s|", what, name);
}

static void answer_lookup(const char *text, char *line)
{
    char name[64];

    cr_assert_eq(sscanf(text, "cmd=lookup_name service=%63s", name), 1);
    note('L', name);
    strcpy(line, "cmd=lookup_result rc=1 info=fail\n");
    for (unsigned int i = 0; i < shared->count; i++)
        if (strcmp(shared->names[i].name, name) == 0)
            snprintf(line, UT_JOB_PMI1_LINE, "cmd=lookup_result %s port=%s\n", good,
                     shared->names[i].value);
    if (damaged)
        snprintf(line, UT_JOB_PMI1_LINE, "cmd=lookup_result %s\n", damaged);
}

int __wrap_ut_job_pmi1_exchange(const char *text, char line[UT_JOB_PMI1_LINE], bool in_time);
int __wrap_ut_job_pmi1_exchange(const char *text, char line[UT_JOB_PMI1_LINE], bool in_time)
{
    char name[64], value[1100];

    if (fails)
        return fails;
    if (strncmp(text, "cmd=lookup_name", 15) == 0) {
        answer_lookup(text, line);
        return 0;
    }
    (void)in_time;
    cr_assert_eq(sscanf(text, "cmd=publish_name service=%63s port=%1099s\n", name, value), 2);
    cr_assert(strlen(value) < info.value_max && strlen(name) < info.key_max);
    note('P', name);
    published++;
    if (!only_counts) {
        strcpy(shared->names[shared->count].name, name);
        strcpy(shared->names[shared->count++].value, value);
    }
    snprintf(line, UT_JOB_PMI1_LINE, "cmd=publish_result %s\n", good);
    return 0;
}

static void begin(void)
{
    cr_assert_eq(ut_env_load(), 0);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    info = (struct ut_job_pmi1_info){.job = "job", .key_max = 64, .value_max = 1024};
}
TestSuite(pmi1_nodes, .init = begin);

static void lay_out(uint32_t size, uint32_t nodes)
{
    info.size = size;
    ut_job_layout_alloc(&info.layout, size, nodes);
}

/*
 * Processes
 */

struct process {
    uint32_t rank;
    int fd;
};

struct answer {
    int rc;
    size_t size;
    uint64_t questions;
    char record[UT_JOB_RECORD_MAX];
};

enum { PUBLISH = 1u << 31 };

static size_t record_of(uint32_t rank, char text[100])
{
    return (size_t)snprintf(text, 100, "record of rank %u of %s, which is as long as another one",
                            rank, info.job);
}

static int begin_job(uint32_t rank)
{
    struct ut_job_info job;

    info.rank = rank;
    return ut_job_pmi1.open(&job, 0);
}

static int publish(uint32_t rank)
{
    char text[100];

    return ut_job_pmi1.publish(text, record_of(rank, text));
}

static void serve(uint32_t rank, int fd)
{
    uint32_t wanted;

    while (read(fd, &wanted, sizeof(wanted)) == sizeof(wanted)) {
        struct answer a = {.rc = -1};
        a.rc = wanted == PUBLISH ? publish(rank) : ut_job_pmi1.lookup(wanted, a.record, &a.size, 0);
        a.questions = ut_job_num_questions();
        if (write(fd, &a, sizeof(a)) != sizeof(a))
            _exit(1);
    }
}

static struct process start(uint32_t rank)
{
    int ends[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    if (fork() == 0) {
        close(ends[0]);
        if (begin_job(rank) == 0)
            serve(rank, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    return (struct process){rank, ends[0]};
}

static struct answer ask(const struct process *p, uint32_t what)
{
    struct answer a;

    shared->requests[0] = '\0';
    cr_assert_eq(write(p->fd, &what, sizeof(what)), sizeof(what));
    cr_assert_eq(read(p->fd, &a, sizeof(a)), sizeof(a));
    return a;
}

/* A process that has published, with these requests. */
static struct process start_with(uint32_t rank, const char *requests)
{
    struct process p = start(rank);

    cr_assert_eq(ask(&p, PUBLISH).rc, 0);
    cr_expect_str_eq(shared->requests, requests, "rank %u: %s and not %s", rank, shared->requests,
                     requests);
    return p;
}

/* The process looks up the record of the rank, and makes these requests. */
static void finds(const struct process *p, uint32_t rank, const char *requests)
{
    char text[100];
    struct answer a = ask(p, rank);

    cr_expect_eq(a.rc, 0, "%u of %u: %d", p->rank, rank, a.rc);
    cr_expect(a.size == record_of(rank, text) && memcmp(a.record, text, a.size) == 0);
    cr_expect_str_eq(shared->requests, requests, "%u of %u: %s and not %s", p->rank, rank,
                     shared->requests, requests);
}

static void misses(const struct process *p, uint32_t rank, const char *requests)
{
    cr_expect_eq(ask(p, rank).rc, -EAGAIN);
    cr_expect_str_eq(shared->requests, requests, "%u of %u: %s and not %s", p->rank, rank,
                     shared->requests, requests);
}

/*
 * The node of the process
 */

Test(pmi1_nodes, processes_of_a_node_write_to_its_board)
{
    struct process p[4];

    lay_out(8, 2);
    p[0] = start_with(0, "P utofu.job.0|P utofu.job.board.0|");
    misses(&p[0], 1, "L utofu.job.1|");
    p[1] = start_with(1, "P utofu.job.1|L utofu.job.board.0|");
    p[2] = start_with(2, "P utofu.job.2|L utofu.job.board.0|");
    misses(&p[1], 3, "L utofu.job.3|");
    p[3] = start_with(3, "P utofu.job.3|L utofu.job.board.0|P utofu.job.node.0|");
    for (uint32_t from = 0; from < 4; from++)
        for (uint32_t to = 0; to < 4; to++)
            if (from != to)
                finds(&p[from], to, "");
}

/* The records of a node are only published together where they are three or more, and for others.
 */
Test(pmi1_nodes, few_records_are_not_published_together)
{
    lay_out(4, 2);
    start_with(0, "P utofu.job.0|P utofu.job.board.0|");
    start_with(1, "P utofu.job.1|L utofu.job.board.0|");
}
Test(pmi1_nodes, three_records_are_published_together)
{
    lay_out(6, 2);
    start_with(0, "P utofu.job.0|P utofu.job.board.0|");
    start_with(1, "P utofu.job.1|L utofu.job.board.0|");
    start_with(2, "P utofu.job.2|L utofu.job.board.0|P utofu.job.node.0|");
}
Test(pmi1_nodes, records_of_the_only_node_are_not_published_together)
{
    lay_out(3, 1);
    start_with(0, "P utofu.job.0|P utofu.job.board.0|");
    start_with(1, "P utofu.job.1|L utofu.job.board.0|");
    start_with(2, "P utofu.job.2|L utofu.job.board.0|");
}
Test(pmi1_nodes, only_process_of_a_node_has_no_board)
{
    lay_out(3, 3);
    struct process p = start_with(1, "P utofu.job.1|");
    start_with(0, "P utofu.job.0|");
    finds(&p, 0, "L utofu.job.0|");
}
Test(pmi1_nodes, process_that_does_not_know_the_layout_has_no_board)
{
    info.size = 4;
    struct process p = start_with(1, "P utofu.job.1|");
    start_with(0, "P utofu.job.0|");
    finds(&p, 0, "L utofu.job.0|");
}

/* The first process of the node comes late: its board is looked for after 1, 2, 4... look-ups. */
Test(pmi1_nodes, board_that_is_made_late_is_found)
{
    lay_out(4, 1);
    struct process p = start(1);
    misses(&p, 2, "L utofu.job.2|"); /* not before its record is published */
    cr_assert_eq(ask(&p, PUBLISH).rc, 0);
    cr_expect_str_eq(shared->requests, "P utofu.job.1|L utofu.job.board.0|");
    misses(&p, 2, "L utofu.job.board.0|L utofu.job.2|");
    misses(&p, 2, "L utofu.job.2|");
    misses(&p, 2, "L utofu.job.board.0|L utofu.job.2|");
    struct process first = start_with(0, "P utofu.job.0|P utofu.job.board.0|");
    for (int i = 5; i <= 7; i++)
        misses(&p, 2, "L utofu.job.2|");
    misses(&p, 2, "L utofu.job.board.0|L utofu.job.2|");
    finds(&p, 0, "");
    finds(&first, 1, "");
    for (int i = 10; i <= 16; i++)
        misses(&p, 2, "L utofu.job.2|");
}

/* A process that takes part in another job forgets the records of the first one. */
Test(pmi1_nodes, records_of_an_earlier_job_are_forgotten)
{
    struct ut_job_info job;
    char record[UT_JOB_RECORD_MAX];
    size_t size;

    lay_out(8, 2);
    start_with(4, "P utofu.job.4|P utofu.job.board.1|");
    start_with(5, "P utofu.job.5|L utofu.job.board.1|");
    start_with(6, "P utofu.job.6|L utofu.job.board.1|");
    start_with(7, "P utofu.job.7|L utofu.job.board.1|P utofu.job.node.1|");
    start_with(0, "P utofu.job.0|P utofu.job.board.0|");
    cr_assert_eq(begin_job(1), 0);
    cr_assert_eq(publish(1), 0);
    for (uint32_t rank = 4; rank < 6; rank++)
        cr_assert_eq(ut_job_pmi1.lookup(rank, record, &size, 0), 0);
    cr_assert_eq(ut_job_pmi1.lookup(0, record, &size, 0), 0);
    strcpy(info.job, "other");
    cr_assert_eq(ut_job_pmi1.open(&job, 0), 0);
    shared->requests[0] = '\0';
    cr_expect_eq(ut_job_pmi1.lookup(0, record, &size, 0), -EAGAIN);
    cr_expect_eq(ut_job_pmi1.lookup(6, record, &size, 0), -EAGAIN);
    cr_expect_str_eq(shared->requests, "L utofu.other.0|L utofu.other.6|");
    /* so are its nodes, if those of the next one are not known */
    strcpy(info.job, "third");
    memset(&info.layout, 0, sizeof(info.layout));
    cr_assert_eq(ut_job_pmi1.open(&job, 0), 0);
    shared->requests[0] = '\0';
    cr_expect_eq(publish(1), 0);
    cr_expect_eq(ut_job_pmi1.lookup(0, record, &size, 0), -EAGAIN);
    cr_expect_str_eq(shared->requests, "P utofu.third.1|L utofu.third.0|");
}

/*
 * Other nodes
 */

static struct process start_two_nodes(size_t value_max)
{
    struct process p;

    lay_out(8, 2);
    info.value_max = value_max;
    for (uint32_t rank = 0; rank < 5; rank++) {
        p = start(rank);
        cr_assert_eq(ask(&p, PUBLISH).rc, 0);
    }
    return p;
}

/* A node's records take about 211 bytes, and 422 digits of pieces: as many questions as pieces are
 * asked for single records before all are. */
Test(pmi1_nodes, second_record_of_another_node_comes_with_all)
{
    struct process p = start_two_nodes(428);

    finds(&p, 2, "L utofu.job.2|");
    finds(&p, 1, "L utofu.job.node.0|");
    finds(&p, 3, "");
    cr_expect_eq(ask(&p, 0).questions, 2);
    finds(&p, 3, "L utofu.job.3|");
}
Test(pmi1_nodes, third_record_of_a_node_with_two_pieces_comes_with_all)
{
    struct process p = start_two_nodes(427);

    finds(&p, 2, "L utofu.job.2|");
    finds(&p, 1, "L utofu.job.1|");
    finds(&p, 0, "L utofu.job.node.0|");
    finds(&p, 3, "");
}
Test(pmi1_nodes, sixth_look_up_of_a_node_with_five_pieces_brings_all)
{
    struct process p = start_two_nodes(100);

    for (uint32_t i = 0; i < 5; i++) {
        char requests[100];
        snprintf(requests, sizeof(requests), "L utofu.job.%u|L utofu.job.%u.1|", i % 4, i % 4);
        finds(&p, i % 4, requests);
    }
    finds(&p, 0, "L utofu.job.node.0|L utofu.job.node.0.1|");
    finds(&p, 1, "");
}

/* A node that has not published all of its records is asked again later. */
Test(pmi1_nodes, node_that_is_not_complete_is_asked_for_each)
{
    lay_out(8, 2);
    struct process p = start_with(4, "P utofu.job.4|P utofu.job.board.1|");
    start_with(0, "P utofu.job.0|P utofu.job.board.0|");
    finds(&p, 0, "L utofu.job.0|");
    misses(&p, 1, "L utofu.job.node.0|L utofu.job.1|");
    misses(&p, 1, "L utofu.job.node.0|L utofu.job.1|");
    misses(&p, 1, "L utofu.job.1|");
    misses(&p, 1, "L utofu.job.node.0|L utofu.job.1|");
}

/*
 * Answers
 */

Test(pmi1_nodes, launchers_say_yes_in_two_ways)
{
    static const struct {
        const char *answer;
        bool good;
    } table[] = {{"rc=0", true},       {"info=ok", true},    {"rc=0 info=fail", true},
                 {"rc=1", false},      {"info=fail", false}, {"rc=1 info=ok", false},
                 {"info=okay", false}, {"", false},          {"rc=00", false},
                 {"msg=hello", false}};

    lay_out(2, 2);
    cr_assert_eq(begin_job(0), 0);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char record[UT_JOB_RECORD_MAX];
        size_t size;
        good = "rc=0";
        shared->count = 0;
        cr_assert_eq(publish(0), 0);
        strcpy(shared->names[0].name, "utofu.job.1");
        good = table[i].answer;
        cr_expect_eq(ut_job_pmi1.lookup(1, record, &size, 0), table[i].good ? 0 : -EAGAIN, "%s",
                     good);
        cr_expect_eq(publish(0), table[i].good ? 0 : -EIO, "%s", good);
    }
}

Test(pmi1_nodes, damaged_answers_are_errors)
{
    static const struct {
        const char *answer;
        int rc;
        size_t size;
    } table[] = {
        {"rc=0 port=a1b2", 0, 2},
        {"rc=0 port=a1b", -EPROTO, 0},
        {"rc=0 port=a1bx", -EPROTO, 0},
        {"rc=0", -EPROTO, 0},
        {"rc=0 port=1:ab", -EPROTO, 0},
        {"rc=0 port=0:ab", -EPROTO, 0},
        {"rc=0 port=:ab", -EPROTO, 0},
        {"rc=0 port=2x:ab", -EPROTO, 0},
        {"rc=0 port=10000:ab", -EPROTO, 0},
        {"rc=0 port=2:ab", -EPROTO, 0}, /* the second piece has a colon, too */
        {"rc=1 port=ab", -EAGAIN, 0},
    };

    lay_out(2, 2);
    cr_assert_eq(begin_job(0), 0);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char record[UT_JOB_RECORD_MAX];
        size_t size = 99;
        damaged = table[i].answer;
        cr_expect_eq(ut_job_pmi1.lookup(1, record, &size, 0), table[i].rc, "%s", damaged);
        cr_expect(table[i].rc != 0 || size == table[i].size);
    }
}

/* 255 bytes fit, and one more does not. */
Test(pmi1_nodes, record_that_is_too_long_is_damaged)
{
    char text[600] = "rc=0 port=", record[UT_JOB_RECORD_MAX];
    size_t size;

    lay_out(2, 2);
    cr_assert_eq(begin_job(0), 0);
    damaged = text;
    memset(text + 10, 'a', 510);
    cr_expect(ut_job_pmi1.lookup(1, record, &size, 0) == 0 && size == 255);
    memset(text + 10, 'a', 512);
    cr_expect_eq(ut_job_pmi1.lookup(1, record, &size, 0), -EPROTO);
}

Test(pmi1_nodes, launcher_that_fails_ends_requests)
{
    char record[UT_JOB_RECORD_MAX];
    size_t size;

    lay_out(2, 2);
    cr_assert_eq(begin_job(0), 0);
    fails = -EPIPE;
    cr_expect_eq(ut_job_pmi1.lookup(1, record, &size, 0), -EPIPE);
    cr_expect_eq(publish(0), -EPIPE);
    cr_expect_eq(ut_job_num_questions(), 0);
}

/* A value has at most 9999 pieces. */
Test(pmi1_nodes, value_with_too_many_pieces_is_refused)
{
    static char record[10000];

    lay_out(2, 2);
    info.value_max = 9; /* one byte in each piece */
    only_counts = true;
    cr_assert_eq(begin_job(0), 0);
    cr_expect_eq(ut_job_pmi1.publish(record, 9999), 0);
    cr_expect_eq(published, 9999);
    cr_expect_eq(ut_job_pmi1.publish(record, 10000), -EMSGSIZE);
    cr_expect_eq(published, 9999);
}

Test(pmi1_nodes, value_that_is_longer_than_a_line_is_refused)
{
    static char record[UT_JOB_PMI1_LINE / 2];

    lay_out(2, 2);
    info.value_max = 10000;
    cr_assert_eq(begin_job(0), 0);
    cr_expect_eq(ut_job_pmi1.publish(record, sizeof(record)), -EMSGSIZE);
    cr_expect_eq(published, 0);
}
