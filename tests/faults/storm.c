/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm FOLDER ROLE...: one of several processes that all put to all others from their first call
 * on; ROLE has one letter per rank for its behaviour:
 *   s  stays: calls the library at once
 *   l  late: calls it for the first time after another process has put to it
 *   n  never calls it, and stays alive
 *   0  ends before its first call
 *   1  is killed when it has made its VCQ, 2: when its memory is registered too,
 *   3  when half of its puts are started, 4: all,
 *   5  when the first of them has ended, 6: half, 7: all
 * The staying processes get correct results: puts to staying or late processes succeed; puts to
 * n and 0 fail with UTOFU_ERR_MRQ_PEER and the text that the process has not called the library;
 * and puts to the others succeed, or fail after the kill. When FOLDER/dead.R shows for all of them
 * that they have ended, all staying ones put to each other once more, and to the dead until that
 * fails. Prints the results. See run_storm.py.
 *
 * Exit status: 0; 1 with a line: a result was wrong, or a call failed.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <utofu.h>
#include <utofu_ext.h>

#include "card.h"
#include "fail.h"

enum { MAX_RANKS = 128, STAG = 7, CMP = 3 };

static int rank, size, ended;
static const char *folder, *roles;
static utofu_vcq_hdl_t vcq;
static uint64_t memory[MAX_RANKS] __attribute__((aligned(4096)));
static utofu_stadd_t own;
static int succeeded, failed;
static struct peer {
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    bool wanted; /* a put to it is to be started */
} peers[MAX_RANKS];
static bool second; /* round */

static bool stays(int r)
{
    return roles[r] == 's' || roles[r] == 'l';
}

static bool has_called(int r)
{
    return roles[r] != 'n' && roles[r] != '0';
}

static void say(const char *what)
{
    if (!card_write(folder, what, rank, &rank, sizeof(rank)))
        FAIL("cannot write to %s", folder);
}

static bool is_said(const char *what, int by)
{
    int its;

    return card_read(folder, what, by, &its, sizeof(its));
}

/* Ends the process at the step of its role. */
static void die_at(char step)
{
    if (roles[rank] != step)
        return;
    say("dying");
    raise(SIGKILL);
}

/* All processes have the same number of CQs, so the ids of others follow from the own one. */
static void find_all(void)
{
    utofu_vcq_id_t id;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;
    uint8_t coords[6];
    int stride = size == 1 ? 9 : size == 2 ? 4 : 3; /* CQs of a process of a host */

    OK(utofu_query_vcq_id(vcq, &id));
    OK(utofu_query_vcq_info(id, coords, &tni, &cq, &extra));
    for (int r = 0; r < size; r++) {
        utofu_cq_id_t its = (utofu_cq_id_t)(cq + (r - rank) * stride);
        OK(utofu_construct_vcq_id(coords, tni, its, CMP, &peers[r].id));
        OK(utofu_query_stadd(peers[r].id, STAG, &peers[r].stadd));
    }
}

/* False: no room. */
static bool start(int to)
{
    int rc = utofu_put_piggyback8(vcq, peers[to].id, (uint64_t)rank + 1,
                                  peers[to].stadd + 8 * (uint64_t)rank, 8, (uint64_t)to,
                                  UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);

    if (rc == UTOFU_ERR_BUSY)
        return false;
    OK(rc);
    peers[to].wanted = false;
    return true;
}

static void failed_put(int to, int rc, const char *why)
{
    bool is_dead = second ? is_said("dead", to) : is_said("dying", to);

    if (rc == UTOFU_ERR_MRQ_RMT_STADD && has_called(to)) {
        peers[to].wanted = true; /* the peer has yet to register its memory */
        return;
    }
    if (rc != UTOFU_ERR_MRQ_PEER)
        FAIL("a put to rank %d failed with %d: %s", to, rc, why);
    if (stays(to) || (has_called(to) && !is_dead))
        FAIL("rank %d is said to be gone, and is not: %s", to, why);
    if (!has_called(to) && !second && !strstr(why, "has not called the library"))
        FAIL("rank %d has not called the library, but: %s", to, why);
    failed++;
    ended++;
}

static void put_ended(int to)
{
    if (!has_called(to))
        FAIL("a put to rank %d succeeded, which has not called the library", to);
    if (second && !stays(to)) {
        peers[to].wanted = true; /* its mapped memory may remain for a moment */
        return;
    }
    succeeded++;
    ended++;
}

static void poll_once(void)
{
    struct utofu_mrq_notice notice;
    char why[1024] = "";
    int rc = utofu_poll_mrq(vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND) {
        usleep(200);
        return;
    }
    if (rc == UTOFU_SUCCESS) {
        put_ended((int)notice.edata);
    } else {
        utofu_get_last_error(why);
        failed_put((int)notice.edata, rc, why);
    }
}

static void start_wanted(void)
{
    for (int i = 1, n = 0; i < size; i++) {
        int to = (rank + i) % size;
        if (peers[to].wanted && !start(to))
            return;
        if (++n == size / 2)
            die_at('3');
    }
}

/* Puts to each of the others, repeated as necessary. */
static void put_to_all(void)
{
    ended = 0;
    for (int r = 0; r < size; r++)
        peers[r].wanted = r != rank;
    start_wanted();
    say("trying");
    die_at('4');
    while (ended < size - 1) {
        start_wanted();
        poll_once();
        if (ended > 0)
            die_at('5');
        if (ended > size / 2)
            die_at('6');
    }
    die_at('7');
}

static void await(const char *what, bool (*whose)(int r))
{
    for (int r = 0; r < size; r++) {
        while (whose(r) && !is_said(what, r)) {
            if (vcq)
                poll_once();
            usleep(2000);
        }
    }
}

static bool ends(int r)
{
    return roles[r] >= '0' && roles[r] <= '7';
}

static void await_first_put(void)
{
    for (int r = 0; !is_said("trying", r) || !stays(r); r = (r + 1) % size)
        usleep(2000);
}

int main(int argc, char **argv)
{
    const char *r = getenv("UTOFU_RANK"), *n = getenv("UTOFU_SIZE");

    if (argc != 3 || !r || !n || (size = atoi(n)) > MAX_RANKS || strlen(argv[2]) != (size_t)size) {
        fprintf(stderr, "Usage: storm FOLDER ROLES, with UTOFU_RANK and UTOFU_SIZE (up to %d)\n",
                MAX_RANKS);
        return 2;
    }
    rank = atoi(r);
    folder = argv[1];
    roles = argv[2];
    die_at('0');
    if (roles[rank] == 'n') {
        await("done", stays);
        return 0;
    }
    if (roles[rank] == 'l')
        await_first_put();
    OK(utofu_create_vcq_with_cmp_id(0, CMP, 0, &vcq));
    die_at('1');
    OK(utofu_reg_mem_with_stag(vcq, memory, sizeof(memory), STAG, 0, &own));
    die_at('2');
    find_all();
    put_to_all();
    printf("first: %d succeeded, %d failed\n", succeeded, failed);
    say("once");
    await("once", stays);
    await("dead", ends);
    second = true;
    succeeded = failed = 0;
    put_to_all();
    printf("second: %d succeeded, %d failed\n", succeeded, failed);
    for (int i = 0; i < size; i++)
        if (i != rank && stays(i) && memory[i] != (uint64_t)i + 1)
            FAIL("the put of rank %d is not here", i);
    say("done");
    await("done", stays);
    OK(utofu_dereg_mem(vcq, own, 0));
    OK(utofu_free_vcq(vcq));
    return 0;
}
