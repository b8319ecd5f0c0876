/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survivors FOLDER: four processes on two hosts put to each other without end, until the host of
 * ranks 2 and 3 is switched off. Ranks 0 and 1 must get UTOFU_ERR_MRQ_PEER, for puts under way and
 * for those that they start next, and still reach each other. The VCQ ids are in FOLDER, which both
 * hosts share; "flowing" appears there when enough was received.
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

enum { PROCS = 4, STAG = 1, SIZE = 4096, ENOUGH = 200 };

static int rank;
static const char *folder;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void say(const char *what, const void *data, size_t size)
{
    CHECK(card_write(folder, what, rank, data, size), "%s of rank %d", what, rank);
}

static void hear(const char *what, int from, void *data, size_t size)
{
    double end = now() + 120;

    while (!card_read(folder, what, from, data, size)) {
        usleep(50000);
        CHECK(now() < end, "nothing comes from rank %d", from);
    }
}

static utofu_vcq_hdl_t vcq;
static utofu_stadd_t lcl, rmt[PROCS];
static utofu_vcq_id_t id[PROCS];

/* False: a put not yet complete holds up the TOQ. */
static bool put(int to)
{
    int rc = utofu_put(vcq, id[to], lcl, rmt[to] + 64 * (unsigned int)rank, 8, (uint64_t)to,
                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
                       NULL);
    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY, "utofu_put: %d", rc);
    return rc == UTOFU_SUCCESS;
}

int main(int argc, char **argv)
{
    bool pending[PROCS] = {false}, told = false;
    int failures[PROCS] = {0}, successes_after = 0;
    unsigned long received = 0;
    static _Alignas(SIZE) uint64_t memory[SIZE / 8];

    if (argc != 2 || !getenv("UTOFU_RANK"))
        return 2;
    folder = argv[1];
    rank = atoi(getenv("UTOFU_RANK"));
    CHECK(utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq) == UTOFU_SUCCESS, "no VCQ");
    CHECK(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &lcl) == UTOFU_SUCCESS, "no STADD");
    CHECK(utofu_query_vcq_id(vcq, &id[rank]) == UTOFU_SUCCESS, "no id");
    say("id", &id[rank], sizeof(id[rank]));
    for (int i = 0; i < PROCS; i++) {
        hear("id", i, &id[i], sizeof(id[i]));
        CHECK(utofu_query_stadd(id[i], STAG, &rmt[i]) == UTOFU_SUCCESS, "no remote STADD");
    }
    double end = now() + 120;
    while (successes_after < 100) {
        struct utofu_mrq_notice notice;
        void *cbdata;
        for (int to = 0; to < PROCS; to++) {
            /* two more after the first failure: puts started next fail as well */
            if (to != rank && !pending[to] && failures[to] < 3)
                pending[to] = put(to);
        }
        (void)utofu_poll_tcq(vcq, 0, &cbdata);
        int rc = utofu_poll_mrq(vcq, 0, &notice);
        if (rc == UTOFU_ERR_NOT_FOUND)
            continue;
        CHECK(now() < end, "the other host does not die");
        if (rc == UTOFU_SUCCESS && notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT) {
            if (++received >= ENOUGH && !told) {
                told = true;
                say("flowing", &rank, sizeof(rank));
            }
            continue;
        }
        CHECK(notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT, "notice type %u", notice.notice_type);
        int to = (int)notice.edata;
        pending[to] = false;
        if (rc == UTOFU_SUCCESS) {
            CHECK(failures[to] == 0, "rank %d lives again", to);
            successes_after += to < 2 && failures[2] == 3 && failures[3] == 3;
            continue;
        }
        CHECK(rc == UTOFU_ERR_MRQ_PEER && to >= 2 && rank < 2, "code %d of a put to rank %d", rc,
              to);
        failures[to]++;
    }
    say("survived", &rank, sizeof(rank));
    hear("survived", !rank, &(int){0}, sizeof(int)); /* it puts to this process until then */
    printf("rank %d: survived\n", rank);
    return 0;
}
