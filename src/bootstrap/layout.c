/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of ranks on nodes. No function loops over ranks, because a job may have many. */
#include "bootstrap/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_spaces(const char *p)
{
    return p + strspn(p, " \t");
}

/* Reads a delimiter such as '(' with spaces around it. */
static const char *read_mark(const char *p, char mark)
{
    if (!p)
        return NULL;
    p = skip_spaces(p);
    return *p == mark ? skip_spaces(p + 1) : NULL;
}

static const char *read_number(const char *p, uint32_t *n)
{
    char *end;

    if (!p || *p < '0' || *p > '9')
        return NULL;
    errno = 0;
    unsigned long long value = strtoull(p, &end, 10);
    if (errno || value > UINT32_MAX / 2)
        return NULL;
    *n = (uint32_t)value;
    return end;
}

static int add_block(struct ut_job_layout *layout, struct ut_job_block block)
{
    uint64_t ranks = (uint64_t)block.nodes * block.each;

    if (layout->num_blocks == UT_JOB_LAYOUT_BLOCKS || ranks > UINT32_MAX / 2)
        return -EINVAL;
    if (ranks == 0)
        return 0;
    layout->blocks[layout->num_blocks++] = block;
    layout->cycle += ranks;
    return 0;
}

/* Reads a block of nodes, or a node with one rank. */
static const char *read_block(const char *p, struct ut_job_layout *layout)
{
    struct ut_job_block block = {.nodes = 1, .each = 1};
    const char *inside = read_mark(p, '(');

    if (inside) {
        p = read_number(inside, &block.first);
        p = read_number(read_mark(p, ','), &block.nodes);
        p = read_number(read_mark(p, ','), &block.each);
        p = read_mark(p, ')');
    } else {
        p = read_number(p, &block.first);
    }
    return p && add_block(layout, block) == 0 ? p : NULL;
}

/* Reads blocks in brackets and their repeat count. A list of nothing else starts over anyway. */
static const char *read_group(const char *p, struct ut_job_layout *layout)
{
    uint32_t first = layout->num_blocks, end, times;
    const char *more = read_mark(p, '[');

    do
        p = read_block(more, layout);
    while ((more = read_mark(p, ',')) != NULL);
    end = layout->num_blocks;
    p = read_mark(p, ']');
    p = p && *p == 'x' ? read_number(p + 1, &times) : NULL;
    if (!p || times == 0)
        return NULL;
    if (end == first || (first == 0 && read_mark(p, ')')))
        return p; /* zero repetitions, or the whole list */
    for (uint32_t t = 1; t < times && layout->cycle < layout->size; t++) {
        for (uint32_t i = first; i < end; i++) {
            if (add_block(layout, layout->blocks[i]) != 0)
                return NULL;
        }
    }
    return p;
}

int ut_job_layout_parse(struct ut_job_layout *layout, const char *text, uint32_t size)
{
    static const char word[] = "vector";
    const char *p = read_mark(text, '(');
    const char *more;

    memset(layout, 0, sizeof(*layout));
    layout->size = size;
    if (!p || strncmp(p, word, strlen(word)) != 0)
        return -EINVAL;
    p += strlen(word);
    while ((more = read_mark(p, ',')) != NULL) {
        p = *more == '[' ? read_group(more, layout) : read_block(more, layout);
        if (!p)
            goto bad;
    }
    p = read_mark(p, ')');
    if (!p || *p || layout->cycle == 0)
        goto bad;
    return 0;
bad:
    layout->num_blocks = 0;
    return -EINVAL;
}

void ut_job_layout_alloc(struct ut_job_layout *layout, uint32_t size, uint32_t nodes)
{
    uint32_t larger = size % nodes, each = size / nodes;

    memset(layout, 0, sizeof(*layout));
    layout->size = size;
    add_block(layout, (struct ut_job_block){0, larger, each + 1});
    add_block(layout, (struct ut_job_block){larger, nodes - larger, each});
}

static bool block_has(const struct ut_job_block *block, uint32_t node)
{
    return node >= block->first && node - block->first < block->nodes;
}

/* The number of ranks on the node among the first `ranks` ranks of one pass through the list. */
static uint64_t count_on_node(const struct ut_job_layout *layout, uint64_t ranks, uint32_t node)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < layout->num_blocks && ranks > 0; i++) {
        const struct ut_job_block *b = &layout->blocks[i];
        uint64_t in_block = (uint64_t)b->nodes * b->each;
        uint64_t placed = ranks < in_block ? ranks : in_block;

        if (block_has(b, node)) {
            uint64_t before = (uint64_t)(node - b->first) * b->each;
            uint64_t here = placed > before ? placed - before : 0;
            count += here < b->each ? here : b->each;
        }
        ranks -= placed;
    }
    return count;
}

/* The number of ranks on the node that are less than `rank`. */
static uint64_t count_below(const struct ut_job_layout *layout, uint64_t rank, uint32_t node)
{
    uint64_t passes = rank / layout->cycle;

    return (passes > 0 ? passes * count_on_node(layout, layout->cycle, node) : 0) +
           count_on_node(layout, rank % layout->cycle, node);
}

/* One past the largest node number among the first `ranks` ranks of one pass. */
static uint32_t count_nodes(const struct ut_job_layout *layout, uint64_t ranks)
{
    uint32_t end = 0;

    for (uint32_t i = 0; i < layout->num_blocks && ranks > 0; i++) {
        const struct ut_job_block *b = &layout->blocks[i];
        uint64_t in_block = (uint64_t)b->nodes * b->each;
        uint64_t placed = ranks < in_block ? ranks : in_block;
        uint32_t last = b->first + (uint32_t)((placed + b->each - 1) / b->each);

        if (last > end)
            end = last;
        ranks -= placed;
    }
    return end;
}

int ut_job_layout_place(const struct ut_job_layout *layout, uint32_t rank,
                        struct ut_job_place *place)
{
    if (layout->num_blocks == 0 || rank >= layout->size)
        return -ENOENT;
    uint64_t rest = rank % layout->cycle;
    const struct ut_job_block *b = layout->blocks;

    while (rest >= (uint64_t)b->nodes * b->each) {
        rest -= (uint64_t)b->nodes * b->each;
        b++;
    }
    place->node = b->first + (uint32_t)(rest / b->each);
    place->local_rank = (uint32_t)count_below(layout, rank, place->node);
    place->local_size = (uint32_t)count_below(layout, layout->size, place->node);
    place->num_nodes =
        count_nodes(layout, layout->size < layout->cycle ? layout->size : layout->cycle);
    return 0;
}

int64_t ut_job_layout_rank_at(const struct ut_job_layout *layout, uint32_t node,
                              uint32_t local_rank)
{
    if (layout->num_blocks == 0)
        return -ENOENT;
    uint64_t per_pass = count_on_node(layout, layout->cycle, node);
    if (per_pass == 0)
        return -ENOENT;
    uint64_t rank = local_rank / per_pass * layout->cycle;
    uint64_t rest = local_rank % per_pass;

    for (uint32_t i = 0; i < layout->num_blocks; i++) {
        const struct ut_job_block *b = &layout->blocks[i];
        if (block_has(b, node)) {
            if (rest < b->each) {
                rank += (uint64_t)(node - b->first) * b->each + rest;
                return rank < layout->size ? (int64_t)rank : -ENOENT;
            }
            rest -= b->each;
        }
        rank += (uint64_t)b->nodes * b->each;
    }
    return -ENOENT;
}

int64_t ut_job_layout_tasks(const char *list, uint32_t node)
{
    uint32_t tasks, times;

    for (const char *p = list; p; p = read_mark(p, ',')) {
        p = read_number(p, &tasks);
        if (!p)
            break;
        times = 1;
        if (strncmp(p, "(x", 2) == 0)
            p = read_mark(read_number(p + 2, &times), ')');
        if (node < times)
            return tasks;
        node -= times;
    }
    return -ENOENT;
}
