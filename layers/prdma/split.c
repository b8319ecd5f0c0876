/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that begin or end within a page. Processes of one node can map each other's memory only in
 * whole pages; the kernel copies data in other pages, which costs a system call. So such a block is
 * split into up to three puts: whole pages to their destination, and the bytes before and after
 * them to the staging memory of the receiver, which copies them. The position of the block at the
 * sender does not matter, because the sender reads it itself.
 */
#include "split.h"
#include "blocks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
