/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: descriptors on their link become operations of its provider. */
#include "engine/short.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/posting.h"
#include "watch/watch.h"

/* An error that the local TNI meets: TCQ entry, no MRQ notice. */
static enum ut_outcome fail_tcq(struct ut_link *link, struct ut_slot *slot, int rc)
{
    slot->tcq_rc = (int16_t)rc;
    ut_engine_finish(link, slot);
    return UT_POSTED;
}

enum ut_outcome ut_post_fails(struct ut_link *link, struct ut_slot *slot, int rc)
{
    slot->mrq_rc = (int16_t)rc;
    ut_engine_finish(link, slot);
    return UT_POSTED;
}

static int tcq_error(enum ut_stag_result r)
{
    return r == UT_STAG_BAD_STADD    ? UTOFU_ERR_TCQ_STADD
           : r == UT_STAG_BAD_LENGTH ? UTOFU_ERR_TCQ_LENGTH
                                     : UTOFU_ERR_TCQ_MEMORY;
}

static int lcl_mrq_error(enum ut_stag_result r)
{
    return r == UT_STAG_BAD_STADD    ? UTOFU_ERR_MRQ_LCL_STADD
           : r == UT_STAG_BAD_LENGTH ? UTOFU_ERR_MRQ_LCL_LENGTH
                                     : UTOFU_ERR_MRQ_LCL_MEMORY;
}

enum ut_outcome ut_post_refused(struct ut_link *link, struct ut_slot *slot, int rc)
{
    if (link->vcq->watch && (rc == -EAGAIN || (rc == -EACCES && slot->retries == 0)))
        ut_watch_retry(link);
    switch (rc) {
    case -EAGAIN:
        ut_link_wait(link);
        return UT_NOT_NOW;
    case -ENOTCONN:
        return UT_NOT_NOW; /* down() tells */
    case -EACCES:
        /* the entry may be one of an earlier registration: look again, once */
        if (slot->retries++ == 0) {
            ut_link_forget(link, slot->desc.rmt_stadd);
            slot->fresh = false;
            ut_link_wait(link);
            return UT_NOT_NOW;
        }
        return ut_post_fails(link, slot, UTOFU_ERR_MRQ_RMT_MEMORY);
    case -EFAULT:
        return ut_post_fails(link, slot, UTOFU_ERR_MRQ_RMT_MEMORY);
    case -EPERM:
        return slot->desc.kind == UT_DESC_GET ? ut_post_fails(link, slot, UTOFU_ERR_MRQ_LCL_MEMORY)
                                              : fail_tcq(link, slot, UTOFU_ERR_TCQ_MEMORY);
    default:
        return ut_post_fails(link, slot, UTOFU_ERR_MRQ_OTHER);
    }
}

static inline uint32_t post_flags(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    return ut_signal_flags(slot->desc.flags, ut_desc_length(&slot->desc)) |
           (vcq->unflushed ? PROV_MORE : 0u);
}

/* The device executes an ARMW before this one on the link, and its remote notice is not posted. */
static bool untold_before(const struct ut_link *link, const struct ut_slot *slot)
{
    for (const struct ut_slot *s = &link->vcq->toq[link->first]; s != slot;
         s = &link->vcq->toq[s->next])
        if (s->desc.kind == UT_DESC_ARMW && s->state == UT_SLOT_POSTED && s->stage != 3 &&
            ut_slot_wants_remote_notice(s))
            return true;
    return false;
}

bool ut_post_waits_for_armw(const struct ut_link *link, const struct ut_slot *slot)
{
    return (slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER) ||
           (link->vcq->armw_words && ut_slot_wants_remote_notice(slot) &&
            untold_before(link, slot));
}

/* The notice of a put or a get in a message of its own; a put's announces its slot for next time.
 */
static int send_notice(struct ut_link *link, struct ut_slot *slot, uint32_t flags)
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
        m.head.slot = ut_announce_slot(m.rmt_stadd);
        if (ut_desc_sps(d))
            flags |= PROV_SOLICITED;
    }
    int rc = link->ops->send(link->conn, &m, sizeof(m), flags,
                             ut_cookie(UT_COOKIE_SLOT, ut_slot_number(link->vcq, slot)));
    if (rc >= 0) {
        slot->msg_number = ut_link_count_tx(link);
        if (d->kind != UT_DESC_GET && link->tx_announced)
            link->tx_announced[m.head.slot] = m.rmt_stadd;
    }
    return rc;
}

/* Can this put's notice ride on its data? Only where its STADD was announced before. */
static bool notice_rides(struct ut_link *link, const struct ut_desc *d, uint32_t *imm)
{
    utofu_stadd_t end = d->rmt_stadd + ut_desc_length(d);
    unsigned int n = ut_announce_slot(end);
    int notice = (d->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE) != 0;

    if (!notice) {
        *imm =
            ut_imm_make(d->edata, ut_desc_sps(d), 0, 0); /* the schedule pointer needs no STADD */
        return true;
    }
    if (__builtin_expect(!link->tx_announced, 0)) {
        link->tx_announced = malloc(UT_NUM_ANNOUNCED * sizeof(*link->tx_announced));
        if (link->tx_announced)
            memset(link->tx_announced, 0xff, UT_NUM_ANNOUNCED * sizeof(*link->tx_announced));
        return false;
    }
    *imm = ut_imm_make(d->edata, ut_desc_sps(d), 1, n);
    return ut_notice_is_announced(link, end, n);
}

/* The last part of a descriptor was taken by the provider. */
static enum ut_outcome accepted(struct ut_link *link, struct ut_slot *slot, int rc)
{
    slot->stage++;
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
    int rc = send_notice(link, slot, flags);

    if (rc < 0)
        return ut_post_refused(link, slot, rc);
    slot->pending++;
    return accepted(link, slot, rc);
}

/* The provider took the data. */
static inline void data_posted(struct ut_slot *slot, const uint8_t *source, int rc)
{
    slot->pending++;
    if (rc & PROV_COMPLETE)
        slot->tcq_ready = true;
    else if (rc & PROV_SRC_FREE)
        ut_keep_source(slot, source);
}

static inline uint32_t notify_flags(const struct ut_desc *d)
{
    return PROV_NOTIFY | (ut_desc_sps(d) ? PROV_SOLICITED : 0u);
}

/* Stage 0: the data (and the notice, where it rides along); stage 1: the notice. */
static inline enum ut_outcome post_put(struct ut_link *link, struct ut_slot *slot)
{
    struct ut_vcq *vcq = link->vcq;
    struct ut_desc *d = &slot->desc;
    uint32_t number = ut_slot_number(vcq, slot);

    if (slot->stage == 1)
        return post_notice(link, slot);
    if (ut_post_must_wait(link, slot))
        return UT_NOT_NOW;

    struct prov_xfer x = {.length = ut_desc_length(d), .cookie = ut_cookie(UT_COOKIE_SLOT, number)};
    uint8_t *source = d->data;
    if (d->kind == UT_DESC_PUT) {
        struct ut_stag_local *local;
        enum ut_stag_result r =
            ut_stag_resolve(vcq->stags, d->lcl_stadd, ut_desc_length(d), false, &local, &source);
        if (__builtin_expect(r != UT_STAG_OK, 0))
            return fail_tcq(link, slot, tcq_error(r));
        x.lkey = local->lkey[link->provider];
    }
    int rc =
        ut_link_resolve(link, d->rmt_stadd, ut_desc_length(d), true, slot->fresh, &x.rmt, &x.rkey);
    if (__builtin_expect(rc != 0, 0))
        return rc == UTOFU_ERR_NOT_COMPLETED ? UT_NOT_NOW : ut_post_fails(link, slot, rc);

    x.flags = post_flags(vcq, slot) | ut_post_fence(link, slot);
    x.lcl = source;
    if (d->kind == UT_DESC_PIGGYBACK)
        x.flags |= PROV_COPY;
    bool notify = ut_slot_wants_remote_notice(slot) || ut_desc_sps(d);
    bool rides = notify && notice_rides(link, d, &x.imm);
    if (rides) {
        x.flags |= notify_flags(d);
    } else if (notify) {
        x.flags &= ~(uint32_t)PROV_SIGNAL; /* the message behind it tells */
    }
    rc = link->ops->write(link->conn, &x);
    if (__builtin_expect(rc < 0, 0))
        return ut_post_refused(link, slot, rc);
    data_posted(slot, source, rc);
    if (rides)
        slot->msg_number = ut_link_count_tx(link);
    if (!notify || rides)
        return accepted(link, slot, rc);
    if (rc & PROV_COMPLETE)
        slot->pending--;
    slot->stage = 1;
    return post_notice(link, slot);
}

/* Stage 0: the read; stage 1: the remote notice behind it. */
static enum ut_outcome post_get(struct ut_link *link, struct ut_slot *slot)
{
    struct ut_vcq *vcq = link->vcq;
    const struct ut_desc *d = &slot->desc;
    uint32_t number = ut_slot_number(vcq, slot);
    struct ut_stag_local *local;
    uint8_t *dest;

    if (slot->stage == 1)
        return post_notice(link, slot);
    if (ut_post_must_wait(link, slot))
        return UT_NOT_NOW;
    enum ut_stag_result r =
        ut_stag_resolve(vcq->stags, d->lcl_stadd, ut_desc_length(d), true, &local, &dest);
    if (r != UT_STAG_OK)
        return ut_post_fails(link, slot, lcl_mrq_error(r));
    struct prov_xfer x = {.lcl = dest,
                          .length = ut_desc_length(d),
                          .lkey = local->lkey[link->provider],
                          .cookie = ut_cookie(UT_COOKIE_SLOT, number)};
    int rc =
        ut_link_resolve(link, d->rmt_stadd, ut_desc_length(d), false, slot->fresh, &x.rmt, &x.rkey);
    if (rc != 0)
        return rc == UTOFU_ERR_NOT_COMPLETED ? UT_NOT_NOW : ut_post_fails(link, slot, rc);
    x.flags = post_flags(vcq, slot) | ut_post_fence(link, slot);
    rc = link->ops->read(link->conn, &x);
    if (rc < 0)
        return ut_post_refused(link, slot, rc);
    slot->pending++;
    slot->tcq_ready = true; /* the request is sent */
    if (!(rc & PROV_COMPLETE))
        link->reads_out++;
    if (!ut_slot_wants_remote_notice(slot))
        return accepted(link, slot, rc);
    if (rc & PROV_COMPLETE)
        slot->pending--;
    slot->stage = 1;
    return post_notice(link, slot);
}

static inline enum ut_outcome post(struct ut_link *link, struct ut_slot *slot)
{
    switch (slot->desc.kind) {
    case UT_DESC_PUT:
    case UT_DESC_PIGGYBACK:
        return post_put(link, slot);
    case UT_DESC_GET:
        return post_get(link, slot);
    default:
        return ut_armw_post(link, slot);
    }
}

void ut_engine_pump(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    if (link->state != UT_LINK_UP)
        return;
    if (__builtin_expect(link->msg_to_post != NULL, 0))
        ut_link_post_messages(link);
    if (__builtin_expect(vcq->armw_words && link->armw_out > 0, 0))
        ut_armw_resume(link);
    while (link->to_post != UT_NO_SLOT) {
        struct ut_slot *slot = &vcq->toq[link->to_post];
        if (slot->state == UT_SLOT_WAITING) {
            if (link->reading != UT_STAG_NONE || post(link, slot) == UT_NOT_NOW) {
                /* the program may never call again: the background thread sees it through */
                ut_link_wait(link);
                return;
            }
        }
        link->to_post = slot->next;
    }
}
