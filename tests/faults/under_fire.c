/* SPDX-License-Identifier: Apache-2.0 */
/*
 * under_fire FOLDER: one of several processes that put to, get from and add to all others from
 * their first call on, until FOLDER/killed.R shows that rank R was killed and the communication to
 * it has failed with UTOFU_ERR_MRQ_PEER. Then the process must continue with all others, and ends
 * with them. Prints the time in ms from the kill to the notification. See run_kills.py.
 *
 * Exit status: 0; 1 with a line: a call or a communication failed that should not have.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <utofu.h>

#include "card.h"
#include "fail.h"

enum { MAX_RANKS = 16, STAG = 7, CMP = 3, SIZE = 1 << 17, SLOT = SIZE / MAX_RANKS, AFTER = 20 };

static int rank, size, victim = -1;
static const char *folder;
static double killed_at; /* CLOCK_MONOTONIC, from the script */
static bool told;
static utofu_vcq_hdl_t vcq;
static uint64_t *memory;
static utofu_stadd_t own;
static struct peer {
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    bool busy, met;
    unsigned int turn, after; /* communications started; successful after the death was reported */
} peers[MAX_RANKS];

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* All processes are alike, so the ids of others follow from the own one, and no process has to live
 * until it has sent its id. */
static void open_all(void)
{
    utofu_vcq_id_t id;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;
    uint8_t coords[6];
    int stride = size == 1 ? 9 : size == 2 ? 4 : 3; /* CQs of a process of a host */

    if (posix_memalign((void **)&memory, 4096, SIZE) != 0)
        FAIL("no memory");
    memset(memory, 0, SIZE);
    OK(utofu_create_vcq_with_cmp_id(0, CMP, 0, &vcq));
    OK(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &own));
    OK(utofu_query_vcq_id(vcq, &id));
    OK(utofu_query_vcq_info(id, coords, &tni, &cq, &extra));
    for (int r = 0; r < size; r++) {
        utofu_cq_id_t its = (utofu_cq_id_t)(cq + (r - rank) * stride);
        OK(utofu_construct_vcq_id(coords, tni, its, CMP, &peers[r].id));
        OK(utofu_query_stadd(peers[r].id, STAG, &peers[r].stadd));
    }
}

/* One at a time to each peer; they overlap between peers. */
static void start(int to)
{
    struct peer *p = &peers[to];
    utofu_stadd_t lcl = own + (uint64_t)to * SLOT, rmt = p->stadd + (uint64_t)rank * SLOT;
    unsigned int turn = p->turn++;
    size_t length = turn % 5 == 0 ? SLOT : 64;
    int rc;

    if (turn % 3 == 0)
        rc = utofu_put(vcq, p->id, lcl, rmt, length, (uint64_t)to,
                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
    else if (turn % 3 == 1)
        rc = utofu_get(vcq, p->id, lcl, rmt, length, (uint64_t)to,
                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
    else
        rc = utofu_armw8(vcq, p->id, UTOFU_ARMW_OP_ADD, 1, rmt, (uint64_t)to,
                         UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
    if (rc != UTOFU_SUCCESS && rc != UTOFU_ERR_BUSY)
        FAIL("a communication to rank %d could not be started: %d", to, rc);
    p->busy = rc == UTOFU_SUCCESS;
}

/* The script writes the file after the kill, so that earlier failures are errors. */
static void look_for_the_kill(bool wait)
{
    struct {
        double at;
        int64_t rank;
    } card;

    do {
        if (victim < 0 && card_read(folder, "killed", 0, &card, sizeof(card))) {
            killed_at = card.at;
            victim = (int)card.rank;
        }
    } while (victim < 0 && wait && usleep(1000) == 0);
}

static void poll_once(void)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(vcq, 0, &notice);
    char why[1024];

    if (rc == UTOFU_ERR_NOT_FOUND) {
        usleep(100);
        return;
    }
    utofu_get_last_error(why);
    int to = (int)notice.edata;
    if (rc == UTOFU_ERR_MRQ_PEER) {
        look_for_the_kill(true);
        if (to != victim)
            FAIL("rank %d is said to be dead, but rank %d is: %s", to, victim, why);
        if (!told)
            printf("told %.1f\n", (now() - killed_at) * 1e3);
        told = true;
    } else if (rc == UTOFU_ERR_MRQ_RMT_STADD && !peers[to].met) {
        /* the peer has created its VCQ, and is about to register its memory */
        peers[to].busy = false;
        return;
    } else if (rc != UTOFU_SUCCESS) {
        FAIL("a communication with rank %d failed: %d: %s", to, rc, why);
    }
    peers[to].met |= rc == UTOFU_SUCCESS;
    peers[to].after += told;
    peers[to].busy = false;
}

static bool is_done(void)
{
    for (int r = 0; told && r < size; r++) {
        if (r != rank && r != victim && peers[r].after < AFTER)
            return false;
    }
    return told;
}

static void await_others(void)
{
    if (!card_write(folder, "done", rank, &rank, sizeof(rank)))
        FAIL("cannot write to %s", folder);
    for (int r = 0, its; r < size; r++) {
        while (r != victim && !card_read(folder, "done", r, &its, sizeof(its)))
            poll_once();
    }
}

int main(int argc, char **argv)
{
    const char *r = getenv("UTOFU_RANK"), *n = getenv("UTOFU_SIZE");

    if (argc != 2 || !r || !n || (size = atoi(n)) > MAX_RANKS) {
        fprintf(stderr, "Usage: under_fire FOLDER, with UTOFU_RANK and UTOFU_SIZE (up to %d)\n",
                MAX_RANKS);
        return 2;
    }
    rank = atoi(r);
    folder = argv[1];
    open_all();
    for (unsigned int i = 0; !is_done(); i++) {
        for (int to = 0; to < size; to++) {
            if (to != rank && !peers[to].busy && !(told && to == victim))
                start(to);
        }
        poll_once();
        if (i % 16 == 0)
            look_for_the_kill(false);
    }
    await_others();
    OK(utofu_dereg_mem(vcq, own, 0));
    OK(utofu_free_vcq(vcq));
    return 0;
}
