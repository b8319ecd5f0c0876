/* SPDX-License-Identifier: Apache-2.0 */
/*
 * two_ends WHAT FOLDER: two processes that try one kind of communication, and end in time after any
 * failure: put, get, armw, session or barrier. See run_faults.py, which makes calls fail.
 *
 * Exit status: 0; 1 a call or a communication failed; 3 the other process has given up before; 4 no
 * notice came although the other process is alive; 5 a communication of this process never ended.
 * Except for 0 there is a line on standard error.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <utofu.h>

#include "card.h"

enum { ROUNDS = 20, SIZE = 1 << 17, HALF = SIZE / 2 };
enum { FAILED = 1, OTHER_GAVE_UP = 3, NOTHING_CAME = 4, NEVER_ENDED = 5 };

struct self {
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    utofu_vbg_id_t gate;
};

static int rank;
static const char *folder;
static double time_limit; /* seconds */
static utofu_vcq_hdl_t vcq;
static struct self self, peer;
static volatile uint64_t *mem;
static bool relaying; /* only errors can be in the MRQ */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

__attribute__((noreturn, format(printf, 2, 3))) static void give_up(int status, const char *format,
                                                                    ...)
{
    va_list args;

    fprintf(stderr, "rank %d: ", rank);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    card_write(folder, "gave-up", rank, &status, sizeof(status));
    exit(status);
}

#define CALL(call)                                                                                 \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != UTOFU_SUCCESS)                                                                  \
            give_up(FAILED, "%s returned %d", #call, rc_);                                         \
    } while (0)

/* An error of a communication of this process may come in either queue. */
static void look_for_tcq_error(void)
{
    void *cbdata;
    int rc = utofu_poll_tcq(vcq, 0, &cbdata);

    if (rc != UTOFU_SUCCESS && rc != UTOFU_ERR_NOT_FOUND)
        give_up(FAILED, "utofu_poll_tcq returned %d", rc);
}

/* For loops that wait for the other process. */
static void wait_for_peer(double since, const char *what)
{
    struct utofu_mrq_notice notice;
    int status, rc;

    if (relaying)
        look_for_tcq_error();
    if (relaying && (rc = utofu_poll_mrq(vcq, 0, &notice)) != UTOFU_ERR_NOT_FOUND)
        give_up(FAILED, "utofu_poll_mrq returned %d", rc);
    if (card_read(folder, "gave-up", !rank, &status, sizeof(status)))
        give_up(OTHER_GAVE_UP, "rank %d gave up while this one waited for %s", !rank, what);
    if (now() - since > time_limit)
        give_up(NOTHING_CAME, "%s did not come, although rank %d lives", what, !rank);
    usleep(200);
}

static void exchange(const char *what, const void *mine, void *its, size_t size)
{
    double since = now();

    if (!card_write(folder, what, rank, mine, size))
        give_up(FAILED, "cannot write to %s", folder);
    while (!card_read(folder, what, !rank, its, size))
        wait_for_peer(since, what);
}

/* The next notice. own: of a communication of this process, which must end. */
static void expect(uint8_t type, bool own)
{
    struct utofu_mrq_notice notice = {0};
    double since = now();
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND) {
        look_for_tcq_error();
        if (!own)
            wait_for_peer(since, "a notice");
        else if (now() - since > time_limit)
            give_up(NEVER_ENDED, "a communication of this process never ended");
    }
    if (rc != UTOFU_SUCCESS)
        give_up(FAILED, "utofu_poll_mrq returned %d", rc);
    if (notice.notice_type != type)
        give_up(FAILED, "a notice of type %d, not %d", notice.notice_type, type);
}

static void start(unsigned long flags)
{
    free((void *)mem);
    if (posix_memalign((void **)&mem, 4096, SIZE) != 0)
        give_up(FAILED, "no memory");
    memset((void *)mem, 0, SIZE);
    CALL(utofu_create_vcq(0, flags, &vcq));
    CALL(utofu_query_vcq_id(vcq, &self.id));
    CALL(utofu_reg_mem(vcq, (void *)mem, SIZE, 0, &self.stadd));
}

static void put(void)
{
    for (int i = 1; i <= ROUNDS; i++) {
        size_t length = i % 4 == 0 ? HALF : 8;
        if (rank == i % 2) {
            mem[0] = (uint64_t)i;
            CALL(utofu_put(vcq, peer.id, self.stadd, peer.stadd + HALF, length, (uint64_t)i,
                           UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |
                               UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
                           NULL));
            expect(UTOFU_MRQ_TYPE_LCL_PUT, true);
        } else {
            expect(UTOFU_MRQ_TYPE_RMT_PUT, false);
            if (mem[HALF / 8] != (uint64_t)i)
                give_up(FAILED, "round %d: a notice without its data", i);
        }
    }
}

static void get(void)
{
    for (int i = 1; i <= ROUNDS; i++) {
        mem[0] = (uint64_t)i;
        CALL(utofu_get(vcq, peer.id, self.stadd + HALF, peer.stadd, i % 4 == 0 ? HALF : 8, 0,
                       UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                       NULL));
        expect(UTOFU_MRQ_TYPE_LCL_GET, true);
    }
}

static void armw(void)
{
    for (int i = 1; i <= ROUNDS; i++) {
        CALL(utofu_armw8(vcq, peer.id, UTOFU_ARMW_OP_ADD, 1, peer.stadd, 0,
                         UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                         NULL));
        expect(UTOFU_MRQ_TYPE_LCL_ARMW, true);
    }
}

/* Rank 1 relays: each put of rank 0 moves its schedule pointer, and its put answers. */
static void session(void)
{
    const unsigned long relayed = UTOFU_ONESIDED_FLAG_TCQ_NOTICE |
                                  UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE |
                                  UTOFU_ONESIDED_FLAG_STRONG_ORDER;

    for (int i = 1; rank == 1 && i <= ROUNDS; i++)
        CALL(utofu_put(vcq, peer.id, self.stadd + HALF, peer.stadd + HALF, 8, 0, relayed, NULL));
    relaying = rank == 1;
    exchange("posted", &rank, &(int){0}, sizeof(rank));
    for (int i = 1; i <= ROUNDS; i++) {
        if (rank == 0) {
            mem[0] = (uint64_t)i;
            CALL(utofu_put(vcq, peer.id, self.stadd, peer.stadd + HALF, 8, 0,
                           UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |
                               UTOFU_ONESIDED_FLAG_SPS(1),
                           NULL));
            expect(UTOFU_MRQ_TYPE_LCL_PUT, true);
            expect(UTOFU_MRQ_TYPE_RMT_PUT, false);
        }
    }
}

static void barrier(void)
{
    struct utofu_vbg_setting setting;
    uint64_t value = (uint64_t)rank + 1, sum;
    double since;
    int rc;

    setting = (struct utofu_vbg_setting){
        .vbg_id = self.gate,
        .src_lcl_vbg_id = self.gate,
        .src_rmt_vbg_id = peer.gate,
        .dst_lcl_vbg_id = self.gate,
        .dst_rmt_vbg_id = peer.gate,
        .dst_path_coords = {UTOFU_PATH_COORD_NULL},
    };
    CALL(utofu_set_vbg(&setting, 1));
    exchange("wired", &rank, &(int){0}, sizeof(rank));
    for (int i = 1; i <= ROUNDS; i++) {
        CALL(utofu_reduce_uint64(self.gate, UTOFU_REDUCE_OP_SUM, &value, 1, 0));
        since = now();
        while ((rc = utofu_poll_reduce_uint64(self.gate, 0, &sum)) == UTOFU_ERR_NOT_COMPLETED)
            wait_for_peer(since, "the sum");
        if (rc != UTOFU_SUCCESS || sum != 3)
            give_up(FAILED, "utofu_poll_reduce_uint64 returned %d, the sum is %d", rc, (int)sum);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } kinds[] = {
        {"put", put}, {"get", get}, {"armw", armw}, {"session", session}, {"barrier", barrier}};
    const char *text = getenv("TWO_ENDS_TIME_LIMIT"), *rank_text = getenv("UTOFU_RANK");
    void (*run)(void) = NULL;

    for (size_t i = 0; argc == 3 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(argv[1], kinds[i].name) == 0)
            run = kinds[i].run;
    }
    if (!run || !rank_text) {
        fprintf(stderr, "Usage: two_ends put|get|armw|session|barrier FOLDER, with UTOFU_RANK\n");
        return 2;
    }
    rank = atoi(rank_text);
    folder = argv[2];
    time_limit = text ? atof(text) : 20;
    start(run == session && rank == 1 ? UTOFU_VCQ_FLAG_SESSION_MODE : 0);
    if (run == barrier)
        CALL(utofu_alloc_vbg(0, 1, 0, &self.gate));
    exchange("self", &self, &peer, sizeof(self));
    run();
    exchange("done", &rank, &(int){0}, sizeof(rank));
    if (run == barrier)
        CALL(utofu_free_vbg(&self.gate, 1));
    CALL(utofu_dereg_mem(vcq, self.stadd, 0));
    CALL(utofu_free_vcq(vcq));
    free((void *)mem);
    return 0;
}
