/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of a request with method eager: which processes share a lane, where its blocks are, and
 * the exchange of addresses. rounds.c has the rounds. */
#include "lanes.h"
#include "engine.h"
#include "blocks.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_LANE = 4, MOST = 1 << 20, WORD = 8 };

/*
 * Limits of method auto: the most bytes to one process that are copied. Whole pages without a copy
 * need an RTR, which costs as much as copying EAGER_WHOLE bytes; blocks that begin within a page
 * are partly copied in any case.
 */
enum { EAGER_WHOLE = 8192, EAGER = 16000 };

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static size_t bytes_to(const struct pr_target *t)
{
    size_t bytes = 0;

    for (unsigned int i = 0; i < t->num_puts && bytes <= MOST; i++)
        bytes += round_up(t->puts[i].bytes <= MOST ? t->puts[i].bytes : MOST + 1, WORD);
    return bytes;
}

static size_t max_eager_bytes(const struct pr_request *r)
{
    if (r->requested_method != PR_AUTO)
        return r->requested_method == PR_EAGER ? MOST : 0;
    if (pr_settings.eager >= 0)
        return (size_t)pr_settings.eager;
    for (int i = 0; i < r->num_in; i++)
        if (pr_edge_has_data(&r->in[i]) && !pr_edge_is_page_aligned(&r->in[i]))
            return EAGER;
    return EAGER_WHOLE;
}

/* Can this process use lanes for its blocks? Method eager permits longer blocks than auto. */
bool pr_lanes_usable(const struct pr_request *r)
{
    size_t most = max_eager_bytes(r);

    if (r->fallback_reason != NULL || most == 0 || !pr_engine.open)
        return false;
    for (unsigned int i = 0; i < r->xfer.num_targets; i++)
        if (bytes_to(&r->xfer.targets[i]) > most)
            return false;
    return true;
}

static struct pr_lane *find_or_add_lane(struct pr_xfer *x, int rank)
{
    unsigned int i = 0;

    while (i < x->num_lanes && x->lanes[i].rank != rank)
        i++;
    if (i == x->num_lanes)
        x->lanes[x->num_lanes++].rank = rank;
    return &x->lanes[i];
}

static void add_lanes(struct pr_request *r)
{
    struct pr_xfer *x = &r->xfer;

    for (unsigned int i = 0; i < x->num_targets; i++) {
        struct pr_lane *lane = find_or_add_lane(x, x->targets[i].rank);

        lane->out_bytes = bytes_to(&x->targets[i]);
    }
    for (unsigned int i = 0; i < x->num_sources; i++) {
        const struct pr_source *s = &x->sources[i];
        struct pr_lane *lane = find_or_add_lane(x, s->rank);

        for (unsigned int k = 0; k < s->num_edges; k++)
            lane->in_bytes += round_up(r->in[s->edges[k]].bytes, WORD);
    }
}

/* Assigns the positions of the blocks in the lanes, in the order of the sender's edges at both
 * ends. */
static void place_blocks(struct pr_request *r)
{
    struct pr_xfer *x = &r->xfer;

    for (unsigned int i = 0; i < x->num_targets; i++) {
        const struct pr_target *t = &x->targets[i];
        size_t at = (size_t)(find_or_add_lane(x, t->rank)->out - r->stage);

        for (unsigned int k = 0; k < t->num_puts; k++) {
            struct pr_edge *edge = &r->out[t->puts[k].edge];

            edge->staged = true;
            edge->stage = at;
            at += round_up(edge->bytes, WORD);
        }
    }
    for (unsigned int i = 0; i < x->num_sources; i++) {
        const struct pr_source *s = &x->sources[i];
        size_t at = (size_t)(find_or_add_lane(x, s->rank)->in - r->stage);

        for (unsigned int k = 0; k < s->num_edges; k++) {
            struct pr_edge *edge = &r->in[s->edges[k]];

            edge->staged = true;
            edge->stage = at;
            at += round_up(edge->bytes, WORD);
        }
    }
}

static size_t lane_size(size_t bytes)
{
    return round_up(bytes + PR_LANE_FLAG, PR_LANE_ALIGN);
}

/* Allocates memory for outgoing blocks, and twice for incoming ones. */
bool pr_lanes_create(struct pr_request *r)
{
    struct pr_xfer *x = &r->xfer;
    size_t size = 0, stride = 0;

    x->lanes = calloc((size_t)x->num_targets + x->num_sources + 1, sizeof(*x->lanes));
    r->stage_stadds = calloc(1, sizeof(*r->stage_stadds));
    if (x->lanes == NULL || r->stage_stadds == NULL)
        return false;
    x->round = PR_COUNT_FROM;
    add_lanes(r);
    for (unsigned int i = 0; i < x->num_lanes; i++) {
        size += lane_size(x->lanes[i].out_bytes);
        stride += lane_size(x->lanes[i].in_bytes);
    }
    x->stride = stride;
    if (!pr_stage_alloc(r, pr_stage_self(r, size + 2 * stride)))
        return false;
    if (r->stage == NULL) /* no block is sent or received */
        return true;
    char *out = r->stage, *in = r->stage + size;
    for (unsigned int i = 0; i < x->num_lanes; i++) {
        struct pr_lane *lane = &x->lanes[i];

        lane->out = out;
        lane->in = in;
        out += lane_size(lane->out_bytes);
        in += lane_size(lane->in_bytes);
    }
    place_blocks(r);
    if (utofu_reg_mem(pr_engine.free.hdl, r->stage, r->stage_size, 0, r->stage_stadds) !=
        UTOFU_SUCCESS)
        return false;
    r->num_stage_stadds = 1;
    return true;
}

/* Exchanges memory addresses with the other ends. `requests` has room for two requests a lane. */
void pr_lanes_connect(struct pr_request *r, MPI_Request *requests)
{
    struct pr_xfer *x = &r->xfer;
    utofu_stadd_t base = r->stage_stadds[0];
    int n = 0;

    for (unsigned int i = 0; i < x->num_lanes; i++) {
        struct pr_lane *lane = &x->lanes[i];

        lane->lcl = base + (utofu_stadd_t)(lane->out - r->stage);
        lane->mine = (struct pr_lane_end){.vcq = pr_engine.free.id,
                                          .scratch = pr_engine.free.scratch,
                                          .in = base + (utofu_stadd_t)(lane->in - r->stage),
                                          .stride = x->stride};
        PMPI_Irecv(&lane->theirs, (int)sizeof(lane->theirs), MPI_BYTE, lane->rank, TAG_LANE,
                   r->comm->private, &requests[n++]);
        PMPI_Isend(&lane->mine, (int)sizeof(lane->mine), MPI_BYTE, lane->rank, TAG_LANE,
                   r->comm->private, &requests[n++]);
    }
    if (PMPI_Waitall(n, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        pr_xfer_fail(
            x, UTOFU_ERR_MRQ_PEER); /* the program gets the error when it starts the request */
    for (unsigned int i = 0; i < x->num_lanes; i++) {
        const struct pr_lane *lane = &x->lanes[i];

        pr_xfer_add_peer(x, lane->rank, lane->theirs.vcq, lane->theirs.scratch);
    }
}

/*
 * Staging memory of lanes
 */

enum { PAGE = 4096 };

bool pr_edge_has_data(const struct pr_edge *edge)
{
    return edge->rank != MPI_PROC_NULL && edge->bytes > 0;
}

/* Blocks of this process to itself are packed if one of the ends is not contiguous. Returns the
 * size of the staging memory including them. */
size_t pr_stage_self(struct pr_request *r, size_t size)
{
    for (int i = 0; i < r->num_in; i++) {
        struct pr_edge *edge = &r->in[i];

        if (!pr_edge_has_data(edge) || edge->rank != r->comm->rank)
            continue;
        edge->staged = !edge->contiguous || !r->out[edge->index].contiguous;
        if (!edge->staged)
            continue;
        edge->stage = size;
        size += (edge->bytes + PR_LINE - 1) / PR_LINE * PR_LINE;
    }
    return size;
}

bool pr_stage_alloc(struct pr_request *r, size_t size)
{
    void *memory;

    if (size == 0)
        return true;
    size = (size + PAGE - 1) / PAGE * PAGE;
    if (posix_memalign(&memory, PAGE, size) != 0)
        return false;
    memset(memory, 0, size);
    r->stage = memory;
    r->stage_size = size;
    return true;
}

void pr_xfer_add_peer(struct pr_xfer *x, int rank, utofu_vcq_id_t vcq, utofu_stadd_t scratch)
{
    for (unsigned int i = 0; i < x->num_peers; i++)
        if (x->peers[i].rank == rank)
            return;
    x->peers[x->num_peers++] = (struct pr_peer){rank, vcq, scratch};
}
