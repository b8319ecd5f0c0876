/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ACP basic layer compared with uTofu's own put, in one run: processes 0 to 2 on one host or
 * more.
 *
 *     utofurun -n 3 acp
 *
 * Rank 0 measures; each figure is the first decile of its rounds, so that other load on the machine
 * counts little. "put" is utofu_put() until its local notice. "message" is a put of 64 bytes, the
 * size of a command.
 */
#include <acp.h>
#include <utofu.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum {
    ROUNDS = 1000,
    AREA = 4 << 20,
    TURNS = 100,        /* of the layer and of uTofu, alternating */
    TURN = 40,          /* rounds of each */
    WARM = 5,           /* rounds before the measured ones */
    YIELD_EVERY = 4096, /* polls: the peer may need this core */
};
enum { ECHO = 1, PUT_8, PUT_64K, STOP };

/* Microseconds of one call. */
static double time_calls(void (*call)(size_t size), size_t size, int calls)
{
    double begin = bench_now();

    for (int k = 0; k < calls; k++)
        call(size);
    return (bench_now() - begin) / calls;
}

/* The addresses of the others' starter memory. */
struct place {
    acp_ga_t area;
    utofu_vcq_id_t vcq_id;
    utofu_stadd_t stadd;
} places[3];

static utofu_vcq_hdl_t vcq;
static utofu_stadd_t own;

static void put_to(int rank, size_t size)
{
    struct utofu_mrq_notice notice;

    bench_check(utofu_put(vcq, places[rank].vcq_id, own, places[rank].stadd, size, 0,
                          UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                "utofu_put");
    while (utofu_poll_mrq(vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND)
        ;
}

static void put_to_next(size_t size)
{
    put_to(1, size);
}

static void copy_to_next(size_t size)
{
    acp_complete(acp_copy(places[1].area, places[0].area, size, ACP_HANDLE_NULL));
}

static void copy_between_others(size_t size)
{
    acp_complete(acp_copy(places[2].area, places[1].area, size, ACP_HANDLE_NULL));
}

/* Rounds of the two alternate, so that other load on the machine affects both; with fewer calls per
 * round there are more rounds. */
static void compare_with_put(const char *what, size_t size, int calls)
{
    static double layer[ROUNDS], utofu[ROUNDS];
    int rounds = calls >= 10 ? ROUNDS / 10 : ROUNDS;

    for (int i = 0; i < rounds; i++) {
        layer[i] = time_calls(copy_to_next, size, calls);
        utofu[i] = time_calls(put_to_next, size, calls);
    }
    printf("%-58s %9.3f us %9.3f us   %.2f\n", what, bench_quantile(layer, rounds, 0.1),
           bench_quantile(utofu, rounds, 0.1),
           bench_quantile(layer, rounds, 0.1) / bench_quantile(utofu, rounds, 0.1));
}

/*
 * Copies between two other processes: the layer's copies, while the others wait in acp_sync(),
 * alternate with the same by uTofu alone. A message is 64 bytes with a remote notice; rank 1
 * answers each message with another one, or first puts from its memory to rank 2's. Half a round
 * trip without the put is a message; a round trip with it is a message, a put and an answer, on the
 * memory that the layer's copies use.
 */
static void send_message(int rank, uint64_t edata)
{
    bench_check(utofu_put(vcq, places[rank].vcq_id, own + AREA / 2, places[rank].stadd + AREA / 2,
                          64, edata, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL),
                "utofu_put");
}

static uint64_t receive_message(void)
{
    struct utofu_mrq_notice notice;

    for (int polls = 1; utofu_poll_mrq(vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND; polls++)
        if (polls % YIELD_EVERY == 0)
            sched_yield();
    return notice.edata;
}

static void round_trip(size_t size)
{
    send_message(1, size == 0 ? ECHO : size == 8 ? PUT_8 : PUT_64K);
    receive_message();
}

static void answer_messages(void)
{
    uint64_t what;

    while ((what = receive_message()) != STOP) {
        if (what != ECHO)
            put_to(2, what == PUT_8 ? 8 : 65536);
        send_message(0, 0);
    }
}

static void times_of(void (*call)(size_t size), size_t size, double times[TURN])
{
    for (int i = -WARM; i < TURN; i++) {
        double t = time_calls(call, size, 1);

        if (i >= 0)
            times[i] = t;
    }
}

static void measure_third_party(size_t size)
{
    static double layer[TURNS * TURN], echo[TURNS * TURN], by_hand[TURNS * TURN];
    double message, l, h;

    for (int t = 0; t < TURNS; t++) {
        times_of(copy_between_others, size, &layer[t * TURN]);
        acp_sync();
        times_of(round_trip, 0, &echo[t * TURN]);
        times_of(round_trip, size, &by_hand[t * TURN]);
        send_message(1, STOP);
        acp_sync();
    }
    l = bench_quantile(layer, TURNS * TURN, 0.1);
    h = bench_quantile(by_hand, TURNS * TURN, 0.1);
    message = bench_quantile(echo, TURNS * TURN, 0.1) / 2;
    printf("copy of %5zu bytes between two others: %.3f us. Message %.3f us, put %.3f us: ratio to "
           "their sum %.2f; to message, put and answer %.2f\n",
           size, l, message, h - 2 * message, l / (h - message), l / h);
}

/* The part of the other ranks, for all measurements. */
static void take_part(void)
{
    for (int t = 0; t < 2 * TURNS; t++) {
        acp_sync();
        if (acp_rank() == 1)
            answer_messages();
        acp_sync();
    }
}

static void measure_all(void)
{
    printf("%-58s %12s %12s   ratio\n", "", "layer", "uTofu");
    compare_with_put("copy of 8 bytes to another; put", 8, 2000);
    compare_with_put("copy of 64 KiB to another; put", 65536, 50);
    compare_with_put("copy of 1 MiB to another; put", 1 << 20, 1);
    measure_third_party(8);
    measure_third_party(65536);
}

int main(int argc, char **argv)
{
    char *area = aligned_alloc(4096, AREA);
    struct place *mine;

    if (area == NULL || acp_init(&argc, &argv) != 0)
        exit(1);
    if (acp_procs() != 3) {
        fprintf(stderr, "acp: 3 processes are wanted\n");
        exit(2);
    }
    memset(area, 1, AREA);
    mine = acp_query_address(acp_query_starter_ga(acp_rank()));
    mine->area = acp_query_ga(acp_register_memory(area, AREA, 0), area);
    if (utofu_create_vcq(0, 0, &vcq) != UTOFU_SUCCESS ||
        utofu_reg_mem(vcq, area, AREA, 0, &own) != UTOFU_SUCCESS)
        exit(1);
    bench_check(utofu_query_vcq_id(vcq, &mine->vcq_id), "utofu_query_vcq_id");
    mine->stadd = own;
    acp_sync();
    for (int r = 0; r < 3; r++) {
        acp_complete(acp_copy(acp_query_starter_ga(acp_rank()) + 1024, acp_query_starter_ga(r),
                              sizeof(places[r]), ACP_HANDLE_NULL));
        memcpy(&places[r], (char *)mine + 1024, sizeof(places[r]));
    }
    acp_sync();
    if (acp_rank() == 0)
        measure_all();
    else
        take_part();
    acp_sync();
    bench_check(utofu_dereg_mem(vcq, own, 0), "utofu_dereg_mem");
    bench_check(utofu_free_vcq(vcq), "utofu_free_vcq");
    if (acp_finalize() != 0)
        exit(1);
    free(area);
    return 0;
}
