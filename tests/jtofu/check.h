/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the programs of the suite jtofu: which process is where, and what the map of the job
 * has to say of it. Every process runs the same program, and ends with status 1 at the first error.
 */
#ifndef JTOFU_CHECK_H
#define JTOFU_CHECK_H

#include <jtofu.h>
#include <utofu.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/limit.h"

enum { MOST_RANKS = 256, SMALL_GROUP = 12 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %u: %s:%d: %s\n", me, __FILE__, __LINE__, #condition);           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static uint32_t me, num_ranks, num_nodes, most, node_of[MOST_RANKS], num_on[MOST_RANKS];

/* "4:0,2:1": four ranks on node 0, then two on node 1. */
static inline void read_layout(const char *text)
{
    while (*text) {
        char *end;
        uint32_t count = (uint32_t)strtoul(text, &end, 10), node = 0;

        CHECK(*end == ':' && num_ranks + count <= MOST_RANKS);
        node = (uint32_t)strtoul(end + 1, &end, 10);
        CHECK(node < MOST_RANKS);
        for (uint32_t i = 0; i < count; i++)
            node_of[num_ranks++] = node;
        num_on[node] += count;
        most = num_on[node] > most ? num_on[node] : most;
        num_nodes = node >= num_nodes ? node + 1 : num_nodes;
        text = *end ? end + 1 : end;
    }
}

/* As Fugaku's users know them: groups of 2 x 3 x 2 nodes, A first. */
static inline void check_phys(uint32_t rank, jtofu_job_id_t job)
{
    union jtofu_phys_coords at;
    uint32_t n = node_of[rank];
    jtofu_rank_t ranks[MOST_RANKS];
    size_t num, i = 0;

    CHECK(jtofu_query_phys_coords(job, rank, &at) == JTOFU_SUCCESS);
    CHECK(at.s.x == n / SMALL_GROUP && at.s.y == 0 && at.s.z == 0);
    CHECK(at.s.a == n % 2 && at.s.b == n / 2 % 3 && at.s.c == n / 6 % 2);
    CHECK(jtofu_query_ranks_from_phys_coords(job, &at, most, ranks, &num) == JTOFU_SUCCESS);
    CHECK(num == num_on[n]);
    for (uint32_t r = 0; r < num_ranks; r++)
        if (node_of[r] == n)
            CHECK(ranks[i++] == r);
}

static inline void check_log(uint32_t rank, jtofu_job_id_t job, const uint32_t shape[3])
{
    union jtofu_log_coords at;
    uint32_t n = node_of[rank];
    jtofu_rank_t first;
    size_t num;

    CHECK(jtofu_query_log_coords(job, rank, &at) == JTOFU_SUCCESS);
    CHECK(at.s.x == n % shape[0] && at.s.y == n / shape[0] % shape[1]);
    CHECK(at.s.z == n / shape[0] / shape[1]);
    CHECK(jtofu_query_ranks_from_log_coords(job, &at, 1, &first, &num) == JTOFU_SUCCESS);
    CHECK(num == 1 && node_of[first] == n);
}

/* What the map says of every process, and this process itself of itself. */
static inline void check_map(jtofu_job_id_t job, const uint32_t shape[3])
{
    union jtofu_phys_coords at;
    union jtofu_log_coords extents;
    uint8_t own[6];

    CHECK(jtofu_query_max_proc_per_node() == (int)most);
    CHECK(jtofu_query_log_size(&extents) == JTOFU_SUCCESS);
    CHECK(memcmp(extents.a, shape, sizeof(extents.a)) == 0);
    for (uint32_t rank = 0; rank < num_ranks; rank++) {
        check_phys(rank, job);
        check_log(rank, job, shape);
    }
    CHECK(utofu_query_my_coords(own) == UTOFU_SUCCESS);
    CHECK(jtofu_query_phys_coords(job, me, &at) == JTOFU_SUCCESS);
    CHECK(memcmp(own, at.a, sizeof(own)) == 0);
}

#endif
