/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loops [ROUNDS]
 *
 * What programs do that use little of what they register, between two processes of a host; medians:
 *
 *   register    512 MiB that nobody uses
 *   once        register 1 MiB, put it once, deregister it; and the put alone
 *   mixed       register 64 bytes, add to a word of the other process's heap, put 64 bytes, wait
 * for both; both processes do so
 *
 * Compiled with -DWITH_MPI, for comparison: MPI_Fetch_and_op and MPI_Put, each with a flush. To see
 * what strangers cost: stress-ng --cpu 8 beside both.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 100000, WORDS = 64 };

static double samples[MOST];
static int rounds = 2000;

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare_samples(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_samples(int rank, const char *what, int num)
{
    double sum = 0;

    qsort(samples, (size_t)num, sizeof(samples[0]), compare_samples);
    for (int i = 0; i < num; i++)
        sum += samples[i];
    if (rank == 0)
        printf("%-24s median %10.2f us, mean %10.2f, longest %10.2f\n", what, samples[num / 2],
               sum / num, samples[num - 1]);
}

static void read_rounds(int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (argc > 2 || rounds < 1 || rounds > MOST) {
        fprintf(stderr, "loops: wanted: [ROUNDS], from 1 to %d\n", (int)MOST);
        exit(2);
    }
}

#ifdef WITH_MPI
#    include <mpi.h>

int main(int argc, char **argv)
{
    uint64_t *words = calloc(WORDS, sizeof(*words)), mine[8] = {0}, one = 1, old;
    int rank, size;
    MPI_Win win;

    read_rounds(argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!words || size != 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Win_create(words, WORDS * sizeof(*words), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < rounds; i++) {
        double begin = now_us();
        MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, !rank, 0, MPI_SUM, win);
        MPI_Win_flush(!rank, win);
        MPI_Put(mine, sizeof(mine), MPI_BYTE, !rank, 64, sizeof(mine), MPI_BYTE, win);
        MPI_Win_flush(!rank, win);
        samples[i] = now_us() - begin;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    print_samples(rank, "mixed, MPI", rounds);
    MPI_Win_free(&win);
    MPI_Finalize();
    free(words);
    return 0;
}
#else
#    include <sys/mman.h>

#    include "party.h"

enum { LARGE = 512 << 20, ONCE = 1 << 20, TIMES = 20 };

struct address {
    utofu_vcq_id_t id;
    utofu_stadd_t words, once;
};

static utofu_vcq_hdl_t vcq;
static struct address addresses[2];

static void *map_pages(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        party_fail(1, "no memory");
    return memset(p, 1, size);
}

static utofu_stadd_t register_memory(void *at, size_t size)
{
    utofu_stadd_t stadd;

    party_check(utofu_reg_mem(vcq, at, size, 0, &stadd), "utofu_reg_mem");
    return stadd;
}

static void deregister_memory(utofu_stadd_t stadd)
{
    party_check(utofu_dereg_mem(vcq, stadd, 0), "utofu_dereg_mem");
}

static void await_tcq(void)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        ;
    party_check(rc, "utofu_poll_tcq");
}

static void await_mrq(void)
{
    struct utofu_mrq_notice notice;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        ;
    party_check(rc, "utofu_poll_mrq");
}

static void put_bytes(utofu_stadd_t from, utofu_stadd_t to, size_t size)
{
    party_check(utofu_put(vcq, addresses[!party.rank].id, from, to, size, 0,
                          UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL),
                "utofu_put");
    await_tcq();
}

static void measure_register(void)
{
    void *large = map_pages(LARGE);

    for (int i = 0; i < TIMES; i++) {
        double begin = now_us();
        utofu_stadd_t stadd = register_memory(large, LARGE);
        samples[i] = now_us() - begin;
        deregister_memory(stadd);
    }
    print_samples((int)party.rank, "register 512 MiB", TIMES);
    munmap(large, LARGE);
}

/* Only rank 0 puts; rank 1 waits in the barrier of its tool, which polls. */
static void measure_once(void)
{
    uint8_t *buffer = map_pages(ONCE);
    utofu_stadd_t stadd;
    int num = rounds < 1000 ? rounds : 1000;

    for (int i = 0; party.rank == 0 && i < num; i++) {
        double begin = now_us();
        stadd = register_memory(buffer, ONCE);
        put_bytes(stadd, addresses[1].once, ONCE);
        deregister_memory(stadd);
        samples[i] = now_us() - begin;
    }
    party_barrier();
    print_samples((int)party.rank, "register, put 1 MiB once", num);
    stadd = register_memory(buffer, ONCE);
    for (int i = 0; party.rank == 0 && i < num; i++) {
        double begin = now_us();
        put_bytes(stadd, addresses[1].once, ONCE);
        samples[i] = now_us() - begin;
    }
    party_barrier();
    print_samples((int)party.rank, "put 1 MiB", num);
    deregister_memory(stadd);
}

static void measure_mixed(void)
{
    uint64_t mine[8] = {0};

    for (int i = 0; i < rounds; i++) {
        double begin = now_us();
        utofu_stadd_t stadd = register_memory(mine, sizeof(mine));
        party_check(utofu_armw8(vcq, addresses[!party.rank].id, UTOFU_ARMW_OP_ADD, 1,
                                addresses[!party.rank].words, 0,
                                UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                    "utofu_armw8");
        put_bytes(stadd, addresses[!party.rank].words + 64, sizeof(mine));
        await_mrq();
        deregister_memory(stadd);
        samples[i] = now_us() - begin;
    }
    party_barrier();
    print_samples((int)party.rank, "mixed", rounds);
}

int main(int argc, char **argv)
{
    uint64_t *words = calloc(WORDS, sizeof(*words));
    uint8_t *once = map_pages(ONCE);
    struct address own;

    party_set_name("loops");
    read_rounds(argc, argv);
    party_open("loops", 2, 60);
    if (!words || party.size != 2)
        party_fail(2, "two processes, please");
    party_check(utofu_create_vcq(0, 0, &vcq), "utofu_create_vcq");
    party_check(utofu_query_vcq_id(vcq, &own.id), "utofu_query_vcq_id");
    own.words = register_memory(words, WORDS * sizeof(*words));
    own.once = register_memory(once, ONCE);
    party_gather(&own, sizeof(own), addresses, false);
    measure_register();
    party_barrier();
    measure_once();
    party_barrier();
    measure_mixed();
    party_barrier();
    deregister_memory(own.words);
    deregister_memory(own.once);
    free(words);
    party_check(utofu_free_vcq(vcq), "utofu_free_vcq");
    party_close();
    return 0;
}
#endif
