/* SPDX-License-Identifier: Apache-2.0 */
/* What will happen, in order of time; events of the same time in the order in which they were
 * added. */
#ifndef UM_EVENTS_H
#define UM_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct um_event {
    double at; /* ns */
    uint64_t order;
    uint32_t kind, a, b, c;
};

struct um_events {
    struct um_event *heap;
    size_t num, room;
    uint64_t added;
};

void um_events_add(struct um_events *events, double at, uint32_t kind, uint32_t a, uint32_t b,
                   uint32_t c);
bool um_events_next(struct um_events *events, struct um_event *event);
void um_events_free(struct um_events *events);

#endif
