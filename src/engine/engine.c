/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and posting descriptors, and room for them. See engine.h for the order of reading. */
#include "engine/short.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "armw/armw.h"
#include "progress/progress.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/idle.h"
#include "util/log.h"
#include "watch/watch.h"

/* What posting one descriptor led to. */
enum outcome {
    POSTED,  /* all of it is with the provider, or it is finished */
    NOT_NOW, /* the link is told when to go on */
};

enum { MAX_SHORTFALL = 2000, INLINE_EVERY = 64 };

/* An error that the local TNI meets: TCQ entry, no MRQ notice. */
static enum outcome fail_tcq(struct ut_link *link, struct ut_slot *slot, int rc)
{
    slot->tcq_rc = (int16_t)rc;
    ut_engine_finish(link, slot);
    return POSTED;
}

/* Any later error: MRQ notice whether asked for or not. */
static enum outcome fail_mrq(struct ut_link *link, struct ut_slot *slot, int rc)
{
    slot->mrq_rc = (int16_t)rc;
    ut_engine_finish(link, slot);
    return POSTED;
}

/*
 * Posting
 */

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

/* A negative return of the provider, with nothing of the operation posted. */
static enum outcome refused(struct ut_link *link, struct ut_slot *slot, int rc)
{
    if (link->vcq->watch && (rc == -EAGAIN || (rc == -EACCES && slot->retries == 0)))
        ut_watch_retry(link);
    switch (rc) {
    case -EAGAIN:
        ut_link_wait(link);
        return NOT_NOW;
    case -ENOTCONN:
        return NOT_NOW; /* down() tells */
    case -EACCES:
        /* the entry may be one of an earlier registration: look again, once */
        if (slot->retries++ == 0) {
            ut_link_forget(link, slot->desc.rmt_stadd);
            slot->fresh = false;
            ut_link_wait(link);
            return NOT_NOW;
        }
        return fail_mrq(link, slot, UTOFU_ERR_MRQ_RMT_MEMORY);
    case -EFAULT:
        return fail_mrq(link, slot, UTOFU_ERR_MRQ_RMT_MEMORY);
    case -EPERM:
        return slot->desc.kind == UT_DESC_GET ? fail_mrq(link, slot, UTOFU_ERR_MRQ_LCL_MEMORY)
                                              : fail_tcq(link, slot, UTOFU_ERR_TCQ_MEMORY);
    default:
        return fail_mrq(link, slot, UTOFU_ERR_MRQ_OTHER);
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

/* A STRONG_ORDER communication starts behind earlier reads and atomics: the device's fence orders
 * it behind its own; for an ARMW that the target's CPU executes it waits here. Remote notices come
 * in the order of the TOQ: the one of an ARMW by the device is sent when it has come back. */
static bool must_wait(const struct ut_link *link, const struct ut_slot *slot)
{
    if (__builtin_expect(link->armw_out == 0, 1))
        return false;
    return (slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER) ||
           (link->vcq->armw_words && ut_slot_wants_remote_notice(slot) &&
            untold_before(link, slot));
}

static uint32_t fence_flag(const struct ut_link *link, const struct ut_slot *slot)
{
    bool strong = slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER;

    return strong && link->reads_out > 0 ? PROV_FENCE : 0;
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
static enum outcome accepted(struct ut_link *link, struct ut_slot *slot, int rc)
{
    slot->stage++;
    slot->state = UT_SLOT_POSTED;
    if (rc & PROV_COMPLETE) {
        slot->pending--;
        if (slot->pending == 0)
            ut_engine_finish(link, slot);
    }
    return POSTED;
}

static enum outcome post_notice(struct ut_link *link, struct ut_slot *slot)
{
    uint32_t flags = post_flags(link->vcq, slot);
    int rc = send_notice(link, slot, flags);

    if (rc < 0)
        return refused(link, slot, rc);
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
static inline enum outcome post_put(struct ut_link *link, struct ut_slot *slot)
{
    struct ut_vcq *vcq = link->vcq;
    struct ut_desc *d = &slot->desc;
    uint32_t number = ut_slot_number(vcq, slot);

    if (slot->stage == 1)
        return post_notice(link, slot);
    if (must_wait(link, slot))
        return NOT_NOW;

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
        return rc == UTOFU_ERR_NOT_COMPLETED ? NOT_NOW : fail_mrq(link, slot, rc);

    x.flags = post_flags(vcq, slot) | fence_flag(link, slot);
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
        return refused(link, slot, rc);
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
static enum outcome post_get(struct ut_link *link, struct ut_slot *slot)
{
    struct ut_vcq *vcq = link->vcq;
    const struct ut_desc *d = &slot->desc;
    uint32_t number = ut_slot_number(vcq, slot);
    struct ut_stag_local *local;
    uint8_t *dest;

    if (slot->stage == 1)
        return post_notice(link, slot);
    if (must_wait(link, slot))
        return NOT_NOW;
    enum ut_stag_result r =
        ut_stag_resolve(vcq->stags, d->lcl_stadd, ut_desc_length(d), true, &local, &dest);
    if (r != UT_STAG_OK)
        return fail_mrq(link, slot, lcl_mrq_error(r));
    struct prov_xfer x = {.lcl = dest,
                          .length = ut_desc_length(d),
                          .lkey = local->lkey[link->provider],
                          .cookie = ut_cookie(UT_COOKIE_SLOT, number)};
    int rc =
        ut_link_resolve(link, d->rmt_stadd, ut_desc_length(d), false, slot->fresh, &x.rmt, &x.rkey);
    if (rc != 0)
        return rc == UTOFU_ERR_NOT_COMPLETED ? NOT_NOW : fail_mrq(link, slot, rc);
    x.flags = post_flags(vcq, slot) | fence_flag(link, slot);
    rc = link->ops->read(link->conn, &x);
    if (rc < 0)
        return refused(link, slot, rc);
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

/* The target's CPU executes: stage 1 is on its way, stage 2 is answered. */
static enum outcome post_armw_message(struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    uint32_t number = ut_slot_number(link->vcq, slot);
    struct ut_msg_armw m = {
        .head = {.type = UT_MSG_ARMW,
                 .edata = d->edata,
                 .flags = ut_slot_wants_remote_notice(slot) ? UT_MSG_FLAG_WANTS_NOTICE : 0,
                 .slot = number},
        .rmt_stadd = d->rmt_stadd,
        .operand = d->operand,
        .compare = d->compare,
        .op = (uint8_t)d->op,
        .size = (uint8_t)ut_desc_length(d),
    };

    if (must_wait(link, slot))
        return NOT_NOW;
    uint32_t flags = fence_flag(link, slot) | (link->vcq->unflushed ? PROV_MORE : 0u);
    /* the answer says that it arrived; by the time of its completion the slot may be another's */
    int rc = link->ops->send(link->conn, &m, sizeof(m), flags | PROV_SOLICITED,
                             ut_cookie(UT_COOKIE_NONE, 0));
    if (rc < 0)
        return refused(link, slot, rc);
    slot->msg_number = ut_link_count_tx(link);
    slot->tcq_ready = true;
    slot->state = UT_SLOT_POSTED;
    slot->stage = 1;
    link->armw_out++;
    return POSTED;
}

/*
 * ARMW by the device: fetch-and-add and compare-and-swap of 8 bytes natively, everything else by
 * compare-and-swap of the aligned word until nobody was faster. Stage 1: an atomic is posted;
 * stage 2: the remote notice is. slot->rmt_value is the word that the last atomic found.
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
                            .flags = PROV_SIGNAL | fence_flag(link, slot),
                            .cookie = ut_cookie(UT_COOKIE_SLOT, number)};
    uint64_t addr;
    int rc =
        ut_link_resolve(link, d->rmt_stadd, ut_desc_length(d), true, slot->fresh, &addr, &a.rkey);

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

static enum outcome post_armw_notice(struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    struct ut_msg_notice m = {.head = {.type = UT_MSG_ARMW_NOTICE, .edata = d->edata},
                              .rmt_stadd = d->rmt_stadd};
    int rc = link->ops->send(link->conn, &m, sizeof(m), PROV_SIGNAL | PROV_FENCE,
                             ut_cookie(UT_COOKIE_SLOT, ut_slot_number(link->vcq, slot)));

    if (rc == -EAGAIN || rc == -ENOTCONN)
        return refused(link, slot, rc);
    if (rc < 0)
        return fail_mrq(link, slot, UTOFU_ERR_MRQ_OTHER);
    slot->msg_number = ut_link_count_tx(link);
    slot->stage = 3;
    slot->pending++;
    if (rc & PROV_COMPLETE) {
        slot->pending--;
        ut_engine_finish(link, slot);
    }
    return POSTED;
}

/* An atomic came back with `found` in the word: done, or once more. */
void ut_engine_atomic_done(struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    uint64_t found = link->vcq->armw_words[ut_slot_number(link->vcq, slot)];
    unsigned int shift = ut_desc_length(d) == 4 ? (unsigned int)(d->rmt_stadd & 4) * 8 : 0;

    if (!armw_is_native(d) && found != slot->rmt_value) {
        slot->rmt_value = found;
        slot->stage = 1;
        int rc = post_atomic(link, slot);
        if (rc >= 0) {
            slot->pending++;
            link->reads_out++;
            return;
        }
        slot->stage = 4; /* to be posted again */
        ut_link_wait(link);
        return;
    }
    slot->rmt_value = ut_armw_word_extract(ut_desc_length(d), shift, found);
    slot->applied = true; /* should the connection break now, only the notice is repeated */
    slot->stage = 2;
    if (!ut_slot_wants_remote_notice(slot)) {
        ut_engine_finish(link, slot);
        return;
    }
    if (post_armw_notice(link, slot) == NOT_NOW)
        ut_link_wait(link);
}

/*
 * ARMW by this CPU, where it reaches the target's memory: coherent with the target's own and with
 * what the target executes for others. One that is on its way to the target goes first.
 */

static void *direct_word(struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    uint32_t size = ut_desc_length(d), rkey;
    uint64_t addr;

    if (!link->ops->direct || link->armw_out > 0 ||
        ut_link_resolve(link, d->rmt_stadd, size, true, slot->fresh, &addr, &rkey) != 0 ||
        addr % size != 0)
        return NULL; /* should something be wrong, the target says what */
    return link->ops->direct(link->conn, addr, size, rkey);
}

static enum outcome post_applied_notice(struct ut_link *link, struct ut_slot *slot)
{
    link->armw_out++;
    slot->stage = 2;
    enum outcome o = post_armw_notice(link, slot);
    if (o == NOT_NOW) {
        link->armw_out--;
        slot->stage = 0;
    } else if (slot->state == UT_SLOT_WAITING) {
        slot->state = UT_SLOT_POSTED;
    }
    return o;
}

static enum outcome post_armw_cpu(struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;

    if (must_wait(link, slot))
        return NOT_NOW;
    void *word = direct_word(link, slot);
    if (!word)
        return post_armw_message(link, slot);
    slot->rmt_value = ut_armw_apply(word, ut_desc_length(d), d->op, d->operand, d->compare);
    slot->applied = slot->tcq_ready = true;
    if (ut_slot_wants_remote_notice(slot))
        return post_applied_notice(link, slot);
    ut_engine_finish(link, slot);
    return POSTED;
}

static enum outcome post_armw_device(struct ut_link *link, struct ut_slot *slot)
{
    if (must_wait(link, slot))
        return NOT_NOW;
    int rc = post_atomic(link, slot);
    if (rc == UTOFU_ERR_NOT_COMPLETED)
        return NOT_NOW;
    if (rc <= UTOFU_ERR_MRQ_OTHER)
        return fail_mrq(link, slot, rc);
    if (rc < 0)
        return refused(link, slot, rc);
    slot->state = UT_SLOT_POSTED;
    slot->stage = 1;
    slot->pending++;
    slot->tcq_ready = true;
    link->armw_out++;
    link->reads_out++;
    return POSTED;
}

/* Device ARMWs in the middle of the link that could not go on when they wanted to. */
static void resume_atomics(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    for (uint32_t n = link->first; n != UT_NO_SLOT && n != link->to_post;) {
        struct ut_slot *slot = &vcq->toq[n];
        n = slot->next; /* the slot may be finished below */
        if (slot->desc.kind != UT_DESC_ARMW || slot->state != UT_SLOT_POSTED || slot->pending)
            continue;
        if (slot->stage == 2) {
            post_armw_notice(link, slot);
        } else if (slot->stage == 4) {
            int rc = post_atomic(link, slot);
            if (rc >= 0) {
                slot->stage = 1;
                slot->pending++;
                link->reads_out++;
            } else if (rc == -EAGAIN || rc == UTOFU_ERR_NOT_COMPLETED) {
                ut_link_wait(link);
            } else if (rc != -ENOTCONN) {
                fail_mrq(link, slot, rc <= UTOFU_ERR_MRQ_OTHER ? rc : UTOFU_ERR_MRQ_RMT_MEMORY);
            }
        }
    }
}

static inline enum outcome post(struct ut_link *link, struct ut_slot *slot)
{
    switch (slot->desc.kind) {
    case UT_DESC_PUT:
    case UT_DESC_PIGGYBACK:
        return post_put(link, slot);
    case UT_DESC_GET:
        return post_get(link, slot);
    default:
        if (slot->applied)
            return post_applied_notice(link, slot);
        return link->vcq->armw_words ? post_armw_device(link, slot) : post_armw_cpu(link, slot);
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
        resume_atomics(link);
    while (link->to_post != UT_NO_SLOT) {
        struct ut_slot *slot = &vcq->toq[link->to_post];
        if (slot->state == UT_SLOT_WAITING) {
            if (link->reading != UT_STAG_NONE || post(link, slot) == NOT_NOW) {
                /* the program may never call again: the background thread sees it through */
                ut_link_wait(link);
                return;
            }
        }
        link->to_post = slot->next;
    }
}

/*
 * Starting
 */

static bool put_at_once(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;
    struct ut_put put = {.rmt_vcq_id = d->rmt_vcq_id,
                         .lcl_stadd = d->lcl_stadd,
                         .rmt_stadd = d->rmt_stadd,
                         .length = ut_desc_length(d),
                         .word_flags = d->word & (uint32_t)UT_DESC_WORD_FLAGS,
                         .flags = d->flags,
                         .edata = d->edata,
                         .cbdata = slot->cbdata};

    return d->kind == UT_DESC_PUT && ut_put_at_once(vcq, &put);
}

/* The short way of an ARMW, on a word that this CPU reaches. */
static bool armw_at_once(struct ut_vcq *vcq, struct ut_link *link, struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;

    if (d->kind != UT_DESC_ARMW || !ut_link_is_clear(link) || link->first != UT_NO_SLOT ||
        vcq->armw_words || ut_slot_wants_remote_notice(slot) || (d->flags & UT_DESC_WATCHED))
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

static void start(struct ut_vcq *vcq, struct ut_slot *slot)
{
    if (slot->desc.kind == UT_DESC_NOP) {
        slot->tcq_ready = true;
        slot->state = UT_SLOT_RETIRED;
        return;
    }
    struct ut_link *link = ut_link_to(vcq, slot->desc.rmt_vcq_id);
    if (__builtin_expect(!link, 0)) {
        slot->tcq_rc = UTOFU_ERR_TCQ_OTHER;
        slot->tcq_ready = true;
        slot->state = UT_SLOT_RETIRED;
        ut_error("engine", "no memory for another peer");
        return;
    }
    if (armw_at_once(vcq, link, slot))
        return;
    uint32_t number = ut_slot_number(vcq, slot);
    slot->state = UT_SLOT_WAITING;
    ut_link_append(link, slot, number);
    if (__builtin_expect(link->to_post != UT_NO_SLOT, 0))
        return; /* others wait before it; they are pumped when they can move */
    link->to_post = number;
    if (__builtin_expect(link->state == UT_LINK_UP, 1))
        ut_engine_pump(link);
    else if (link->state == UT_LINK_DEAD)
        ut_engine_fail_all(link, UTOFU_ERR_MRQ_PEER);
    else
        ut_link_want(link);
}

static void flush(struct ut_vcq *vcq)
{
    vcq->unflushed = false;
    for (unsigned int i = 0; i < vcq->num_eps; i++)
        vcq->eps[i].ops->ep_flush(vcq->eps[i].ep);
}

static void start_watched(struct ut_vcq *vcq, struct ut_slot *slot)
{
    ut_watch_start(vcq, slot);
    start(vcq, slot);
    ut_watch_started(vcq, slot);
}

/* Starts descriptors up to the schedule pointer; in free mode that is the tail. */
static void start_due(struct ut_vcq *vcq)
{
    bool session = vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE;

    if (vcq->toq_exec == vcq->toq_tail)
        return;
    bool batch = vcq->toq_tail - vcq->toq_exec > 1;
    vcq->unflushed = batch;
    while (vcq->toq_exec != vcq->toq_tail) {
        if (session) {
            if (vcq->started == vcq->scheduled)
                break;
            vcq->started++;
        }
        struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_exec++);
        if (__builtin_expect(vcq->watch != NULL, 0))
            start_watched(vcq, slot);
        else
            start(vcq, slot);
    }
    if (batch)
        flush(vcq);
}

static inline void enter_toq(struct ut_slot *slot)
{
    memset(slot->as_new, 0, sizeof(slot->as_new));
    slot->state = UT_SLOT_SUBMITTED;
}

void ut_engine_start_tail(struct ut_vcq *vcq)
{
    struct ut_slot *slot = ut_engine_slot(vcq, 0);

    enter_toq(slot);
    vcq->toq_exec = ++vcq->toq_tail;
    start(vcq, slot);
}

void ut_engine_submit(struct ut_vcq *vcq, uint32_t n, bool delay)
{
    if (n == 1 && !delay && ut_engine_starts_at_once(vcq)) {
        if (!put_at_once(vcq, ut_engine_slot(vcq, 0)))
            ut_engine_start_tail(vcq);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        enter_toq(ut_engine_slot(vcq, i));
    if (vcq->watch)
        ut_watch_submit(vcq, n);
    vcq->toq_tail += n;
    if (!delay)
        start_due(vcq);
}

void ut_engine_schedule(struct ut_vcq *vcq, unsigned int sps)
{
    if (!(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE))
        return;
    vcq->scheduled += sps;
    start_due(vcq);
    if (vcq->scheduled - vcq->started > MAX_SHORTFALL && !vcq->shortfall_told) {
        vcq->shortfall_told = true;
        ut_error("session",
                 "VCQ %016llx: puts have arrived for %llu descriptors more than were "
                 "posted; the limit is %d (manual 2.2.8.1). Post descriptors before "
                 "their puts arrive",
                 (unsigned long long)vcq->id, (unsigned long long)(vcq->scheduled - vcq->started),
                 (int)MAX_SHORTFALL);
    }
}

/*
 * Room in the TOQ, and the TCQ
 */

static void reclaim(struct ut_vcq *vcq)
{
    while (vcq->tcq_head != vcq->toq_exec) {
        struct ut_slot *slot = ut_vcq_slot(vcq, vcq->tcq_head);
        if (!slot->tcq_ready || !ut_slot_is_silent(slot))
            break;
        vcq->tcq_head++;
    }
    while (vcq->toq_head != vcq->tcq_head) {
        struct ut_slot *slot = ut_vcq_slot(vcq, vcq->toq_head);
        if (slot->state != UT_SLOT_RETIRED)
            break;
        slot->state = UT_SLOT_FREE;
        vcq->toq_head++;
    }
}

/* Descriptors without notices, and messages, complete with a later one of their link; where there
 * is none, an empty write that reports makes them. */
static void nudge(struct ut_link *link)
{
    struct prov_xfer x = {.flags = PROV_SIGNAL, .cookie = ut_cookie(UT_COOKIE_NONE, 0)};

    if (link->state != UT_LINK_UP || (link->first == UT_NO_SLOT && !link->msg_first) ||
        link->to_post != UT_NO_SLOT || link->nudged)
        return;
    int rc = link->ops->write(link->conn, &x);
    link->nudged = rc >= 0 && !(rc & PROV_COMPLETE);
}

static void nudge_all(struct ut_vcq *vcq)
{
    for (struct ut_link *link = vcq->all_links; link; link = link->all_next)
        nudge(link);
}

void ut_engine_unblock_tcq(struct ut_vcq *vcq)
{
    struct ut_slot *slot = ut_vcq_slot(vcq, vcq->tcq_head);

    if (vcq->tcq_head != vcq->toq_exec && slot->state == UT_SLOT_POSTED && ut_slot_is_silent(slot))
        nudge(slot->link);
}

void ut_engine_release(struct ut_vcq *vcq)
{
    vcq->held_up = false;
    for (struct ut_link *link = vcq->all_links; link; link = link->all_next) {
        nudge(link);
        vcq->held_up |= link->state == UT_LINK_UP && link->first != UT_NO_SLOT && !link->nudged;
    }
    if (!vcq->held_up && !vcq->watch)
        vcq->patience = UT_LEAST_PATIENCE;
}

int ut_engine_make_room(struct ut_vcq *vcq, uint32_t n)
{
    reclaim(vcq);
    if (ut_engine_room(vcq) >= n)
        return 0;
    if (!(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE))
        start_due(vcq); /* what DELAY_START held back */
    ut_engine_progress(vcq);
    reclaim(vcq);
    if (ut_engine_room(vcq) >= n)
        return 0;
    nudge_all(vcq);
    if (vcq->watch)
        ut_watch_busy(vcq);
    return UTOFU_ERR_BUSY;
}

size_t ut_engine_unread_tcq(struct ut_vcq *vcq)
{
    size_t n = 0;

    ut_engine_progress(vcq);
    reclaim(vcq);
    for (uint32_t i = vcq->tcq_head; i != vcq->toq_tail; i++) {
        struct ut_slot *slot = ut_vcq_slot(vcq, i);
        n += !(ut_slot_is_silent(slot) && slot->state >= UT_SLOT_POSTED);
    }
    return n;
}

size_t ut_engine_unread_mrq(struct ut_vcq *vcq)
{
    ut_engine_progress(vcq);
    return vcq->mrq_tail - vcq->mrq_head;
}
/*
 * Progress
 */

bool ut_engine_progress(struct ut_vcq *vcq)
{
    int events = 0;

    for (unsigned int i = 0; i < vcq->num_eps; i++)
        events += vcq->eps[i].ops->ep_poll(vcq->eps[i].ep);
    if (__builtin_expect(vcq->waiting != NULL, 0)) {
        ut_link_step_waiting(vcq);
        events++;
    }
    if (__builtin_expect(vcq->ident.tni == UT_TNI_INTERNAL, 0))
        events += ut_gate_progress(vcq);
    if (__builtin_expect(!ut_progress_has_thread(), 0) && vcq->unattended++ % INLINE_EVERY == 0)
        ut_progress_inline();
    return events > 0;
}

static bool is_idle(const struct ut_vcq *vcq)
{
    for (struct ut_link *link = vcq->all_links; link; link = link->all_next) {
        if (link->first != UT_NO_SLOT || link->msg_first)
            return false;
    }
    return true;
}

void ut_engine_drain(struct ut_vcq *vcq, uint64_t timeout_ms)
{
    uint64_t end = ut_now_ms() + timeout_ms;
    uint64_t next_nudge = 0;

    if (!(vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE))
        start_due(vcq);
    while (!is_idle(vcq)) {
        uint64_t now = ut_now_ms();
        if (now >= end)
            return;
        if (now >= next_nudge) {
            nudge_all(vcq);
            next_nudge = now + 10;
        }
        ut_engine_progress(vcq);
        ut_unlock(&vcq->lock);
        sched_yield();
        ut_lock(&vcq->lock);
    }
}
