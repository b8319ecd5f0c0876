/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the processes are, from jtofu, which has the map of the job that the launcher has started:
 * as an MPI library asks on Fugaku. UT_TRANSPORT_MAP=default: without jtofu_initialize(), as a
 * stack that relies on the map that Fugaku's MPI has taken.
 */
#include <string.h>
#include <jtofu.h>
#include <utofu_ext.h>

#include "transport.h"

enum { JOB = 1234 };

static jtofu_rank_t rank;
static unsigned int size;
static bool has_map;

#define JT(call)                                                                                   \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != JTOFU_SUCCESS)                                                                  \
            FAIL("%s returned %d", #call, rc_);                                                    \
    } while (0)

int where_rank(void)
{
    return (int)rank;
}

int where_size(void)
{
    return (int)size;
}

int where_most(void)
{
    return jtofu_query_max_proc_per_node();
}

void where_open(void)
{
    struct utofu_job job;
    void *map;
    size_t length;

    OK(utofu_query_job(&job));
    rank = job.rank;
    size = job.size;
    if (getenv("UT_TRANSPORT_MAP")) {
        if (size > MAX_RANKS || strcmp(getenv("UT_TRANSPORT_MAP"), "default") != 0)
            FAIL("UT_TRANSPORT_MAP=default, at most %d processes", MAX_RANKS);
        return;
    }
    has_map = true;
    JT(jtofu_create_mapinfo_by_envvars(&map, &length, &size));
    if (size != job.size || size > MAX_RANKS)
        FAIL("a map of %u processes; the job has %u, %d are the most", size, job.size, MAX_RANKS);
    JT(jtofu_initialize(JOB, rank, map));
    free(map);
}

void where_close(void)
{
    if (has_map)
        JT(jtofu_finalize());
}

void where_coords(int of, uint8_t coords[6])
{
    union jtofu_phys_coords phys;

    JT(jtofu_query_phys_coords(JOB, (jtofu_rank_t)of, &phys));
    memcpy(coords, phys.a, sizeof(phys.a));
}

void where_logical(int of, uint32_t xyz[3])
{
    union jtofu_log_coords log;

    JT(jtofu_query_log_coords(JOB, (jtofu_rank_t)of, &log));
    memcpy(xyz, log.a, sizeof(log.a));
}

static int copy_ranks(const jtofu_rank_t *from, size_t n, int to[])
{
    for (size_t i = 0; i < n; i++)
        to[i] = (int)from[i];
    return (int)n;
}

int where_ranks_at_coords(uint8_t coords[6], int ranks[])
{
    union jtofu_phys_coords phys;
    jtofu_rank_t found[MAX_RANKS];
    size_t n;

    memcpy(phys.a, coords, sizeof(phys.a));
    JT(jtofu_query_ranks_from_phys_coords(JOB, &phys, (size_t)where_most(), found, &n));
    return copy_ranks(found, n, ranks);
}

int where_ranks_at_logical(const uint32_t xyz[3], int ranks[])
{
    union jtofu_log_coords log;
    jtofu_rank_t found[MAX_RANKS];
    size_t n;

    memcpy(log.a, xyz, sizeof(log.a));
    JT(jtofu_query_ranks_from_log_coords(JOB, &log, (size_t)where_most(), found, &n));
    return copy_ranks(found, n, ranks);
}

bool where_path(int to, uint8_t path[3])
{
    union jtofu_phys_coords phys;
    union jtofu_path_coords best;
    size_t n;

    where_coords(to, phys.a);
    JT(jtofu_query_onesided_paths(&phys, 1, &best, &n));
    memcpy(path, best.a, sizeof(best.a));
    return n == 1;
}
