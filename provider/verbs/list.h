/* SPDX-License-Identifier: Apache-2.0 */
/* Doubly linked circular lists, whose nodes are members of the linked objects. An empty list points
 * to itself, and so does a node that is in no list. */
#ifndef VP_LIST_H
#define VP_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define vp_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

struct vp_list {
    struct vp_list *next, *prev;
};

static inline void vp_list_init(struct vp_list *list)
{
    list->next = list->prev = list;
}

static inline bool vp_list_empty(const struct vp_list *list)
{
    return list->next == list;
}

static inline void vp_list_remove(struct vp_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    vp_list_init(node);
}

static inline void vp_list_append(struct vp_list *list, struct vp_list *node)
{
    vp_list_remove(node);
    node->prev = list->prev;
    node->next = list;
    list->prev->next = node;
    list->prev = node;
}

#endif
