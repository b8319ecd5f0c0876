/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits for a time, the earliest first: a pairing heap whose nodes are members of what waits.
 * Adding one takes constant time, and nothing is allocated; taking one out takes a time that grows
 * with the logarithm of their number, on average over many.
 */
#ifndef VP_HEAP_H
#define VP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed: in no heap. */
struct vp_heap_node {
    uint64_t at;
    struct vp_heap_node *child; /* the first one of those that are not earlier */
    struct vp_heap_node *next;  /* the next child of its parent */
    struct vp_heap_node **link; /* what points to it; NULL: it is in no heap */
};

/* Zeroed: empty. It stays where it is while there is something in it. */
struct vp_heap {
    struct vp_heap_node *first;
};

/* Of two that nothing points to; the one that stays above. */
static inline struct vp_heap_node *vp_heap_pair(struct vp_heap_node *a, struct vp_heap_node *b)
{
    struct vp_heap_node *above = b->at < a->at ? b : a, *below = above == a ? b : a;

    below->next = above->child;
    below->link = &above->child;
    if (below->next)
        below->next->link = &below->next;
    above->child = below;
    return above;
}

/* Of siblings: pairs from the first one on, which are then joined from the last one on. */
static inline struct vp_heap_node *vp_heap_join(struct vp_heap_node *nodes)
{
    struct vp_heap_node *pairs = NULL, *joined;

    while (nodes) {
        struct vp_heap_node *a = nodes, *b = a->next;
        nodes = b ? b->next : NULL;
        joined = b ? vp_heap_pair(a, b) : a;
        joined->next = pairs;
        pairs = joined;
    }
    if (!pairs)
        return NULL;
    joined = pairs;
    for (pairs = pairs->next; pairs; pairs = nodes) {
        nodes = pairs->next;
        joined = vp_heap_pair(joined, pairs);
    }
    joined->next = NULL;
    return joined;
}

/* Takes it out of its heap, if it is in one. Its children take its place. */
static inline void vp_heap_remove(struct vp_heap_node *node)
{
    struct vp_heap_node *heir;

    if (!node->link)
        return;
    heir = vp_heap_join(node->child);
    if (heir) {
        heir->next = node->next;
        heir->link = node->link;
    } else {
        heir = node->next;
        if (heir)
            heir->link = node->link;
    }
    *node->link = heir;
    if (heir && heir->next)
        heir->next->link = &heir->next;
    node->child = node->next = NULL;
    node->link = NULL;
}

/* Puts it there, from wherever it was. */
static inline void vp_heap_add(struct vp_heap *heap, struct vp_heap_node *node, uint64_t at)
{
    vp_heap_remove(node);
    node->at = at;
    heap->first = heap->first ? vp_heap_pair(heap->first, node) : node;
    heap->first->next = NULL;
    heap->first->link = &heap->first;
}

static inline bool vp_heap_has(const struct vp_heap_node *node)
{
    return node->link != NULL;
}

/* The earliest one that is due then; NULL: there is none. It stays there. */
static inline struct vp_heap_node *vp_heap_due(const struct vp_heap *heap, uint64_t now)
{
    return heap->first && heap->first->at <= now ? heap->first : NULL;
}

/* When the earliest one is due; 0: it is empty. */
static inline uint64_t vp_heap_next(const struct vp_heap *heap)
{
    return heap->first ? heap->first->at : 0;
}

#endif
