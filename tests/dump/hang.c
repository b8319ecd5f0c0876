/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that hang, for test_dump.py. Each process prints "ready RANK PID" and then waits for
 * ever.
 *
 *   hang put WHERE       rank 0 has put to rank 1, which never calls the library
 *   hang session WHERE   rank 0's VCQ of session mode waits for an SPS
 *   hang barrier WHERE   rank 0 has started a barrier, rank 1 has not
 *   hang locked sleep    a thread of rank 0 holds the lock of its VCQ
 *   hang own sleep       the program handles SIGUSR2 itself
 *   hang notice WHERE    rank 0 waits for a notice that is never sent
 *   hang tcq_error poll  rank 0 polls the MRQ; the TCQ has the error of a local STADD
 *   hang mrq_error poll  rank 0 polls the TCQ; the MRQ has the error of a remote STADD
 *
 * WHERE rank 0 waits: poll (a loop of the library's poll function), sleep (outside of it), leave
 * (it polls for a while, and then sleeps), or wait (in utofu_wait_vcqs()).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "circuit.h"
#include "meet.h"
#include "utofu_ext.h"
#include "vcq/vcq.h"

static utofu_vcq_hdl_t vcq;
static uint64_t word[32] __attribute__((aligned(256)));

static void ready(void)
{
    printf("ready %d %d\n", my_rank(), (int)getpid());
    fflush(stdout);
}

static void rest(void)
{
    for (;;)
        pause();
}

static void on_signal(int number)
{
    (void)number;
    static const char text[] = "the program's own\n";
    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
        _exit(1);
}

/* The id of rank 1's VCQ: its first CQ of TNI 0, component 7. */
static utofu_vcq_id_t neighbour(void)
{
    uint8_t coords[6];
    utofu_vcq_id_t own, id;

    CALL(utofu_query_my_coords(coords));
    CALL(utofu_query_vcq_id(vcq, &own));
    CALL(utofu_construct_vcq_id(coords, 0, 4, 7, &id));
    return id;
}

static void put(void)
{
    utofu_stadd_t stadd;

    CALL(utofu_reg_mem(vcq, word, sizeof(word), 0, &stadd));
    CALL(utofu_put(vcq, neighbour(), stadd, stadd, sizeof(word), 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                   NULL));
}

/* Puts to rank 0 itself, with an STADD behind the last registered byte. */
static void put_wrong(bool local)
{
    utofu_vcq_id_t own;
    utofu_stadd_t stadd, wrong;

    CALL(utofu_reg_mem(vcq, word, sizeof(word), 0, &stadd));
    CALL(utofu_query_vcq_id(vcq, &own));
    wrong = stadd + sizeof(word);
    CALL(utofu_put(vcq, own, local ? wrong : stadd, local ? stadd : wrong, 8, 7,
                   UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
}

static utofu_vbg_id_t (*gates)[CIRCUIT_MAX_GATES];

static void barrier(void)
{
    struct utofu_vbg_setting settings[CIRCUIT_MAX_GATES];
    utofu_vcq_id_t ids[MAX_PROCESSES];
    int rank = my_rank(), n = num_processes();
    size_t count = circuit_gates(CIRCUIT_BUTTERFLY, n, rank);

    vcq = open_vcq();
    gates = aligned_memory(MAX_PROCESSES * sizeof(gates[0]));
    CALL(utofu_alloc_vbg((utofu_tni_id_t)rank, count, 0, gates[rank]));
    share_rows(vcq, gates, sizeof(gates[0]));
    circuit_wire(CIRCUIT_BUTTERFLY, n, rank, gates[0], settings);
    CALL(utofu_set_vbg(settings, count));
    meet(vcq, ids);
    if (rank == 0)
        CALL(utofu_barrier(gates[0][0], 0));
}

static int poll_once(bool notice)
{
    struct utofu_mrq_notice mrq;
    void *cbdata;

    if (notice)
        return utofu_poll_mrq(vcq, 0, &mrq);
    return gates ? utofu_poll_barrier(gates[0][0], 0) : utofu_poll_tcq(vcq, 0, &cbdata);
}

static void poll_while(bool notice, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++) {
        int rc = poll_once(notice);
        if (rc != UTOFU_ERR_NOT_COMPLETED && rc != UTOFU_ERR_NOT_FOUND)
            check_call(rc, "polling");
    }
}

int main(int argc, char **argv)
{
    const char *what = argc == 3 ? argv[1] : "", *where = argc == 3 ? argv[2] : "";
    bool tcq_error = strcmp(what, "tcq_error") == 0, mrq_error = strcmp(what, "mrq_error") == 0;
    bool notice = tcq_error || strcmp(what, "notice") == 0;

    if (strcmp(what, "own") == 0)
        signal(SIGUSR2, on_signal);
    if (strcmp(what, "barrier") == 0) {
        barrier();
    } else if (my_rank() == 0) {
        unsigned long flags = strcmp(what, "session") == 0 ? UTOFU_VCQ_FLAG_SESSION_MODE : 0;
        CALL(utofu_create_vcq(0, flags, &vcq));
        if (tcq_error || mrq_error)
            put_wrong(tcq_error);
        else if (!notice)
            put();
    }
    if (strcmp(what, "locked") == 0 && my_rank() == 0 && !ut_vcq_enter(vcq))
        return 1;
    if (my_rank() == 0 && strcmp(where, "leave") == 0)
        poll_while(notice, 10000);
    ready();
    if (my_rank() == 0 && strcmp(where, "poll") == 0)
        poll_while(notice, UINT64_MAX);
    if (my_rank() == 0 && strcmp(where, "wait") == 0)
        CALL(utofu_wait_vcqs(&vcq, 1, -1));
    rest();
}
