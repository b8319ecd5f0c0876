/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairing heap of deadlines, earliest first. The nodes are members of the waiting objects. Adding a
 * node takes constant time and no allocation; removing a node takes logarithmic amortised time.
 */
#ifndef VP_HEAP_H
#define VP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_heap_node {
    uint64_t at;
    struct vp_heap_node *child; /* first child; no child is earlier than the node */
    struct vp_heap_node *next;  /* next child of the same parent */
    struct vp_heap_node **link; /* the pointer to this node; NULL: in no heap */
};

/* A zeroed heap is empty. A heap must not move while it has nodes. */
struct vp_heap {
    struct vp_heap_node *first;
};

/* Joins two heaps, to whose roots no pointer refers. Returns the new root. */
static inline struct vp_heap_node *vp_heap_pair(struct vp_heap_node *a, struct vp_heap_node *b)
{
    struct vp_heap_node *parent = b->at < a->at ? b : a, *child_root = parent == a ? b : a;

    child_root->next = parent->child;
    child_root->link = &parent->child;
    if (child_root->next)
        child_root->next->link = &child_root->next;
    parent->child = child_root;
    return parent;
}

/* Joins siblings: first in pairs from the front, then the pairs from the back. */
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

/* Removes the node from its heap, if any. The children of the node replace it. */
static inline void vp_heap_remove(struct vp_heap_node *node)
{
    struct vp_heap_node *replacement;

    if (!node->link)
        return;
    replacement = vp_heap_join(node->child);
    if (replacement) {
        replacement->next = node->next;
        replacement->link = node->link;
    } else {
        replacement = node->next;
        if (replacement)
            replacement->link = node->link;
    }
    *node->link = replacement;
    if (replacement && replacement->next)
        replacement->next->link = &replacement->next;
    node->child = node->next = NULL;
    node->link = NULL;
}

/* Adds the node after removing it from its previous heap. */
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

/* Returns the earliest node if it is due at `now`, without removing it; otherwise NULL. */
static inline struct vp_heap_node *vp_heap_due(const struct vp_heap *heap, uint64_t now)
{
    return heap->first && heap->first->at <= now ? heap->first : NULL;
}

/* Returns the time of the earliest node; 0: the heap is empty. */
static inline uint64_t vp_heap_next(const struct vp_heap *heap)
{
    return heap->first ? heap->first->at : 0;
}

#endif
