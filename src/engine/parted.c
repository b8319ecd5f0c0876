/* SPDX-License-Identifier: Apache-2.0 */
/* Puts in parts on their link: which puts are in parts, which communications wait for them, what a
 * broken connection means. */
#include "engine/parted.h"

#include "link/rails.h"

bool ut_slot_notifies_peer(const struct ut_slot *slot)
{
    return ut_slot_wants_remote_notice(slot) || ut_desc_sps(&slot->desc);
}

bool ut_parted_is_before(const struct ut_link *link, const struct ut_slot *slot)
{
    for (const struct ut_slot *s = &link->vcq->toq[link->first]; s != slot;
         s = &link->vcq->toq[s->next])
        if ((s->parted & UT_SPLIT_OUTSTANDING) && s->stage != UT_STAGE_NOTICE)
            return true;
    return false;
}

bool ut_parted_is_allowed(const struct ut_link *link, const struct ut_slot *slot)
{
    return slot->desc.kind == UT_DESC_PUT && !slot->parted &&
           !(slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER) &&
           ut_desc_length(&slot->desc) >= link->rails->split_threshold &&
           link->unordered_out == link->rails->split_puts_out;
}

bool ut_parted_must_wait(const struct ut_link *link, const struct ut_slot *slot)
{
    if (link->rails->split_puts_out == 0 || !ut_slot_notifies_peer(slot))
        return false;
    return ut_parted_is_before(link, slot) &&
           !(ut_parted_is_allowed(link, slot) && link->rails->num_up > 0);
}

void ut_parted_begin(struct ut_link *link, struct ut_slot *slot)
{
    slot->parted = UT_SPLIT_POSTED | UT_SPLIT_OUTSTANDING;
    slot->stage = UT_STAGE_DATA;
    slot->state = UT_SLOT_POSTED;
    link->unordered_out++;
    link->rails->split_puts_out++;
}

void ut_parted_end(struct ut_link *link, struct ut_slot *slot)
{
    UT_ASSERT(link->rails->split_puts_out > 0 && link->unordered_out > 0 && slot->by_rail == 0);
    slot->parted = UT_SPLIT_POSTED;
    link->rails->split_puts_out--;
    link->unordered_out--;
}

bool ut_parted_rewind(struct ut_link *link, struct ut_slot *slot)
{
    if (slot->by_rail > 0) { /* ut_parts_end() decides on the put */
        if (slot->pending > slot->by_rail)
            slot->parted |= UT_SPLIT_PART_UNKNOWN;
        slot->pending = slot->by_rail;
        return true;
    }
    if (slot->parted & UT_SPLIT_OUTSTANDING)
        ut_parted_end(link, slot);
    return false;
}

void ut_parted_reset(struct ut_link *link)
{
    struct ut_slot *toq = link->vcq->toq;

    if (ut_rails_outstanding(link) == 0)
        return;
    for (uint32_t n = link->first; n != UT_NO_SLOT; n = toq[n].next)
        if (toq[n].parted & UT_SPLIT_OUTSTANDING)
            toq[n].parted |= UT_SPLIT_PART_NOT_EXECUTED;
}
