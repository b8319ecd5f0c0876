/* SPDX-License-Identifier: Apache-2.0 */
/* Turns descriptors on a link into requests of the provider. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/parts.h"
#include "engine/put.h"
#include "mapped.h"
#include "stats/stats.h"

/* While a thread sleeps until the VCQ has an entry, every request is signalled. The awaited entry
 * may stand behind this communication, and no poll would request its completion. */
static inline uint32_t post_flags(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    return ut_signal_flags(slot->desc.flags, ut_desc_length(&slot->desc)) |
           (vcq->unflushed ? PROV_MORE : 0u) |
           (__builtin_expect(vcq->waits != NULL, 0) ? PROV_SIGNAL : 0u);
}

/* Sends the remote notice of a put or a get as a message. The notice of a put announces its STADD.
 */
static inline __attribute__((always_inline)) int send_notice(struct ut_link *link,
                                                             struct ut_slot *slot, uint32_t flags,
                                                             enum ut_cookie cookie)
{
    const struct ut_desc *d = &slot->desc;
    struct ut_msg_notice m = {
        .head = {.type = UT_MSG_NOTICE,
                 .edata = d->edata,
                 .sps = (uint8_t)ut_desc_sps(d),
                 .flags = ut_slot_wants_remote_notice(slot) ? UT_MSG_FLAG_WANTS_NOTICE : 0},
        .rmt_stadd = d->rmt_stadd + ut_desc_length(d),
    };

    if (d->kind == UT_DESC_GET) {
        m.head.flags |= UT_MSG_FLAG_GET;
        m.lcl_stadd = d->lcl_stadd + ut_desc_length(d);
        flags |= PROV_FENCE;
    } else {
        m.head.slot = ut_announced_reserve_slot(&link->tx_announced, m.rmt_stadd);
        if (ut_desc_sps(d))
            flags |= PROV_SOLICITED;
    }
    int rc = link->ops->send(link->conn, &m, sizeof(m), flags,
                             ut_cookie(cookie, ut_slot_number(link->vcq, slot)));
    if (rc >= 0) {
        slot->msg_number = ut_link_count_tx(link);
        if (d->kind != UT_DESC_GET)
            ut_announced_set(&link->tx_announced, m.head.slot, m.rmt_stadd);
    }
    return rc;
}

/* The provider has accepted the last request of a descriptor. */
static enum ut_outcome mark_accepted(struct ut_link *link, struct ut_slot *slot,
                                     enum ut_slot_stage stage, int rc)
{
    UT_ASSERT(slot->state == UT_SLOT_WAITING && stage > slot->stage);
    slot->stage = stage & 0x3f;
    slot->state = UT_SLOT_POSTED;
    if (rc & PROV_COMPLETE) {
        slot->pending--;
        if (slot->pending == 0)
            ut_engine_finish(link, slot);
    }
    return UT_POSTED;
}

static enum ut_outcome post_notice(struct ut_link *link, struct ut_slot *slot)
{
    uint32_t flags = post_flags(link->vcq, slot);
    int rc = send_notice(link, slot, flags, UT_COOKIE_SLOT);

    if (rc < 0)
        return ut_post_handle_refusal(link, slot, rc);
    slot->pending++;
    return mark_accepted(link, slot, UT_STAGE_NOTICE, rc);
}

/* The provider has accepted the data of a put or a get. notice_follows: a message is next. */
static inline enum ut_outcome data_accepted(struct ut_link *link, struct ut_slot *slot, int rc,
                                            bool notice_follows)
{
    if (!notice_follows)
        return mark_accepted(link, slot, UT_STAGE_DATA, rc);
    UT_ASSERT(slot->stage == UT_STAGE_NONE);
    if (rc & PROV_COMPLETE)
        slot->pending--;
    slot->stage = UT_STAGE_DATA;
    return post_notice(link, slot);
}

/* Fills in the local and the remote address of a put or a get. False: the slot waits or has failed,
 * see *outcome. */
static inline bool resolve_addresses(struct ut_link *link, struct ut_slot *slot, bool to_local,
                                     struct prov_xfer *x, enum ut_outcome *outcome)
{
    struct ut_desc *d = &slot->desc;
    uint8_t *local = d->data;

    x->lkey = 0;
    if (d->kind != UT_DESC_PIGGYBACK) {
        struct ut_stag_local *stag;
        enum ut_stag_result r = ut_stag_resolve(link->vcq->stags, d->lcl_stadd, ut_desc_length(d),
                                                to_local, &stag, &local);
        if (__builtin_expect(r != UT_STAG_OK, 0)) {
            *outcome = ut_post_fail(link, slot, ut_post_local_error(slot, r));
            return false;
        }
        x->lkey = stag->lkey[link->provider];
    }
    x->lcl = local;
    x->length = ut_desc_length(d);
    x->cookie = ut_cookie(UT_COOKIE_SLOT, ut_slot_number(link->vcq, slot));
    x->flags = post_flags(link->vcq, slot) | ut_post_fence(link, slot) | ut_post_strong(link, slot);
    int rc = ut_link_find_memory(link, d->rmt_stadd, x->length, !to_local, slot->stag_reread,
                                 &x->rmt, &x->rkey);
    if (__builtin_expect(rc != 0, 0)) {
        *outcome = rc == UTOFU_ERR_NOT_COMPLETED ? UT_NOT_NOW : ut_post_fail(link, slot, rc);
        return false;
    }
    return true;
}

/* Posts the data, and the notice as an immediate if possible. */
static inline enum ut_outcome post_put(struct ut_link *link, struct ut_slot *slot)
{
    enum ut_outcome outcome;
    struct prov_xfer x = {0};

    if (slot->stage == UT_STAGE_DATA)
        return post_notice(link, slot);
    if (ut_post_must_wait(link, slot))
        return UT_NOT_NOW;
    if (!resolve_addresses(link, slot, false, &x, &outcome))
        return outcome;
    ut_choose_source(link, slot, &x);
    bool message = !ut_add_immediate(link, slot, &x);
    if (message)
        x.flags &= ~(uint32_t)PROV_SIGNAL; /* the message behind the put is signalled */
    int rc = ut_write_put(link, slot, &x);
    if (__builtin_expect(rc == -EMSGSIZE, 0)) {
        if (ut_parts_post(link, slot, &x, &outcome))
            return outcome;
        x.flags |= PROV_NO_SPLIT;
        rc = ut_write_put(link, slot, &x);
    }
    if (__builtin_expect(rc < 0, 0))
        return ut_post_handle_refusal(link, slot, rc);
    slot->pending++;
    if (rc & PROV_COMPLETE)
        slot->tcq_ready = true;
    if (x.flags & PROV_NOTIFY)
        slot->msg_number = ut_link_count_tx(link);
    return data_accepted(link, slot, rc, message);
}

int ut_post_parted_notice(struct ut_link *link, struct ut_slot *slot)
{
    struct prov_xfer x = {
        .flags = PROV_SIGNAL | ut_notify_flags(&slot->desc),
        .cookie = ut_cookie(UT_COOKIE_PART, ut_slot_number(link->vcq, slot)),
    };

    if (!ut_notice_fits_immediate(link, &slot->desc, &x.imm))
        return send_notice(link, slot, PROV_SIGNAL, UT_COOKIE_PART);
    int rc = link->ops->write(link->conn, &x);
    if (rc >= 0)
        slot->msg_number = ut_link_count_tx(link);
    return rc;
}

/* Posts the read, and the message with the notice behind it. */
static inline enum ut_outcome post_get(struct ut_link *link, struct ut_slot *slot)
{
    enum ut_outcome outcome;
    struct prov_xfer x = {0};

    if (slot->stage == UT_STAGE_DATA)
        return post_notice(link, slot);
    if (ut_post_must_wait(link, slot))
        return UT_NOT_NOW;
    if (!resolve_addresses(link, slot, true, &x, &outcome))
        return outcome;
    int rc = link->ops->read(link->conn, &x);
    if (rc < 0)
        return ut_post_handle_refusal(link, slot, rc);
    slot->pending++;
    slot->tcq_ready = true; /* the provider has sent the request */
    if (!(rc & PROV_COMPLETE))
        link->reads_out++;
    return data_accepted(link, slot, rc, ut_slot_wants_remote_notice(slot));
}

static inline enum ut_outcome post_armw(struct ut_link *link, struct ut_slot *slot)
{
    return ut_post_armw(link, slot);
}

static inline enum ut_outcome post_slot(struct ut_link *link, struct ut_slot *slot)
{
    switch (slot->desc.kind) {
    case UT_DESC_PUT:
    case UT_DESC_PIGGYBACK:
        return post_put(link, slot);
    case UT_DESC_GET:
        return post_get(link, slot);
    case UT_DESC_ARMW:
        return post_armw(link, slot);
    default: /* a NOP never gets here: it completes when it starts, and is on no link */
        return ut_post_fail(link, slot, UTOFU_ERR_MRQ_OTHER);
    }
}

void ut_engine_post_queued(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    if (link->state != UT_LINK_UP)
        return;
    if (__builtin_expect(link->msg_to_post != NULL, 0))
        ut_link_post_messages(link);
    if (__builtin_expect(vcq->armw_words && link->unordered_out > 0, 0))
        ut_armw_resume(link);
    while (link->to_post != UT_NO_SLOT) {
        struct ut_slot *slot = &vcq->toq[link->to_post];
        UT_ASSERT(link->to_post <= vcq->toq_mask && slot->link == link);
        if (slot->state == UT_SLOT_WAITING) {
            if (link->reading != UT_STAG_NONE || post_slot(link, slot) == UT_NOT_NOW) {
                /* the background thread continues if the program does not call again */
                ut_link_schedule(link);
                return;
            }
        }
        link->to_post = slot->next;
    }
}
