/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns FOLDER any|all|one|from OPS: the processes of a job put to each other, add to words of each
 * other and read from each other, OPS times each: peers in random order ("any"), every other one in
 * turn ("all"), all but rank 0 to rank 0 alone ("one"), or rank 0 to every other one in turn
 * ("from"). Every notice has to arrive once and in order, every addition to be executed once, and
 * the last put of each process to be in memory at the end. For UTOFU_VERBS_MAX_QPS: run with more
 * processes than that. Now and then a process computes for a while without calling the library.
 */
#include "card.h"
#include "check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <utofu.h>

enum { MOST = 1024, STAG = 1, SIZE = 20480, MANY = 32, UNDER_WAY = 24, TIMEOUT_S = 200 };
enum whom { ANY, ALL, ONE, FROM };

/* The layout of each process's memory. */
struct memory {
    uint64_t adds;        /* all processes add here */
    uint64_t rank_plus_1; /* all processes read it */
    uint64_t put[MOST];   /* by each origin: the number of its puts */
    uint64_t got[MOST];   /* from each target: its rank_plus_1 */
    uint64_t unused[SIZE / 8 - 2 - 2 * MOST];
};

struct counts {
    uint64_t puts[MOST], adds[MOST]; /* to each target */
};

static enum whom whom;
static int rank, size, under_way;
static const char *folder;
static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t id[MOST];
static utofu_stadd_t lcl, rmt[MOST];
static _Alignas(4096) struct memory memory;
static struct counts sent;
static uint64_t received[MOST];
static bool seen[MOST]; /* of each target: a value was read */

/* Only rank 0 has more than one peer. */
static bool is_star(void)
{
    return whom == ONE || whom == FROM;
}

/* Does this process communicate with that one, in either direction? */
static bool knows(int other)
{
    return !is_star() || rank == 0 || other == 0 || other == rank;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* End of a wait that begins now. */
static double deadline(void)
{
    const char *scale = getenv("UT_TEST_TIMEOUT_SCALE");

    return now() + TIMEOUT_S * (scale ? atof(scale) : 1);
}

static void poll_all(void)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) != UTOFU_ERR_NOT_FOUND)
        CHECK(rc == UTOFU_SUCCESS, "utofu_poll_tcq: %d", rc);
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) != UTOFU_ERR_NOT_FOUND) {
        CHECK(rc == UTOFU_SUCCESS, "utofu_poll_mrq: %d", rc);
        if (notice.notice_type != UTOFU_MRQ_TYPE_RMT_PUT) {
            under_way--;
            continue;
        }
        uint64_t origin = (notice.rmt_stadd - lcl - offsetof(struct memory, put)) / 8 - 1;
        CHECK(origin < (uint64_t)size, "a notice of nobody");
        CHECK(notice.edata == (received[origin] & 255), "%u from rank %u instead of %u",
              (unsigned int)notice.edata, (unsigned int)origin,
              (unsigned int)(received[origin] & 255));
        received[origin]++;
        CHECK(memory.put[origin] >= received[origin], "the notice came before the data");
    }
}

/* False: the TOQ has no room. */
static bool start(int to, int what)
{
    const unsigned long int flags = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    int rc;

    if (what == 0)
        rc = utofu_armw8(vcq, id[to], UTOFU_ARMW_OP_ADD, 1, rmt[to] + offsetof(struct memory, adds),
                         0, flags, NULL);
    else if (what == 1)
        rc = utofu_get(vcq, id[to], lcl + offsetof(struct memory, got) + 8 * (unsigned int)to,
                       rmt[to] + offsetof(struct memory, rank_plus_1), 8, 0, flags, NULL);
    else
        rc = utofu_put_piggyback8(vcq, id[to], sent.puts[to] + 1,
                                  rmt[to] + offsetof(struct memory, put) + 8 * (unsigned int)rank,
                                  8, sent.puts[to] & 255,
                                  flags | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL);
    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY, "starting: %d", rc);
    if (rc == UTOFU_ERR_BUSY)
        return false;
    sent.adds[to] += what == 0;
    seen[to] |= what == 1;
    sent.puts[to] += what > 1;
    under_way++;
    return true;
}

static void say(const char *what, const void *data, size_t bytes)
{
    CHECK(card_write(folder, what, rank, data, bytes), "%s of rank %d", what, rank);
}

static void hear(const char *what, int from, void *data, size_t bytes)
{
    double end = deadline();

    while (!card_read(folder, what, from, data, bytes)) {
        if (vcq)
            poll_all();
        usleep(2000 * (unsigned int)size); /* so that some CPU stays free */
        CHECK(now() < end, "no %s comes from rank %d", what, from);
    }
}

static void meet(void)
{
    CHECK(utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq) == UTOFU_SUCCESS, "no VCQ");
    memory.rank_plus_1 = (uint64_t)rank + 1;
    CHECK(utofu_reg_mem_with_stag(vcq, &memory, SIZE, STAG, 0, &lcl) == UTOFU_SUCCESS, "no STADD");
    CHECK(utofu_query_vcq_id(vcq, &id[rank]) == UTOFU_SUCCESS, "no id");
    say("id", &id[rank], sizeof(id[rank]));
    for (int i = 0; i < size; i++) {
        if (!knows(i))
            continue;
        hear("id", i, &id[i], sizeof(id[i]));
        CHECK(utofu_query_stadd(id[i], STAG, &rmt[i]) == UTOFU_SUCCESS, "no remote STADD");
    }
}

static int next_peer(unsigned int *seed)
{
    static int turn;

    switch (whom) {
    case ANY:
        return rand_r(seed) % size;
    case ONE:
        return 0;
    default:
        turn = turn % (size - 1) + 1;
        return (rank + turn) % size;
    }
}

static void communicate(long ops)
{
    unsigned int seed = (unsigned int)rank * 7919 + 1;
    double end = deadline();
    long started = 0;

    while (started < ops || under_way > 0) {
        int to = started < ops ? next_peer(&seed) : 0;
        /* several to one peer, which wait while its connection is closed and opened */
        for (int n = rand_r(&seed) % 4; n >= 0 && started < ops && under_way < UNDER_WAY; n--)
            started += start(to, rand_r(&seed) % 5);
        int before = under_way;
        poll_all();
        if (rand_r(&seed) % 500 == 0)
            usleep(3000);
        else if (size > MANY && whom != FROM && under_way == before) /* lets other processes run */
            usleep(1000 * (unsigned int)size);
        CHECK(now() < end, "%ld of %ld started, %d under way", started, ops, under_way);
    }
}

static void check_all(void)
{
    uint64_t adds = 0;
    double end = deadline();

    for (int i = 0; i < size; i++) {
        struct counts theirs;
        if (!knows(i))
            continue;
        hear("sent", i, &theirs, sizeof(theirs));
        adds += theirs.adds[rank];
        while (received[i] < theirs.puts[rank]) {
            poll_all();
            CHECK(now() < end, "%u of %u notices from rank %d", (unsigned int)received[i],
                  (unsigned int)theirs.puts[rank], i);
        }
        CHECK(received[i] == theirs.puts[rank] && memory.put[i] == received[i],
              "%u notices, %u put", (unsigned int)received[i], (unsigned int)memory.put[i]);
        CHECK(!seen[i] || memory.got[i] == (uint64_t)i + 1, "read %u from rank %d",
              (unsigned int)memory.got[i], i);
    }
    CHECK(memory.adds == adds, "%u additions of %u", (unsigned int)memory.adds, (unsigned int)adds);
}

static bool parse_whom(const char *name)
{
    static const char *const names[] = {
        [ANY] = "any", [ALL] = "all", [ONE] = "one", [FROM] = "from"};

    for (whom = ANY; whom <= FROM && strcmp(name, names[whom]) != 0; whom++)
        ;
    return whom <= FROM;
}

/* Number of communications that this process starts. */
static long ops_of(const char *number)
{
    bool starts = !is_star() || (rank == 0) == (whom == FROM);

    return starts ? atol(number) : 0;
}

int main(int argc, char **argv)
{
    if (argc != 4 || !parse_whom(argv[2]) || !getenv("UTOFU_RANK"))
        return 2;
    folder = argv[1];
    rank = atoi(getenv("UTOFU_RANK"));
    size = atoi(getenv("UTOFU_SIZE"));
    CHECK(size > 1 && size <= MOST, "%d processes", size);
    meet();
    communicate(ops_of(argv[3]));
    say("sent", &sent, sizeof(sent));
    check_all();
    say("done", &rank, sizeof(rank));
    for (int i = 0; i < size; i++)
        if (knows(i))
            hear("done", i, &(int){0}, sizeof(int)); /* it may need this process till then */
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS, "freeing");
    return 0;
}
