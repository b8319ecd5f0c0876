/* SPDX-License-Identifier: Apache-2.0 */
#include "model/events.h"

#include <stdlib.h>

#include "model/fail.h"

/* A heap of four children a node: half as deep as one of two. */
enum { CHILDREN = 4 };

static bool is_before(const struct um_event *a, const struct um_event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

void um_events_add(struct um_events *e, double at, uint32_t kind, uint32_t a, uint32_t b,
                   uint32_t c)
{
    struct um_event event = {at, e->added++, kind, a, b, c};

    e->heap = um_grow(e->heap, e->num, &e->room, sizeof(*e->heap));
    size_t i = e->num++;
    while (i > 0 && is_before(&event, &e->heap[(i - 1) / CHILDREN])) {
        e->heap[i] = e->heap[(i - 1) / CHILDREN];
        i = (i - 1) / CHILDREN;
    }
    e->heap[i] = event;
}

static size_t least_child(const struct um_events *e, size_t i)
{
    size_t first = i * CHILDREN + 1, least = first;

    for (size_t c = first + 1; c < first + CHILDREN && c < e->num; c++) {
        if (is_before(&e->heap[c], &e->heap[least]))
            least = c;
    }
    return least;
}

bool um_events_next(struct um_events *e, struct um_event *event)
{
    size_t i = 0;

    if (e->num == 0)
        return false;
    *event = e->heap[0];
    struct um_event last = e->heap[--e->num];
    while (i * CHILDREN + 1 < e->num) {
        size_t child = least_child(e, i);
        if (!is_before(&e->heap[child], &last))
            break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    if (e->num)
        e->heap[i] = last;
    return true;
}

void um_events_free(struct um_events *e)
{
    free(e->heap);
    *e = (struct um_events){.heap = NULL};
}
