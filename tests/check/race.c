/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race [right]: the processes of a job on one node put a word to the memory of rank 0, ROUNDS
 * times, all to the same word, and wait for one another after each put; "right": each has its own
 * word. Works under any launcher: the processes only use the library to synchronize. Prints the
 * line number of the call to standard output.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "utofu.h"
#include "../harness/limit.h"

enum {
    ROUNDS = 16,
    STAG = 1,
    RETRY_US = 1000,
    MOST_RETRIES = 20000,
    COUNTER = 0,
    GONE,
    WORDS = 64
};

static uint64_t mem[2 * WORDS] __attribute__((aligned(256))); /* aligned for a reserved STag */
static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t first;
static utofu_stadd_t stadd;

static int env_number(const char *const names[])
{
    for (; *names; names++)
        if (getenv(*names))
            return atoi(getenv(*names));
    return -1;
}

static int await(struct utofu_mrq_notice *notice)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, notice)) == UTOFU_ERR_NOT_FOUND)
        utofu_poll_tcq(vcq, 0, &cbdata); /* makes room in the TOQ; there are no entries */
    return rc;
}

/* Adds to the counter of rank 0, which may not be registered yet; returns its old value. */
static int add(uint64_t n, uint64_t *before)
{
    struct utofu_mrq_notice notice;
    int rc = 1;

    for (int i = 0; rc != 0 && i < MOST_RETRIES; i++) {
        rc = utofu_armw8(vcq, first, UTOFU_ARMW_OP_ADD, n, stadd + COUNTER, 0,
                         UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
        rc = rc ? rc : await(&notice);
        if (rc != 0)
            usleep(RETRY_US);
    }
    *before = rc ? 0 : notice.rmt_value;
    return rc;
}

static int meet(uint64_t all)
{
    uint64_t now;
    int rc = add(1, &now);

    for (now++; rc == 0 && now < all;)
        rc = add(0, &now);
    return rc;
}

/* Rank 0, which has the counter, ends when no other process needs it. */
static int part(int rank, int size)
{
    struct utofu_mrq_notice notice;
    uint64_t *gone = &mem[GONE];
    int rc;

    if (rank == 0) {
        while (__atomic_load_n(gone, __ATOMIC_ACQUIRE) < (uint64_t)size - 1)
            if ((rc = utofu_poll_mrq(vcq, 0, &notice)) != UTOFU_ERR_NOT_FOUND)
                return rc;
        return 0;
    }
    rc = utofu_armw8(vcq, first, UTOFU_ARMW_OP_ADD, 1, stadd + GONE * sizeof(mem[0]), 0,
                     UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
    if (rc == 0)
        await(&notice); /* an error if rank 0 has already ended */
    return rc;
}

int main(int argc, char **argv)
{
    static const char *const ranks[] = {"UTOFU_RANK", "PMIX_RANK", "PMI_RANK", NULL};
    static const char *const sizes[] = {"UTOFU_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
    int right = argc > 1 && strcmp(argv[1], "right") == 0;
    int rank = env_number(ranks), size = env_number(sizes), line = 0, rc = 0;
    struct utofu_mrq_notice notice;
    utofu_vcq_id_t id;
    uint8_t coords[6];

    if (rank < 0 || size < 2 || utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq) ||
        utofu_query_vcq_id(vcq, &id) ||
        utofu_reg_mem_with_stag(vcq, mem, sizeof(mem), STAG, 0, &stadd) ||
        utofu_query_my_coords(coords) || utofu_construct_vcq_id(coords, 0, 0, 0, &first) ||
        utofu_query_stadd(first, STAG, &stadd))
        return 1;
    size_t to = (WORDS + (size_t)(right ? rank : 0)) * sizeof(mem[0]);
    rc = meet((uint64_t)size);
    for (uint64_t i = 1; i <= ROUNDS && rc == 0; i++) {
        uint64_t value = i << 8 | (uint64_t)rank;
        line = __LINE__ + 1;
        rc = utofu_put_piggyback8(vcq, first, value, stadd + to, 8, 0,
                                  UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
        rc = rc ? rc : await(&notice);
        rc = rc ? rc : meet((i + 1) * (uint64_t)size);
    }
    rc = rc ? rc : part(rank, size);
    printf("line %d\n", line);
    return rc || fflush(stdout);
}
