/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts a long put in parts over several connections (link/rails.h). All data are posted at once.
 * When all parts are complete, the link's own connection sends the remote notice. Until the put has
 * ended, link->unordered_out counts it, so that the direct path is closed. A STRONG_ORDER
 * communication waits for the end of the put. Every later remote notice waits for the data of the
 * put, because a notice promises that the data of all earlier puts have arrived. If a part fails on
 * a rail, the put does not fail: the link's own connection repeats the whole put, and its result
 * counts.
 */
#include "engine/parts.h"

#include "engine/retire.h"
#include "link/rails.h"
#include "stats/stats.h"

enum { PART_ALIGN = 4096 }; /* an address at the target: no cache line is in two parts */

/*
 * The end
 */

void ut_parts_finish(struct ut_link *link, struct ut_slot *slot)
{
    ut_parted_end(link, slot);
    ut_engine_finish(link, slot);
}

/* Repeats the whole put over one connection, either now or when the link is connected again. On a
 * new connection the stage of the slot decides whether the put may be repeated. */
static void post_whole_again(struct ut_link *link, struct ut_slot *slot)
{
    bool unsure = slot->parted & UT_SPLIT_PART_UNKNOWN, up = link->state == UT_LINK_UP;

    ut_parted_end(link, slot);
    if (up && unsure && ut_engine_must_not_repeat_put(slot)) {
        ut_engine_fail_unrepeated(link, slot);
        ut_engine_finish(link, slot);
        return;
    }
    if (link->vcq->stats)
        ut_stats_retry(link);
    slot->state = UT_SLOT_WAITING;
    slot->stag_reread = false;
    if (up || !unsure)
        slot->stage = UT_STAGE_NONE;
    if (up) {
        link->to_post = link->first;
        ut_link_schedule(link);
    }
}

void ut_parts_end(struct ut_link *link, struct ut_slot *slot)
{
    if (slot->tcq_rc || slot->mrq_rc) {
        ut_parts_finish(link, slot);
    } else if (slot->parted & (UT_SPLIT_PART_NOT_EXECUTED | UT_SPLIT_PART_UNKNOWN)) {
        post_whole_again(link, slot);
    } else {
        slot->stage = UT_STAGE_EXECUTED;
        if (!ut_slot_notifies_peer(slot))
            ut_parts_finish(link, slot);
    }
}

/*
 * Posting
 */

/* Posts the bytes from *done up to `to`. */
static int post_part(struct ut_link *link, struct ut_slot *slot, struct prov_conn *conn,
                     const struct prov_xfer *whole, uint32_t *done, uint32_t to)
{
    struct prov_xfer x = *whole;

    if (*done >= to)
        return 0;
    x.lcl = (uint8_t *)whole->lcl + *done;
    x.rmt = whole->rmt + *done;
    x.length = to - *done;
    int rc = link->ops->write(conn, &x);
    if (rc < 0)
        return rc;
    *done = to;
    if (!(rc & PROV_COMPLETE)) {
        slot->pending++;
        slot->by_rail = (uint8_t)(slot->by_rail + (conn != link->conn));
    }
    return 0;
}

/* Returns the end of the part that begins at `done`, for a share of the put. */
static uint32_t part_end_for_share(const struct prov_xfer *whole, uint32_t done, uint32_t share)
{
    uint64_t length = (uint64_t)whole->length * share >> UT_RAILS_SHARE_SHIFT;
    uint64_t end = ((whole->rmt + done + length) & ~(uint64_t)(PART_ALIGN - 1)) - whole->rmt;

    return end > done && end < whole->length ? (uint32_t)end : done;
}

/* The rails that can carry a put, and the keys of its memory on them. */
struct rails_for_put {
    unsigned int usable; /* bit n: rail n + 1 */
    struct prov_mr keys[UT_MAX_RAILS];
};

/* Each rail with room gets its share. The link's own connection gets the rest. */
static int post_parts(struct ut_link *link, struct ut_slot *slot, const struct prov_xfer *x,
                      const struct rails_for_put *rails_for_put)
{
    struct ut_rails *rails = link->rails;
    bool all = (unsigned int)__builtin_popcount(rails_for_put->usable) == rails->num_up;
    unsigned int left = rails_for_put->usable;
    uint32_t done = 0;
    int rc = post_part(link, slot, link->conn, x, &done, part_end_for_share(x, 0, rails->share));

    if (rc < 0)
        return rc;
    for (unsigned int n = 0; left; n++) {
        const struct ut_rail *rail = &rails->rail[n];
        struct prov_xfer part = *x;
        if (!(left & 1u << n))
            continue;
        left &= ~(1u << n);
        part.lkey = rails_for_put->keys[n].lkey;
        part.rkey = rails_for_put->keys[n].rkey;
        post_part(link, slot, rail->conn, &part, &done,
                  left || !all ? part_end_for_share(x, done, rail->share) : x->length);
    }
    return post_part(link, slot, link->conn, x, &done, x->length);
}

static bool find_connections(struct ut_link *link, const struct ut_slot *slot,
                             const struct prov_xfer *x, struct rails_for_put *rails_for_put)
{
    const struct ut_desc *d = &slot->desc;
    struct ut_stag_local *from;
    uint8_t *addr;

    if (!ut_parted_is_allowed(link, slot) || !ut_rails_are_up(link) ||
        ut_stag_resolve(link->vcq->stags, d->lcl_stadd, x->length, false, &from, &addr) !=
            UT_STAG_OK)
        return false;
    rails_for_put->usable =
        ut_rails_find_keys(link, from, d->rmt_stadd, x->length,
                           (struct prov_mr){.lkey = x->lkey, .rkey = x->rkey}, rails_for_put->keys);
    return rails_for_put->usable != 0;
}

static enum ut_outcome split_and_post(struct ut_link *link, struct ut_slot *slot,
                                      struct prov_xfer *x,
                                      const struct rails_for_put *rails_for_put)
{
    x->flags = PROV_SIGNAL | PROV_DELIVERY_COMPLETE | PROV_NO_SPLIT;
    x->cookie = ut_cookie(UT_COOKIE_PART, ut_slot_number(link->vcq, slot));
    int rc = post_parts(link, slot, x, rails_for_put);
    if (rc < 0 && slot->pending == 0)
        return ut_post_handle_refusal(link, slot, rc);
    ut_parted_begin(link, slot);
    if (rc < 0)
        slot->parted |= UT_SPLIT_PART_NOT_EXECUTED;
    if (link->vcq->stats)
        ut_stats_parted(link);
    if (slot->pending == 0)
        ut_parts_end(link, slot);
    return UT_POSTED;
}

bool ut_parts_post(struct ut_link *link, struct ut_slot *slot, struct prov_xfer *x,
                   enum ut_outcome *outcome)
{
    struct rails_for_put rails_for_put;

    if (find_connections(link, slot, x, &rails_for_put)) {
        *outcome = split_and_post(link, slot, x, &rails_for_put);
        return true;
    }
    *outcome = UT_NOT_NOW;
    return ut_slot_notifies_peer(slot) && ut_parted_is_before(link, slot);
}
