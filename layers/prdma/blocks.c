/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of descriptors that wait in session-mode VCQs. A group with one target (FAST) has only the
 * puts in its block, and the RTR of the target frees all of them. In a block for several targets
 * (MRC) no put may leave before all targets are ready:
 *
 *     [NOP, one less than targets] [SELF] [puts...]
 *
 * Each RTR has an SPS of 1, so the last RTR to arrive reaches SELF, a put of the VCQ to itself,
 * whose SPS frees the puts. It frees 15 at most: further SELF puts free the others.
 */
#include "blocks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned int pr_put_descs(size_t bytes)
{
    size_t descs = (bytes + pr_engine.max_put - 1) / pr_engine.max_put;

    return descs > PR_MAX_BLOCK_DESCS ? PR_MAX_BLOCK_DESCS + 1 : (unsigned int)descs;
}

static unsigned int num_self_puts(unsigned int descs)
{
    unsigned int count = 1;

    for (; descs > PR_SPS_MAX; descs -= PR_SPS_MAX - 1)
        count++;
    return count;
}

/* Number of descriptors in the block of a group. */
unsigned int pr_group_descs(const struct pr_group *group)
{
    if (group->num_targets == 1)
        return group->num_descs;
    return group->num_targets - 1 + num_self_puts(group->num_descs) + group->num_descs;
}

unsigned int pr_target_sps(const struct pr_xfer *x, const struct pr_target *target)
{
    return x->groups[target->group].num_targets == 1 ? target->descs : 1;
}

/* Iterates over the puts of a group in pieces. */
struct pieces {
    const struct pr_xfer *x;
    unsigned int group, target, put;
    size_t done; /* of the current put, already prepared */
};

static bool prepare_put(struct pr_group *g, utofu_vcq_id_t to, utofu_stadd_t from, utofu_stadd_t at,
                        size_t bytes, unsigned long int flags)
{
    size_t size;

    if (utofu_prepare_put(g->vcq.hdl, to, from, at, bytes, 0, flags,
                          (char *)g->block + g->block_size, &size) != UTOFU_SUCCESS)
        return false;
    g->block_size += size;
    return true;
}

static bool prepare_piece(struct pieces *p, unsigned long int flags)
{
    const struct pr_xfer *x = p->x;

    while (x->targets[p->target].group != p->group)
        p->target++;
    const struct pr_target *t = &x->targets[p->target];
    const struct pr_put *put = &t->puts[p->put];
    size_t rest = put->bytes - p->done;
    size_t bytes = rest < pr_engine.max_put ? rest : pr_engine.max_put;

    if (bytes == rest && put->last) /* the notice of the last put arrives after the whole block */
        flags |= UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER;
    if (!prepare_put(&x->groups[p->group], t->rx, put->lcl + p->done, put->rmt + p->done, bytes,
                     flags))
        return false;
    p->done += bytes;
    if (p->done == put->bytes) {
        p->done = 0;
        if (++p->put == t->num_puts) {
            p->put = 0;
            p->target++;
        }
    }
    return true;
}

static bool prepare_pieces(struct pieces *p, unsigned int count, bool last)
{
    for (unsigned int i = 0; i < count; i++)
        if (!prepare_piece(p, last && i == count - 1 ? UTOFU_ONESIDED_FLAG_TCQ_NOTICE : 0))
            return false;
    return true;
}

static bool prepare_self(struct pr_group *g, unsigned int sps)
{
    return prepare_put(g, g->vcq.id, g->vcq.scratch, g->vcq.scratch, 8,
                       UTOFU_ONESIDED_FLAG_SPS(sps));
}

static bool prepare_nops(struct pr_group *g, unsigned int count)
{
    size_t size;

    for (unsigned int i = 0; i < count; i++) {
        if (utofu_prepare_nop(g->vcq.hdl, 0, (char *)g->block + g->block_size, &size) !=
            UTOFU_SUCCESS)
            return false;
        g->block_size += size;
    }
    return true;
}

static bool prepare_group(struct pr_xfer *x, unsigned int group)
{
    struct pr_group *g = &x->groups[group];
    struct pieces pieces = {.x = x, .group = group};
    unsigned int rest = g->num_descs;

    g->block = malloc(pr_group_descs(g) * pr_engine.desc_size);
    if (g->block == NULL)
        return false;
    if (g->num_targets == 1)
        return prepare_pieces(&pieces, rest, true);
    if (!prepare_nops(g, g->num_targets - 1))
        return false;
    /* each SELF except the last frees the next SELF first, so the next SELF does not wait for the
     * puts */
    unsigned int between = 0;
    while (rest > PR_SPS_MAX) {
        if (!prepare_self(g, PR_SPS_MAX) || !prepare_pieces(&pieces, between, false))
            return false;
        between = PR_SPS_MAX - 1;
        rest -= between;
    }
    return prepare_self(g, rest) && prepare_pieces(&pieces, between, false) &&
           prepare_pieces(&pieces, rest, true);
}

bool pr_xfer_prepare(struct pr_xfer *x)
{
    for (unsigned int i = 0; i < x->num_groups; i++)
        if (!prepare_group(x, i))
            return false;
    return true;
}

/*
 * Blocks that begin or end within a page
 */

static size_t page_size(void)
{
    static size_t page;

    if (page == 0)
        page = (size_t)sysconf(_SC_PAGESIZE);
    return page;
}

bool pr_edge_is_page_aligned(const struct pr_edge *edge)
{
    return edge->contiguous && ((uintptr_t)edge->data & (page_size() - 1)) == 0;
}

/*
 * Splits a block that comes from a process of this node, and adds its ends to `size`, the size of
 * the staging memory. A short block without whole pages is staged completely.
 */
void pr_split_edge(struct pr_edge *edge, size_t *size)
{
    size_t page = page_size(), head = -(uintptr_t)edge->data & (page - 1);
    size_t tail = ((uintptr_t)edge->data + edge->bytes) & (page - 1);

    if (head + tail == 0)
        return;
    if (edge->bytes < head + tail + page) {
        edge->staged = edge->bytes <= PR_MAX_STAGED;
        return;
    }
    edge->head = head;
    edge->tail = tail;
    /* cache-line boundaries are those of the block; its ends are adjacent in the staging memory */
    edge->stage = (*size + page - 1) / page * page + page - head;
    *size = edge->stage + head + tail;
}

/* Copies the ends of a block from the staging memory. */
void pr_split_copy_ends(const struct pr_edge *edge, const char *stage)
{
    const char *from = stage + edge->stage;

    memcpy(edge->data, from, edge->head);
    memcpy(edge->data + edge->bytes - edge->tail, from + edge->head, edge->tail);
}

static void add_put(struct pr_target *t, utofu_stadd_t lcl, utofu_stadd_t rmt, size_t bytes)
{
    if (bytes == 0)
        return;
    t->puts[t->num_puts++] = (struct pr_put){.bytes = bytes, .lcl = lcl, .rmt = rmt};
    t->descs += pr_put_descs(bytes);
}

/* Do the ends that a receiver wants to stage lie within each block? */
bool pr_split_ends_fit(const struct pr_target *t, const struct pr_place *places)
{
    for (unsigned int i = 0; i < t->num_puts; i++)
        if (places[i].head > t->puts[i].bytes || places[i].tail > t->puts[i].bytes - places[i].head)
            return false;
    return true;
}

/* Creates the puts of a target, to the addresses that the target has sent. */
bool pr_split_make_puts(struct pr_target *t, const struct pr_place *places)
{
    struct pr_put *blocks = t->puts;
    unsigned int num_blocks = t->num_puts;

    t->puts = calloc((size_t)num_blocks * 3, sizeof(*t->puts));
    if (t->puts == NULL) {
        t->puts = blocks;
        return false;
    }
    t->num_puts = t->descs = 0;
    for (unsigned int i = 0; i < num_blocks; i++) {
        const struct pr_put *b = &blocks[i];
        const struct pr_place *p = &places[i];
        size_t whole = b->bytes - p->head - p->tail;

        add_put(t, b->lcl, p->ends, p->head);
        add_put(t, b->lcl + p->head, p->whole, whole);
        add_put(t, b->lcl + p->head + whole, p->ends + p->head, p->tail);
        t->puts[t->num_puts - 1].last = true;
    }
    free(blocks);
    return true;
}
