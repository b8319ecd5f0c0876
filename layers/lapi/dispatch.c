/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dispatcher executes records in the order of their notices. A record that cannot be executed
 * for lack of resources stays in its slot, so the lane of its origin fills up.
 */
#include "dispatch.h"
#include "inbox.h"
#include "receive.h"
#include "incoming.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH_SIZE = 16 /* maximum number of records that one call handles */ };

void la_dispatch_setup(void)
{
    la.dispatch = (struct la_dispatch_state){.shuffle = lc_env_number("LAPI_SHUFFLE", 0)};
    if (la.dispatch.shuffle != 0)
        la.dispatch.shuffle += la.job.rank;
}

static void append_ready_slot(uint32_t slot)
{
    if (la.dispatch.num_ready < LA_NUM_SLOTS)
        la.dispatch.ready[la.dispatch.num_ready++] = (uint16_t)slot;
    la_inbox_mark_consumed(slot);
}

void la_dispatch_handle_notice(uint32_t slot)
{
    if (la.dispatch.notices_due[slot] > 0) {
        la.dispatch.notices_due[slot]--;
        la.dispatch.num_notices_due--;
    } else {
        append_ready_slot(slot);
    }
}

/* Does the record need a struct la_incoming when its handler has returned? */
static bool needs_incoming(const struct la_record *rec)
{
    return rec->kind == LA_AM || rec->kind == LA_GETV || (rec->flags & LA_RENDEZVOUS) != 0 ||
           (rec->kind == LA_GET && rec->total_len > LA_SHORT_GET_SIZE);
}

/* Records that need no struct la_incoming are executed even if others must wait: a completion
 * handler may wait for one of them. */
static bool can_execute(uint32_t slot)
{
    return la_can_execute(needs_incoming((struct la_record *)la.control.inbox[slot]));
}

static void shuffle_ready(void)
{
    for (uint32_t i = 0; i < la.dispatch.num_ready; i++) {
        uint32_t k = (uint32_t)rand_r(&la.dispatch.shuffle) % la.dispatch.num_ready;
        uint16_t slot = la.dispatch.ready[i];

        la.dispatch.ready[i] = la.dispatch.ready[k];
        la.dispatch.ready[k] = slot;
    }
}

/* Records that arrive while a handler runs are appended. Records without resources stay in the
 * list. */
static uint32_t handle_batch(void)
{
    uint32_t handled = 0, num_kept = 0, i;

    for (i = 0; i < la.dispatch.num_ready && handled < BATCH_SIZE; i++) {
        uint16_t slot = la.dispatch.ready[i];

        if (!can_execute(slot)) {
            la.dispatch.ready[num_kept++] = slot;
            continue;
        }
        la.dispatch.num_handled++;
        la_receive_record((struct la_record *)la.control.inbox[slot]);
        la_inbox_free(slot);
        handled++;
    }
    if (i < la.dispatch.num_ready)
        memmove(la.dispatch.ready + num_kept, la.dispatch.ready + i,
                (la.dispatch.num_ready - i) * sizeof(la.dispatch.ready[0]));
    la.dispatch.num_ready -= handled;
    return handled;
}

/* An inline record needs few checks, and is executed at once unless earlier records wait. */
static bool may_handle_inline(const struct la_record *rec)
{
    return la.dispatch.num_ready == 0 && rec->flags == LA_INLINE &&
           (rec->kind == LA_AM || rec->kind == LA_PUT) && rec->rank < la.job.procs &&
           la_record_fits_inline(rec) && !la.dispatching && la.dispatch.shuffle == 0 &&
           la_can_execute(rec->kind == LA_AM);
}

static void handle_inline(uint32_t lane, uint32_t slot)
{
    la_inbox_advance(lane);
    la.dispatch.num_handled++;
    la.dispatching = true;
    la_receive_inline((struct la_record *)la.control.inbox[slot]);
    if (!la_inbox_free_next(lane, slot))
        la_inbox_free(slot);
    la.dispatching = false;
}

/* The notice of each record still arrives; it wakes a sleeping thread. */
bool la_dispatch_poll_memory(void)
{
    uint32_t lanes = la.dispatch.num_notices_due < LA_MAX_NOTICES_DUE ? la_inbox_num_lanes() : 0;
    bool handled = false, any_ready = false;

    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint32_t slot = la_inbox_next_slot(lane);

        if (__builtin_expect(!la_inbox_has_next(lane), 1))
            continue;
        la.dispatch.notices_due[slot]++;
        la.dispatch.num_notices_due++;
        if (may_handle_inline((struct la_record *)la.control.inbox[slot])) {
            handle_inline(lane, slot);
            handled = true;
        } else {
            append_ready_slot(slot);
            any_ready = true;
        }
    }
    return (any_ready && la_dispatch_run()) | handled;
}

bool la_dispatch_run(void)
{
    uint32_t handled;

    if (la.dispatching || la.dispatch.num_ready == 0)
        return false;
    if (la.dispatch.shuffle != 0) {
        if (rand_r(&la.dispatch.shuffle) % 4 == 0)
            return false; /* shuffled: wait until more records have arrived */
        shuffle_ready();
    }
    la.dispatching = true;
    handled = handle_batch();
    la.dispatching = false;
    return handled > 0;
}
