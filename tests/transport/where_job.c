/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the processes are, without jtofu: from utofu_query_job() and utofu_query_rank_node(): their
 * nodes, the coordinates of these, and the logical grid: that of UTOFU_SHAPE where it has as many
 * places as the job has nodes, else a row.
 */
#include <string.h>
#include <utofu_ext.h>

#include "transport.h"

static struct place {
    uint32_t node;
    uint8_t coords[6];
} places[MAX_RANKS];
static int rank, size, most, nodes;
static uint32_t extents[3];

int where_rank(void)
{
    return rank;
}

int where_size(void)
{
    return size;
}

int where_most(void)
{
    return most;
}

/* A node without processes has no place in the grid: how many nodes come before this one. */
static uint32_t count_nodes_before(uint32_t node)
{
    uint32_t before = 0;

    for (int r = 0; r < size; r++) {
        int first = 0;
        while (places[first].node != places[r].node)
            first++;
        before += first == r && places[r].node < node;
    }
    return before;
}

static void read_shape(void)
{
    const char *text = getenv("UTOFU_SHAPE");
    unsigned int x = 0, y = 1, z = 1;

    if (text && sscanf(text, "%ux%ux%u", &x, &y, &z) >= 1 && x * y * z == (unsigned int)nodes) {
        extents[0] = x;
        extents[1] = y;
        extents[2] = z;
    } else {
        extents[0] = (uint32_t)nodes;
        extents[1] = extents[2] = 1;
    }
}

void where_open(void)
{
    struct utofu_job job;

    OK(utofu_query_job(&job));
    rank = (int)job.rank;
    size = (int)job.size;
    most = (int)job.max_local_size;
    if (size > MAX_RANKS)
        FAIL("%d processes; %d is the most", size, MAX_RANKS);
    for (int r = 0; r < size; r++)
        OK(utofu_query_rank_node((uint32_t)r, &places[r].node, places[r].coords));
    nodes = (int)count_nodes_before(UINT32_MAX);
    read_shape();
}

void where_close(void)
{
}

void where_coords(int of, uint8_t coords[6])
{
    memcpy(coords, places[of].coords, 6);
}

void where_logical(int of, uint32_t xyz[3])
{
    uint32_t node = count_nodes_before(places[of].node);

    for (int i = 0; i < 3; i++) {
        xyz[i] = node % extents[i];
        node /= extents[i];
    }
}

bool where_path(int to, uint8_t path[3])
{
    (void)to;
    (void)path;
    return false;
}

int where_ranks_at_coords(uint8_t coords[6], int ranks[])
{
    int n = 0;

    for (int r = 0; r < size && n < most; r++)
        if (memcmp(places[r].coords, coords, 6) == 0)
            ranks[n++] = r;
    return n;
}

int where_ranks_at_logical(const uint32_t xyz[3], int ranks[])
{
    uint32_t at[3];
    int n = 0;

    for (int r = 0; r < size && n < most; r++) {
        where_logical(r, at);
        if (memcmp(at, xyz, sizeof(at)) == 0)
            ranks[n++] = r;
    }
    return n;
}
