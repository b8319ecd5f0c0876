/* SPDX-License-Identifier: Apache-2.0 */
/*
 * footprint LIMIT [LIMIT_OVER_VERBS]
 *
 * The heap memory of an idle connection in the processes at its ends: at most LIMIT bytes for each
 * end; LIMIT_OVER_VERBS if UTOFU_PROVIDER is verbs. One VCQ of rank 0 communicates with all VCQs of
 * rank 1, in both directions. Linked with --wrap of the allocating functions, which count the
 * memory in use, including the allocator's overhead.
 */
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "two_processes.h"
#include "utofu.h"

enum { STAG = 1, SIZE = 4096, VCQS = 40, TNIS = 6, WORD = 8, HEAD = 16 };
enum { ARMW_AT = 8, DATA_AT = 64, BARRIERS = 64 };

static struct world {
    uint32_t here[BARRIERS];
    utofu_vcq_id_t ids[2][VCQS];
} * world;

static int barriers;
static long in_use, limit;

/* Other threads allocate too. */
static void count(void *memory, long sign)
{
    if (memory)
        __atomic_add_fetch(&in_use, sign * (long)(malloc_usable_size(memory) + HEAD),
                           __ATOMIC_RELAXED);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    void *memory = __real_malloc(size);

    count(memory, 1);
    return memory;
}

void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each)
{
    void *memory = __real_calloc(n, each);

    count(memory, 1);
    return memory;
}

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size)
{
    count(memory, -1);
    memory = __real_realloc(memory, size);
    CHECK(memory);
    count(memory, 1);
    return memory;
}

int __real_posix_memalign(void **memory, size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
    int rc = __real_posix_memalign(memory, alignment, size);

    if (rc == 0)
        count(*memory, 1);
    return rc;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    count(memory, -1);
    __real_free(memory);
}

static utofu_vcq_hdl_t vcqs[VCQS];
static utofu_stadd_t lcl[VCQS];
static int num_vcqs;

/* Waits for the other process, too; all VCQs make progress. */
static void barrier(void)
{
    uint32_t *here = &world->here[barriers++];
    size_t n;

    CHECK(barriers <= BARRIERS);
    __atomic_add_fetch(here, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(here, __ATOMIC_SEQ_CST) < 2) {
        for (int i = 0; i < num_vcqs; i++)
            utofu_query_num_unread_mrq(vcqs[i], &n);
        sched_yield();
    }
}

static void await(utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        sched_yield();
    CHECK(rc == UTOFU_SUCCESS);
}

/* One communication of each kind, and a second put with a notice, whose STADD is announced. */
static void meet(int from, utofu_vcq_id_t peer)
{
    unsigned long flags = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    utofu_vcq_hdl_t vcq = vcqs[from];
    utofu_stadd_t rmt;

    CHECK(utofu_query_stadd(peer, STAG, &rmt) == UTOFU_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(utofu_put(vcq, peer, lcl[from] + DATA_AT, rmt + DATA_AT, WORD, 0,
                        flags | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL) == UTOFU_SUCCESS);
        await(vcq);
    }
    CHECK(utofu_get(vcq, peer, lcl[from] + DATA_AT, rmt + DATA_AT, WORD, 0, flags, NULL) ==
          UTOFU_SUCCESS);
    await(vcq);
    CHECK(utofu_armw8(vcq, peer, UTOFU_ARMW_OP_ADD, 1, rmt + ARMW_AT, 0, flags, NULL) ==
          UTOFU_SUCCESS);
    await(vcq);
}

/* With one of the other process's VCQs, or with all others. */
static void meet_some(int first, int end)
{
    for (int asker = 0; asker < 2; asker++) {
        if (rank == asker) {
            for (int i = first; i < end; i++)
                meet(rank == 0 ? 0 : i, world->ids[!rank][rank == 0 ? i : 0]);
        }
        barrier();
        for (int i = first; rank != asker && i < end; i++)
            for (int n = 0; n < 2; n++)
                await(vcqs[rank == 0 ? 0 : i]);
        barrier();
    }
}

static void open_vcqs(void)
{
    static uint8_t memory[SIZE] __attribute__((aligned(SIZE)));

    for (int i = 0; i < (rank == 0 ? 1 : VCQS); i++) {
        CHECK(utofu_create_vcq_with_cmp_id((utofu_tni_id_t)(i % TNIS), (utofu_cmp_id_t)(i / TNIS),
                                           0, &vcqs[i]) == UTOFU_SUCCESS);
        CHECK(utofu_reg_mem_with_stag(vcqs[i], memory, SIZE, STAG, 0, &lcl[i]) == UTOFU_SUCCESS);
        CHECK(utofu_query_vcq_id(vcqs[i], &world->ids[rank][i]) == UTOFU_SUCCESS);
        num_vcqs++;
    }
    barrier();
}

static void body(void)
{
    open_vcqs();
    meet_some(0, 1); /* the memory for the first connection is not counted */
    long before = __atomic_load_n(&in_use, __ATOMIC_RELAXED);
    meet_some(1, VCQS);
    long end = (__atomic_load_n(&in_use, __ATOMIC_RELAXED) - before) / (VCQS - 1);
    printf("rank %d: %ld bytes for each end of a connection\n", rank, end);
    CHECK(end > 0 && end <= limit);
    for (int i = 0; i < num_vcqs; i++)
        CHECK(utofu_free_vcq(vcqs[i]) == UTOFU_SUCCESS);
}

int main(int argc, char **argv)
{
    const char *provider = getenv("UTOFU_PROVIDER");
    int which = argc == 3 && provider && strcmp(provider, "verbs") == 0 ? 2 : 1;

    limit = argc == 2 || argc == 3 ? strtol(argv[which], NULL, 10) : 0;
    if (limit <= 0) {
        fprintf(stderr, "usage: footprint LIMIT [LIMIT_OVER_VERBS]\n");
        return 2;
    }
    world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(world != MAP_FAILED);
    return run_two("footprint", body);
}
