/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dispatcher executes records in the order of their notices. A record that cannot be executed
 * for lack of resources stays in its slot, so the lane of its origin fills up.
 */
#include "dispatch.h"
#include "inbox.h"
#include "receive.h"
#include "transfer.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 16 };

void la_dispatch_setup(void)
{
    la.dispatch = (struct la_dispatch_state){.shuffle = lc_env_number("LAPI_SHUFFLE", 0)};
    if (la.dispatch.shuffle != 0)
        la.dispatch.shuffle += la.job.rank;
}

static void append_slot(uint32_t slot)
{
    if (la.dispatch.num_arrived < LA_SLOTS)
        la.dispatch.arrived[la.dispatch.num_arrived++] = (uint16_t)slot;
    la_inbox_mark_handled(slot);
}

void la_dispatch_arrived(uint32_t slot)
{
    if (la.dispatch.early[slot] > 0) {
        la.dispatch.early[slot]--;
        la.dispatch.num_early--;
    } else {
        append_slot(slot);
    }
}

/* Does the record need a struct la_transfer when its handler has returned? */
static bool needs_transfer(const struct la_record *rec)
{
    return rec->kind == LA_AM || rec->kind == LA_GETV || (rec->flags & LA_RENDEZVOUS) != 0 ||
           (rec->kind == LA_GET && rec->len > LA_SMALL_GET);
}

/* Records that need no transfer are executed even if others must wait: a completion handler may
 * wait for one of them. */
static bool has_room(uint32_t slot)
{
    return la_has_room(needs_transfer((struct la_record *)la.control.inbox[slot]));
}

static void shuffle_arrived(void)
{
    for (uint32_t i = 0; i < la.dispatch.num_arrived; i++) {
        uint32_t k = (uint32_t)rand_r(&la.dispatch.shuffle) % la.dispatch.num_arrived;
        uint16_t slot = la.dispatch.arrived[i];

        la.dispatch.arrived[i] = la.dispatch.arrived[k];
        la.dispatch.arrived[k] = slot;
    }
}

/* Records that arrive while a handler runs are appended. Records without resources stay in the
 * list. */
static uint32_t handle_batch(void)
{
    uint32_t handled = 0, kept = 0, i;

    for (i = 0; i < la.dispatch.num_arrived && handled < BATCH; i++) {
        uint16_t slot = la.dispatch.arrived[i];

        if (!has_room(slot)) {
            la.dispatch.arrived[kept++] = slot;
            continue;
        }
        la.dispatch.arrivals++;
        la_receive_record((struct la_record *)la.control.inbox[slot]);
        la_inbox_free(slot);
        handled++;
    }
    if (i < la.dispatch.num_arrived)
        memmove(la.dispatch.arrived + kept, la.dispatch.arrived + i,
                (la.dispatch.num_arrived - i) * sizeof(la.dispatch.arrived[0]));
    la.dispatch.num_arrived -= handled;
    return handled;
}

/* An inline record needs few checks, and is executed at once unless earlier records wait. */
static bool may_handle_inline(const struct la_record *rec)
{
    return la.dispatch.num_arrived == 0 && rec->flags == LA_INLINE &&
           rec->kind - LA_AM <= LA_PUT - LA_AM && rec->rank < la.job.procs &&
           la_record_fits_inline(rec) && !la.dispatching && la.dispatch.shuffle == 0 &&
           la_has_room(rec->kind == LA_AM);
}

static void handle_inline(uint32_t lane, uint32_t slot)
{
    la_inbox_advance(lane);
    la.dispatch.arrivals++;
    la.dispatching = true;
    la_receive_inline((struct la_record *)la.control.inbox[slot]);
    if (!la_inbox_free_next(lane, slot))
        la_inbox_free(slot);
    la.dispatching = false;
}

/* The notice of each record still arrives; it wakes a sleeping thread. */
bool la_dispatch_poll_memory(void)
{
    uint32_t lanes = la.dispatch.num_early < LA_MAX_EARLY ? la_inbox_lanes() : 0;
    bool handled = false, kept = false;

    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint32_t slot = la_inbox_next_slot(lane);

        if (__builtin_expect(!la_inbox_has_next(lane), 1))
            continue;
        la.dispatch.early[slot]++;
        la.dispatch.num_early++;
        if (may_handle_inline((struct la_record *)la.control.inbox[slot])) {
            handle_inline(lane, slot);
            handled = true;
        } else {
            append_slot(slot);
            kept = true;
        }
    }
    return (kept && la_dispatch_run()) | handled;
}

bool la_dispatch_run(void)
{
    uint32_t handled;

    if (la.dispatching || la.dispatch.num_arrived == 0)
        return false;
    if (la.dispatch.shuffle != 0) {
        if (rand_r(&la.dispatch.shuffle) % 4 == 0)
            return false; /* shuffled: wait until more records have arrived */
        shuffle_arrived();
    }
    la.dispatching = true;
    handled = handle_batch();
    la.dispatching = false;
    return handled > 0;
}
