/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dispatcher. A notice says which slot has a record; the dispatcher handles them in the order
 * in which they have come. A record for which there is no room stays where it is, and so the lane
 * of its origin fills up.
 */
#include "receive.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 16 };

void la_receive_setup(void)
{
    la.dispatcher = (struct la_dispatcher){.shuffle = lc_env_number("LAPI_SHUFFLE", 0)};
    if (la.dispatcher.shuffle != 0)
        la.dispatcher.shuffle += la.rank;
}

static void take_slot(uint32_t slot)
{
    if (la.dispatcher.num_arrived < LA_SLOTS)
        la.dispatcher.arrived[la.dispatcher.num_arrived++] = (uint16_t)slot;
    la_inbox_take(slot);
}

void la_receive_arrived(uint32_t slot)
{
    if (la.dispatcher.early[slot] > 0) {
        la.dispatcher.early[slot]--;
        la.dispatcher.num_early--;
    } else {
        take_slot(slot);
    }
}

/* Something is left to do when the record has been read, or may be. */
static bool needs_in(const struct la_record *rec)
{
    return rec->kind == LA_AM || rec->kind == LA_GETV || (rec->flags & LA_RENDEZVOUS) != 0 ||
           (rec->kind == LA_GET && rec->len > LA_SMALL_GET);
}

/* What needs nothing goes on: a completion handler, for which others wait, may wait for it. */
static bool has_room(uint32_t slot)
{
    return la_has_room(needs_in((struct la_record *)la.memory.inbox[slot]));
}

static void swap_some(void)
{
    for (uint32_t i = 0; i < la.dispatcher.num_arrived; i++) {
        uint32_t k = (uint32_t)rand_r(&la.dispatcher.shuffle) % la.dispatcher.num_arrived;
        uint16_t slot = la.dispatcher.arrived[i];

        la.dispatcher.arrived[i] = la.dispatcher.arrived[k];
        la.dispatcher.arrived[k] = slot;
    }
}

/* What arrives while a handler runs is put behind; what has no room stays. */
static uint32_t handle_some(void)
{
    uint32_t handled = 0, kept = 0, i;

    for (i = 0; i < la.dispatcher.num_arrived && handled < BATCH; i++) {
        uint16_t slot = la.dispatcher.arrived[i];

        if (!has_room(slot)) {
            la.dispatcher.arrived[kept++] = slot;
            continue;
        }
        la.dispatcher.arrivals++;
        la_receive_record((struct la_record *)la.memory.inbox[slot]);
        la_inbox_free(slot);
        handled++;
    }
    if (i < la.dispatcher.num_arrived)
        memmove(la.dispatcher.arrived + kept, la.dispatcher.arrived + i,
                (la.dispatcher.num_arrived - i) * sizeof(la.dispatcher.arrived[0]));
    la.dispatcher.num_arrived -= handled;
    return handled;
}

/* A message of one line needs few checks, and no queue where nothing that came before waits. */
static bool may_handle_now(const struct la_record *rec)
{
    return la.dispatcher.num_arrived == 0 && rec->flags == LA_ONE_LINE &&
           rec->kind - LA_AM <= LA_PUT - LA_AM && rec->rank < la.procs &&
           la_record_is_in_line(rec) && !la.dispatching && la.dispatcher.shuffle == 0 &&
           la_has_room(rec->kind == LA_AM);
}

static void handle_now(uint32_t lane, uint32_t slot)
{
    la_inbox_pass(lane);
    la.dispatcher.arrivals++;
    la.dispatching = true;
    la_receive_line((struct la_record *)la.memory.inbox[slot]);
    if (!la_inbox_free_next(lane, slot))
        la_inbox_free(slot);
    la.dispatching = false;
}

/* Each record has its notice too: it ends the sleep of who waits for one. */
bool la_receive_look(void)
{
    uint32_t lanes = la.dispatcher.num_early < LA_MOST_EARLY ? la_inbox_lanes() : 0;
    bool handled = false, kept = false;

    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint32_t slot = la_inbox_next_slot(lane);

        if (__builtin_expect(!la_inbox_has_next(lane), 1))
            continue;
        la.dispatcher.early[slot]++;
        la.dispatcher.num_early++;
        if (may_handle_now((struct la_record *)la.memory.inbox[slot])) {
            handle_now(lane, slot);
            handled = true;
        } else {
            take_slot(slot);
            kept = true;
        }
    }
    return (kept && la_dispatch()) | handled;
}

bool la_dispatch(void)
{
    uint32_t handled;

    if (la.dispatching || la.dispatcher.num_arrived == 0)
        return false;
    if (la.dispatcher.shuffle != 0) {
        if (rand_r(&la.dispatcher.shuffle) % 4 == 0)
            return false; /* until more have come */
        swap_some();
    }
    la.dispatching = true;
    handled = handle_some();
    la.dispatching = false;
    return handled > 0;
}
