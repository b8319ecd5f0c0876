/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ACP basic layer beside uTofu's own put, in one run: processes 0 to 2 on one host or several.
 *
 *     utofurun -n 3 acp
 *
 * Rank 0 measures; each figure is the first decile of its rounds, so that other
 * load on the machine counts little. "put" is utofu_put() with its local
 * notice, polled until it is there. "message" is a put of 64 bytes, which is what a command takes.
 */
#include <acp.h>
#include <utofu.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 1000, AREA = 4 << 20, TOLD = 1000 /* word of the starter memory */ };

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Microseconds of one call. */
static double time_calls(void (*call)(size_t size), size_t size, int calls)
{
    double begin = now_us();

    for (int k = 0; k < calls; k++)
        call(size);
    return (now_us() - begin) / calls;
}

static double decile(double times[], int rounds)
{
    qsort(times, (size_t)rounds, sizeof(times[0]), compare);
    return times[rounds / 10];
}

/* Where the others' memory lies: in their starter memory. */
struct place {
    acp_ga_t area;
    utofu_vcq_id_t vcq_id;
    utofu_stadd_t stadd;
} places[3];

static utofu_vcq_hdl_t vcq;
static utofu_stadd_t own;

static void put(size_t size)
{
    struct utofu_mrq_notice notice;

    utofu_put(vcq, places[1].vcq_id, own, places[1].stadd, size, 0,
              UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
    while (utofu_poll_mrq(vcq, 0, &notice) == UTOFU_ERR_NOT_FOUND)
        ;
}

static void copy(size_t size)
{
    acp_complete(acp_copy(places[1].area, places[0].area, size, ACP_HANDLE_NULL));
}

static void third_party(size_t size)
{
    acp_complete(acp_copy(places[2].area, places[1].area, size, ACP_HANDLE_NULL));
}

static void nothing(size_t size)
{
    (void)size;
}

/* Rounds of the two alternate, so that other load on the machine disturbs both alike; the fewer
 * calls a round has, the more rounds there are. */
static void compare_with(const char *what, void (*ours)(size_t size), size_t size, int calls,
                         void (*base)(size_t size), void (*also)(size_t size))
{
    static double layer[ROUNDS], utofu[ROUNDS];
    int rounds = calls >= 10 ? ROUNDS / 10 : ROUNDS;

    for (int i = 0; i < rounds; i++) {
        layer[i] = time_calls(ours, size, calls);
        utofu[i] = time_calls(base, size, calls) + time_calls(also, 64, 100);
    }
    printf("%-58s %9.3f us %9.3f us   %.2f\n", what, decile(layer, rounds), decile(utofu, rounds),
           decile(layer, rounds) / decile(utofu, rounds));
}

static void measure(void)
{
    printf("%-58s %12s %12s   ratio\n", "", "layer", "uTofu");
    compare_with("copy of 8 bytes to another; put", copy, 8, 2000, put, nothing);
    compare_with("copy of 64 KiB to another; put", copy, 65536, 50, put, nothing);
    compare_with("copy of 1 MiB to another; put", copy, 1 << 20, 1, put, nothing);
    compare_with("copy of 8 bytes between two others; message + put", third_party, 8, 1, put, put);
    compare_with("copy of 64 KiB between two others; message + put", third_party, 65536, 1, put,
                 put);
    acp_complete(acp_copy(acp_query_starter_ga(2) + 8 * TOLD, places[0].area, 8, ACP_HANDLE_NULL));
}

/* The owner of a destination need not do anything: it sleeps, so that two cores are enough. */
static void sleep_until_told(void)
{
    const uint64_t *told = (uint64_t *)acp_query_address(acp_query_starter_ga(2)) + TOLD;
    const struct timespec ms = {.tv_nsec = 1000000};

    while (__atomic_load_n(told, __ATOMIC_ACQUIRE) == 0)
        nanosleep(&ms, NULL);
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
    utofu_query_vcq_id(vcq, &mine->vcq_id);
    mine->stadd = own;
    acp_sync();
    for (int r = 0; r < 3; r++) {
        acp_complete(acp_copy(acp_query_starter_ga(acp_rank()) + 1024, acp_query_starter_ga(r),
                              sizeof(places[r]), ACP_HANDLE_NULL));
        memcpy(&places[r], (char *)mine + 1024, sizeof(places[r]));
    }
    acp_sync();
    if (acp_rank() == 0)
        measure();
    else if (acp_rank() == 2)
        sleep_until_told();
    acp_sync();
    utofu_dereg_mem(vcq, own, 0);
    utofu_free_vcq(vcq);
    if (acp_finalize() != 0)
        exit(1);
    free(area);
    return 0;
}
