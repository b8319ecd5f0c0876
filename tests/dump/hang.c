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
 *
 * WHERE rank 0 waits: poll (a loop of the library's poll function) or sleep (outside of it).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "circuit.h"
#include "meet.h"
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

/* The id that rank 1 would have: its first CQ of TNI 0, component 7. */
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

static void poll_for_ever(void)
{
    for (;;) {
        void *cbdata;
        int rc = gates ? utofu_poll_barrier(gates[0][0], 0) : utofu_poll_tcq(vcq, 0, &cbdata);
        if (rc != UTOFU_ERR_NOT_COMPLETED && rc != UTOFU_ERR_NOT_FOUND)
            check_call(rc, "polling");
    }
}

int main(int argc, char **argv)
{
    const char *what = argc == 3 ? argv[1] : "";

    if (strcmp(what, "own") == 0)
        signal(SIGUSR2, on_signal);
    if (strcmp(what, "barrier") == 0) {
        barrier();
    } else if (my_rank() == 0) {
        unsigned long flags = strcmp(what, "session") == 0 ? UTOFU_VCQ_FLAG_SESSION_MODE : 0;
        CALL(utofu_create_vcq(0, flags, &vcq));
        put();
    }
    if (strcmp(what, "locked") == 0 && my_rank() == 0 && !ut_vcq_enter(vcq))
        return 1;
    ready();
    if (my_rank() == 0 && strcmp(argv[2], "poll") == 0)
        poll_for_ever();
    rest();
}
