/* SPDX-License-Identifier: Apache-2.0 */
/* Posting and completing ARMWs. The target's CPU executes an ARMW after a message, or the device,
 * or this CPU. */
#include "armw/armw.h"

#include <errno.h>

#include "engine/parted.h"
#include "engine/posting.h"

/* True if an ARMW of the device precedes this slot on the link, and the remote notice of that ARMW
 * is not posted. */
static bool armw_notice_missing_before(const struct ut_link *link, const struct ut_slot *slot)
{
    for (const struct ut_slot *s = &link->vcq->toq[link->first]; s != slot;
         s = &link->vcq->toq[s->next])
        if (s->desc.kind == UT_DESC_ARMW && s->state == UT_SLOT_POSTED &&
            s->stage != UT_STAGE_NOTICE && ut_slot_wants_remote_notice(s))
            return true;
    return false;
}

bool ut_post_waits_for_armw(const struct ut_link *link, const struct ut_slot *slot)
{
    return (slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER) ||
           (link->vcq->armw_words && ut_slot_wants_remote_notice(slot) &&
            armw_notice_missing_before(link, slot)) ||
           (link->rails && ut_parted_must_wait(link, slot));
}

/* Requests the ARMW from the target's CPU. The slot stays in UT_STAGE_DATA until
 * handle_armw_reply().
 */
static enum ut_outcome post_armw_message(struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    uint32_t number = ut_slot_number(link->vcq, slot);
    struct ut_msg_armw m = {
        .head = {.type = UT_MSG_ARMW,
                 .edata = d->edata,
                 .flags = ut_slot_wants_remote_notice(slot) ? UT_MSG_FLAG_WANTS_NOTICE : 0,
                 .slot = ut_armw_request_id(link, number)},
        .rmt_stadd = d->rmt_stadd,
        .operand = d->operand,
        .compare = d->compare,
        .op = (uint8_t)d->op,
        .size = (uint8_t)ut_desc_length(d),
    };

    if (ut_post_must_wait(link, slot))
        return UT_NOT_NOW;
    uint32_t flags = ut_post_fence(link, slot) | (link->vcq->unflushed ? PROV_MORE : 0u);
    /* no cookie: the reply completes the slot, and the slot may be reused before the send
     * completes */
    int rc = link->ops->send(link->conn, &m, sizeof(m), flags | PROV_SOLICITED,
                             ut_cookie(UT_COOKIE_NONE, 0));
    if (rc < 0)
        return ut_post_handle_refusal(link, slot, rc);
    slot->msg_number = ut_link_count_tx(link);
    slot->tcq_ready = true;
    slot->state = UT_SLOT_POSTED;
    slot->stage = UT_STAGE_DATA;
    link->unordered_out++;
    return UT_POSTED;
}

/*
 * ARMW by the device. The device has fetch-and-add and compare-and-swap of 8 bytes. Any other
 * operator is a loop of compare-and-swaps of the aligned word. slot->rmt_value is the word that the
 * last atomic read; at the end it is the old value.
 */

static bool armw_is_native(const struct ut_desc *d)
{
    return ut_desc_length(d) == 8 && (d->op == UTOFU_ARMW_OP_ADD || d->op == UT_ARMW_OP_CSWAP);
}

static unsigned int armw_shift(const struct ut_desc *d, uint64_t addr)
{
    return ut_desc_length(d) == 4 ? (unsigned int)(addr & 4) * 8 : 0;
}

static int post_atomic(struct ut_link *link, struct ut_slot *slot)
{
    struct ut_vcq *vcq = link->vcq;
    const struct ut_desc *d = &slot->desc;
    uint32_t number = ut_slot_number(vcq, slot);
    struct prov_atomic a = {.result = &vcq->armw_words[number],
                            .lkey = ut_region_lkey(vcq->armw_region, link->provider),
                            .flags = PROV_SIGNAL | ut_post_fence(link, slot),
                            .cookie = ut_cookie(UT_COOKIE_SLOT, number)};
    uint64_t addr;
    int rc = ut_link_find_memory(link, d->rmt_stadd, ut_desc_length(d), true, slot->stag_reread,
                                 &addr, &a.rkey);

    if (rc != 0)
        return rc;
    a.rmt = addr & ~7ull;
    if (armw_is_native(d)) {
        a.op = d->op == UTOFU_ARMW_OP_ADD ? PROV_ATOMIC_FADD : PROV_ATOMIC_CSWAP;
        a.operand = d->operand;
        a.compare = d->compare;
    } else {
        a.op = PROV_ATOMIC_CSWAP;
        a.compare = slot->rmt_value;
        a.operand = ut_armw_word_result(ut_desc_length(d), armw_shift(d, addr), d->op,
                                        slot->rmt_value, d->operand, d->compare);
    }
    return link->ops->atomic(link->conn, &a);
}

static enum ut_outcome post_armw_notice(struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    struct ut_msg_notice m = {.head = {.type = UT_MSG_ARMW_NOTICE, .edata = d->edata},
                              .rmt_stadd = d->rmt_stadd};
    int rc = link->ops->send(link->conn, &m, sizeof(m), PROV_SIGNAL | PROV_FENCE,
                             ut_cookie(UT_COOKIE_SLOT, ut_slot_number(link->vcq, slot)));

    if (rc == -EAGAIN || rc == -ENOTCONN)
        return ut_post_handle_refusal(link, slot, rc);
    if (rc < 0)
        return ut_post_fail(link, slot, UTOFU_ERR_MRQ_OTHER);
    UT_ASSERT(slot->stage == UT_STAGE_EXECUTED);
    slot->msg_number = ut_link_count_tx(link);
    slot->stage = UT_STAGE_NOTICE;
    slot->pending++;
    if (rc & PROV_COMPLETE) {
        slot->pending--;
        ut_engine_finish(link, slot);
    }
    return UT_POSTED;
}

/* The atomic has read `found`. Either the ARMW is executed, or this function posts the compare-and-
 * swap again. */
void ut_engine_atomic_done(struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    uint64_t found = link->vcq->armw_words[ut_slot_number(link->vcq, slot)];
    unsigned int shift = ut_desc_length(d) == 4 ? (unsigned int)(d->rmt_stadd & 4) * 8 : 0;

    UT_ASSERT(slot->stage == UT_STAGE_DATA && slot->state == UT_SLOT_POSTED);
    if (!armw_is_native(d) && found != slot->rmt_value) {
        slot->rmt_value = found;
        slot->stage = UT_STAGE_DATA;
        int rc = post_atomic(link, slot);
        if (rc >= 0) {
            slot->pending++;
            link->reads_out++;
            return;
        }
        slot->stage = UT_STAGE_RETRY;
        ut_link_schedule(link);
        return;
    }
    slot->rmt_value = ut_armw_word_extract(ut_desc_length(d), shift, found);
    slot->applied = true; /* if the connection breaks now, the link repeats only the notice */
    slot->stage = UT_STAGE_EXECUTED;
    if (!ut_slot_wants_remote_notice(slot)) {
        ut_engine_finish(link, slot);
        return;
    }
    if (post_armw_notice(link, slot) == UT_NOT_NOW)
        ut_link_schedule(link);
}

/*
 * ARMW by this CPU, in memory of the target that this process has mapped. The access is coherent
 * with the target's own atomics and with the ARMWs that the target executes for other peers. ARMWs
 * that this link has already sent to the target are executed first.
 */

static void *direct_word(struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    uint32_t size = ut_desc_length(d), rkey;
    uint64_t addr;

    if (!link->ops->direct || link->unordered_out > 0 ||
        ut_link_find_memory(link, d->rmt_stadd, size, true, slot->stag_reread, &addr, &rkey) != 0 ||
        addr % size != 0)
        return NULL; /* the target executes the ARMW, or reports the error */
    return link->ops->direct(link->conn, addr, size, rkey);
}

static enum ut_outcome post_applied_notice(struct ut_link *link, struct ut_slot *slot)
{
    link->unordered_out++;
    slot->stage = UT_STAGE_EXECUTED;
    enum ut_outcome o = post_armw_notice(link, slot);
    if (o == UT_NOT_NOW) {
        link->unordered_out--;
        slot->stage = UT_STAGE_NONE;
    } else if (slot->state == UT_SLOT_WAITING) {
        slot->state = UT_SLOT_POSTED;
    }
    return o;
}

static enum ut_outcome post_armw_cpu(struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;

    if (ut_post_must_wait(link, slot))
        return UT_NOT_NOW;
    void *word = direct_word(link, slot);
    if (!word)
        return post_armw_message(link, slot);
    slot->rmt_value = ut_armw_apply(word, ut_desc_length(d), d->op, d->operand, d->compare);
    slot->applied = slot->tcq_ready = true;
    if (ut_slot_wants_remote_notice(slot))
        return post_applied_notice(link, slot);
    ut_engine_finish(link, slot);
    return UT_POSTED;
}

static enum ut_outcome post_armw_device(struct ut_link *link, struct ut_slot *slot)
{
    if (ut_post_must_wait(link, slot))
        return UT_NOT_NOW;
    int rc = post_atomic(link, slot);
    if (rc == UTOFU_ERR_NOT_COMPLETED)
        return UT_NOT_NOW;
    if (rc <= UTOFU_ERR_MRQ_OTHER)
        return ut_post_fail(link, slot, rc);
    if (rc < 0)
        return ut_post_handle_refusal(link, slot, rc);
    slot->state = UT_SLOT_POSTED;
    slot->stage = UT_STAGE_DATA;
    slot->pending++;
    slot->tcq_ready = true;
    link->unordered_out++;
    link->reads_out++;
    return UT_POSTED;
}

void ut_armw_resume(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    for (uint32_t n = link->first; n != UT_NO_SLOT && n != link->to_post;) {
        struct ut_slot *slot = &vcq->toq[n];
        n = slot->next; /* ut_engine_finish() may end the slot */
        if (slot->desc.kind != UT_DESC_ARMW || slot->state != UT_SLOT_POSTED || slot->pending)
            continue;
        if (slot->stage == UT_STAGE_EXECUTED) {
            post_armw_notice(link, slot);
        } else if (slot->stage == UT_STAGE_RETRY) {
            int rc = post_atomic(link, slot);
            if (rc >= 0) {
                slot->stage = UT_STAGE_DATA;
                slot->pending++;
                link->reads_out++;
            } else if (rc == -EAGAIN || rc == UTOFU_ERR_NOT_COMPLETED) {
                ut_link_schedule(link);
            } else if (rc != -ENOTCONN) {
                ut_post_fail(link, slot, rc <= UTOFU_ERR_MRQ_OTHER ? rc : UTOFU_ERR_MRQ_RMT_MEMORY);
            }
        }
    }
}

enum ut_outcome ut_post_armw(struct ut_link *link, struct ut_slot *slot)
{
    if (slot->applied)
        return post_applied_notice(link, slot);
    return link->vcq->armw_words ? post_armw_device(link, slot) : post_armw_cpu(link, slot);
}

bool ut_armw_execute_mapped(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;

    if (d->kind != UT_DESC_ARMW || !ut_link_is_ready(link) || link->first != UT_NO_SLOT ||
        vcq->armw_words || ut_slot_wants_remote_notice(slot) || (d->flags & UT_DESC_COUNTED))
        return false;
    void *word = direct_word(link, slot);
    if (!word)
        return false;
    slot->rmt_value = ut_armw_apply(word, ut_desc_length(d), d->op, d->operand, d->compare);
    if (d->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        ut_engine_local_notice(vcq, link, slot);
    slot->tcq_ready = true;
    slot->state = UT_SLOT_RETIRED;
    return true;
}
