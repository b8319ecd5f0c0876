/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instr NUMBER [get|get-tcq|notice|barrier|reduce]
 *
 * For counting instructions: rank 0 puts 8 bytes to rank 1 NUMBER times, each with a TCQ entry that
 * it takes with utofu_poll_tcq; or gets them, each with a local notice that it takes with
 * utofu_poll_mrq, or with a TCQ entry; or puts them with a remote notice and takes the notice of
 * the answer, once it has arrived; or both start NUMBER barrier communications, or sums of a
 * double, and poll for their ends. Run rank 0 under callgrind, with the counting switched on inside
 * these functions only, for two numbers: the difference is the cost of the additional ones. A
 * barrier would include empty polls, so rank 0 starts a while after rank 1, whose packet has
 * arrived by then. Every few puts rank 0 waits, outside these functions, until the device has
 * executed them, so that the device's speed does not count.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "butterfly.h"
#include "measure.h"
#include "party.h"

enum { STAG = 1, SIZE = 4096, LATER_NS = 1000000, PUTS_IN_A_ROW = 16, WARM_UP = 100 };

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t peer;
static utofu_stadd_t lcl, rmt;

static void wait_for_device(void)
{
    nanosleep(&(struct timespec){.tv_nsec = LATER_NS}, NULL);
}

/* By then this thread is the owner of the VCQ's lock. */
static void warm_up(void)
{
    void *cbdata;

    for (int i = 0; i < WARM_UP; i++)
        (void)!utofu_poll_tcq(vcq, 0, &cbdata);
}

/* Functions that are not inlined: counting can be switched on in them, too. */
#define COUNTED static __attribute__((noinline)) void

static inline void await_tcq(int rc, const char *what)
{
    void *cbdata;

    if (rc == UTOFU_SUCCESS)
        while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
            ;
    party_check(rc, what);
}

COUNTED put_counted(void)
{
    await_tcq(
        utofu_put(vcq, peer, lcl + 128, rmt + 128, 8, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL),
        "utofu_put and utofu_poll_tcq");
}

static void put_word(void)
{
    static unsigned int puts;

    if (++puts % PUTS_IN_A_ROW == 0)
        wait_for_device();
    put_counted();
}

COUNTED get_tcq_counted(void)
{
    await_tcq(
        utofu_get(vcq, peer, lcl + 128, rmt + 128, 8, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL),
        "utofu_get and utofu_poll_tcq");
}

COUNTED get_counted(void)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_get(vcq, peer, lcl + 128, rmt + 128, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                       NULL);

    if (rc == UTOFU_SUCCESS)
        while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
            ;
    party_check(rc, "utofu_get and utofu_poll_mrq");
}

static void await_notice(void)
{
    struct utofu_mrq_notice notice;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        sched_yield();
    party_check(rc, "utofu_poll_mrq");
}

/* Both sides of a put with a remote notice. */
static void put_notice(void)
{
    if (party.rank == 1)
        await_notice();
    party_check(utofu_put(vcq, peer, lcl + 128, rmt + 128, 8, 0,
                          UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL),
                "utofu_put");
    if (party.rank == 0) {
        wait_for_device();
        await_notice();
    }
}

static void start_barrier(utofu_vbg_id_t start, bool sum)
{
    double data[1] = {0.5};

    party_check(sum ? utofu_reduce_double(start, UTOFU_REDUCE_OP_BFPSUM, data, 1, 0)
                    : utofu_barrier(start, 0),
                "a barrier communication");
}

static void await_barrier(utofu_vbg_id_t start, bool sum)
{
    double data[1];
    int rc;

    while ((rc = sum ? utofu_poll_reduce_double(start, 0, data) : utofu_poll_barrier(start, 0)) ==
           UTOFU_ERR_NOT_COMPLETED)
        sched_yield();
    party_check(rc, "the end of a barrier communication");
}

static void run_barriers(long number, bool sum)
{
    static utofu_vbg_id_t gates[2][CIRCUIT_MAX_GATES];

    bench_set_butterfly(gates);
    utofu_vbg_id_t start = gates[party.rank][0];

    for (long i = 0; i < number; i++) {
        if (party.rank == 0)
            wait_for_device();
        start_barrier(start, sum);
        await_barrier(start, sum);
    }
    party_close();
}

int main(int argc, char **argv)
{
    uint64_t *memory = aligned_alloc(SIZE, SIZE);
    const char *what = argc == 3 ? argv[2] : "put";
    bool sum = strcmp(what, "reduce") == 0, notices = strcmp(what, "notice") == 0;
    void (*once)(void) = strcmp(what, "put") == 0       ? put_word
                         : strcmp(what, "get") == 0     ? get_counted
                         : strcmp(what, "get-tcq") == 0 ? get_tcq_counted
                         : notices                      ? put_notice
                                                        : NULL;

    if (argc < 2 || argc > 3 || (!once && !sum && strcmp(what, "barrier") != 0))
        party_usage_error("instr",
                          "give a number, and perhaps get, get-tcq, notice, barrier or reduce");
    long number = bench_number("instr", argv[1], 1, 100000000);
    if (!once) {
        party_open("instr", 2, 600);
        run_barriers(number, sum);
        return 0;
    }
    party_find("instr", 2, 600);
    if (!memory)
        party_fail(1, "no memory");
    memory[0] = 0;
    party_check(utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq), "utofu_create_vcq_with_cmp_id");
    party_check(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &lcl),
                "utofu_reg_mem_with_stag");
    warm_up();
    peer = party_vcq_id(1 - party.rank, 0, 0);
    party_check(utofu_query_stadd(peer, STAG, &rmt), "utofu_query_stadd");
    if (notices && party.rank == 1)
        for (long i = 0; i < number; i++)
            put_notice();
    if (party.rank == 0) {
        party_put_word(vcq, peer, rmt + 64, 1);
        for (long i = 0; i < number; i++)
            once();
        party_put_word(vcq, peer, rmt, 1);
    } else {
        while (!__atomic_load_n(memory, __ATOMIC_ACQUIRE))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    }
    party_check(utofu_dereg_mem(vcq, lcl, 0), "utofu_dereg_mem");
    party_check(utofu_free_vcq(vcq), "utofu_free_vcq");
    return 0;
}
