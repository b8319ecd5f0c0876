/* SPDX-License-Identifier: Apache-2.0 */
/* The rules: for one communication when it is submitted, for two held communications, and for the
 * memory of a held communication until it starts. */
#include <string.h>

#include "check/inner.h"
#include "link/link.h"
#include "peers/peers.h"
#include "stag/stag.h"

/*
 * One communication
 */

/* A held communication. */
struct held {
    struct ut_vcq *vcq;
    const struct ut_slot *slot;
};

static struct ut_check_op *op_of(struct held h)
{
    return ut_check_op_of(h.vcq, h.slot);
}

static void report_two(enum ut_check_id id, struct held later, struct held earlier)
{
    const struct ut_check_report r = {.id = id,
                                      .vcq = later.vcq,
                                      .slot = later.slot,
                                      .op = op_of(later),
                                      .other_vcq = earlier.vcq,
                                      .other = earlier.slot,
                                      .other_op = earlier.slot ? op_of(earlier) : NULL};

    ut_check_report(&r);
}

static void report_one(enum ut_check_id id, struct ut_vcq *vcq, const struct ut_slot *slot)
{
    report_two(id, (struct held){vcq, slot}, (struct held){0});
}

/* Finds the local memory. Computes its checksum unless `later`. */
static void find_memory(struct ut_vcq *vcq, const struct ut_slot *slot, struct ut_check_op *op,
                        bool later)
{
    const struct ut_desc *d = &slot->desc;
    struct ut_stag_local *local;
    bool get = d->kind == UT_DESC_GET;

    op->mem = NULL;
    op->gone = false;
    op->length = ut_desc_length(d);
    if (d->kind != UT_DESC_PUT && !get)
        return;
    if (ut_stag_resolve(vcq->stags, d->lcl_stadd, op->length, get, &local, &op->mem) !=
        UT_STAG_OK) {
        op->mem = NULL;
        report_one(UT_CHECK_STADD, vcq, slot);
    }
    if (!op->mem || op->length == 0)
        return;
    op->gone = !ut_check_is_mapped(op->mem, op->length);
    if (op->gone)
        report_one(UT_CHECK_UNMAPPED, vcq, slot);
    else if (later || !ut_check_is_readable(op->mem, op->length))
        op->gone = true;
    else
        op->sum = ut_check_sum(op->mem, op->length, op->number);
}

/* Argument of a search by id: the target VCQ in this process. */
struct own_target {
    struct ut_vcq *vcq; /* VCQ of the origin, whose lock is held */
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    uint32_t length;
    struct ut_check_op *op;
};

static void look_up_own(struct ut_vcq *vcq, void *arg)
{
    const struct own_target *t = arg;
    struct ut_check_op *op = t->op;
    struct ut_stag_local *local;
    uint8_t *at;

    if (op->rmt_known || (vcq != t->vcq && !ut_trylock(&vcq->lock)))
        return;
    if (vcq->num_eps && !ut_vcq_is_internal(vcq) &&
        ut_vcq_id_key(vcq->id) == ut_vcq_id_key(t->id) &&
        ut_stag_find(vcq->stags, t->stadd, t->length, false, &local, &at) == UT_STAG_OK) {
        op->rmt_known = true;
        op->rmt_at = (uintptr_t)at;
        op->rmt_rank = ut_check_job->rank;
    }
    if (vcq != t->vcq)
        ut_unlock(&vcq->lock);
}

/* Finds the remote memory, if possible: in the VCQs of this process, or in the entries of the
 * peer's table that were read before. */
static void find_remote(struct ut_vcq *vcq, const struct ut_slot *slot, struct ut_check_op *op)
{
    const struct ut_desc *d = &slot->desc;
    const struct ut_process *process = ut_process_peek();
    struct own_target own = {vcq, d->rmt_vcq_id, d->rmt_stadd, ut_desc_length(d), op};
    struct ut_vcq_ident ident;
    struct ut_peer peer;
    bool certain;

    op->rmt_known = false;
    op->rmt_rank = UT_NO_RANK;
    if (d->kind == UT_DESC_NOP || !ut_vcq_id_unpack(d->rmt_vcq_id, &ident) ||
        !ut_vcq_ident_is_of_program(&ident))
        return;
    bool same_node = memcmp(&ident.coords, &process->coords, sizeof(ident.coords)) == 0;
    if (same_node)
        ut_vcq_for_each(look_up_own, &own);
    if (op->rmt_known ||
        !ut_link_stadd_is_cached(vcq, d->rmt_vcq_id, d->rmt_stadd, ut_desc_length(d), &op->rmt_at))
        return;
    op->rmt_known = true;
    int64_t rank = ut_peers_likely_rank(&ident, &certain);
    if (certain)
        op->rmt_rank = (uint32_t)rank;
    else if (same_node && ut_peers_find_owner(&ident, &peer) == 0)
        op->rmt_rank =
            peer.rank; /* the peer has made the connection, so its rank was not looked up */
}

static bool is_padded(const struct ut_slot *slot)
{
    return (slot->desc.flags & UTOFU_ONESIDED_FLAG_PADDING) && slot->desc.kind == UT_DESC_PIGGYBACK;
}

static void look_at_flags(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    uint16_t flags = slot->desc.flags;

    if ((flags & UTOFU_ONESIDED_FLAG_PADDING) &&
        !(slot->desc.kind == UT_DESC_PIGGYBACK && (flags & UTOFU_ONESIDED_FLAG_CACHE_INJECTION)))
        report_one(UT_CHECK_PADDING_FLAG, vcq, slot);
}

/*
 * Two communications
 */

static struct ut_range range_at(uint64_t at, const struct ut_slot *slot)
{
    return (struct ut_range){at, at + ut_desc_length(&slot->desc)};
}

/* The common remote memory of two communications with the same target. */
struct target {
    struct ut_range later, earlier;
    bool has_lines; /* the alignment to cache lines is known */
    bool of_peer;   /* the address is in the memory of a peer, and must be verified */
};

static bool is_same_target(struct held later, struct held earlier)
{
    return ut_vcq_id_key(later.slot->desc.rmt_vcq_id) ==
           ut_vcq_id_key(earlier.slot->desc.rmt_vcq_id);
}

/* Compares addresses if both are known, which also covers several STADDs of the same memory, and
 * several VCQs of the target. */
static bool find_target(struct held later, struct held earlier, struct target *t)
{
    const struct ut_check_op *a = op_of(later), *b = op_of(earlier);
    uint64_t stadd_a = later.slot->desc.rmt_stadd, stadd_b = earlier.slot->desc.rmt_stadd;
    bool same = is_same_target(later, earlier);

    if (a->rmt_known && b->rmt_known &&
        (same || (a->rmt_rank == b->rmt_rank && a->rmt_rank != UT_NO_RANK))) {
        *t = (struct target){
            .later = range_at(a->rmt_at, later.slot),
            .earlier = range_at(b->rmt_at, earlier.slot),
            .has_lines = true,
            .of_peer = a->rmt_rank != ut_check_job->rank &&
                       !(same && ut_stadd_stag(stadd_a) == ut_stadd_stag(stadd_b)),
        };
        return true;
    }
    /* the first offset is the offset of the address in its page, except with a reserved STag */
    *t = (struct target){
        .later = range_at(stadd_a, later.slot),
        .earlier = range_at(stadd_b, earlier.slot),
        .has_lines = ut_stadd_stag(stadd_a) >= UT_STAG_DYNAMIC_BASE,
    };
    return same;
}

static bool still_there(struct held h)
{
    return ut_target_is_there(h.vcq, h.slot);
}

static void report_at(enum ut_check_id id, struct held later, struct held earlier,
                      const struct target *t)
{
    if (!t->of_peer || (still_there(later) && still_there(earlier)))
        report_two(id, later, earlier);
}

static struct ut_range local_of(const struct ut_check_op *op)
{
    uint64_t at = (uintptr_t)op->mem;

    return (struct ut_range){at, op->mem ? at + op->length : at};
}

/* True if the order is defined: the later communication has STRONG_ORDER, and the same VCQs and
 * path. */
static bool is_bound(struct held later, struct held earlier)
{
    const struct ut_desc *a = &later.slot->desc, *b = &earlier.slot->desc;

    return (a->flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER) && later.vcq == earlier.vcq &&
           a->rmt_vcq_id == b->rmt_vcq_id && ut_desc_path(a) == ut_desc_path(b);
}

static bool is_put(const struct ut_slot *slot)
{
    return slot->desc.kind == UT_DESC_PUT || slot->desc.kind == UT_DESC_PIGGYBACK;
}

/* True if two puts write the same bytes to their common memory, so that their order does not
 * matter. */
static bool write_the_same(struct held a, struct held b, const struct target *t)
{
    if (!is_put(a.slot) || !is_put(b.slot))
        return false;
    const uint8_t *from_a = ut_check_source(a.vcq, a.slot),
                  *from_b = ut_check_source(b.vcq, b.slot);
    struct ut_range ra = t->later, rb = t->earlier;
    uint64_t from = ra.from > rb.from ? ra.from : rb.from, to = ra.to < rb.to ? ra.to : rb.to;
    return from_a && from_b &&
           memcmp(from_a + (from - ra.from), from_b + (from - rb.from), to - from) == 0;
}

/* A get of a word, or of part of a word, reads the old or the new value, and a program that polls
 * with gets accepts both. But not if a later put changes the word after the get. */
static bool takes_either(struct held later, struct held earlier, const struct target *t)
{
    const struct ut_desc *a = &later.slot->desc, *b = &earlier.slot->desc;
    struct ut_range get = a->kind == UT_DESC_GET ? t->later : t->earlier;

    return (a->kind == UT_DESC_GET || (b->kind == UT_DESC_GET && a->kind == UT_DESC_ARMW)) &&
           get.from % 8 + (get.to - get.from) <= 8;
}

static void look_at_remote(struct held later, struct held earlier, const struct target *t)
{
    const struct ut_desc *a = &later.slot->desc, *b = &earlier.slot->desc;
    bool armw = a->kind == UT_DESC_ARMW || b->kind == UT_DESC_ARMW;

    if (is_bound(later, earlier) || (a->kind == UT_DESC_GET && b->kind == UT_DESC_GET) ||
        write_the_same(later, earlier, t) || takes_either(later, earlier, t))
        return;
    if (a->kind != b->kind || !armw)
        report_at(armw ? UT_CHECK_ARMW_MIXED : UT_CHECK_UNORDERED, later, earlier, t);
    else if (ut_desc_length(a) != ut_desc_length(b))
        report_at(UT_CHECK_ARMW_SIZE, later, earlier, t);
}

/* True if one communication writes undefined padding into the cache line of the other. */
static bool pads_over(struct held later, struct held earlier, const struct target *t)
{
    bool before = is_padded(earlier.slot) && !is_bound(later, earlier) &&
                  later.slot->desc.kind != UT_DESC_GET &&
                  ut_ranges_overlap(ut_lines_of(t->earlier), t->later);

    return t->has_lines &&
           (before || (is_padded(later.slot) && earlier.slot->desc.kind != UT_DESC_GET &&
                       ut_ranges_overlap(ut_lines_of(t->later), t->earlier)));
}

/* True if two gets fill their common memory with the same remote bytes, as blocks of one call may.
 */
static bool fill_the_same(struct held later, struct held earlier, const struct target *t)
{
    const struct ut_desc *a = &later.slot->desc, *b = &earlier.slot->desc;

    return a->kind == UT_DESC_GET && b->kind == UT_DESC_GET &&
           (uintptr_t)op_of(later)->mem - (uintptr_t)op_of(earlier)->mem ==
               t->later.from - t->earlier.from;
}

static void look_at_both(struct held later, struct held earlier)
{
    const struct ut_desc *a = &later.slot->desc, *b = &earlier.slot->desc;
    struct target t;
    bool gets = a->kind == UT_DESC_GET, got = b->kind == UT_DESC_GET;

    if (b->kind == UT_DESC_NOP)
        return;
    bool same_target = find_target(later, earlier, &t);
    if (same_target && ut_ranges_overlap(t.later, t.earlier))
        look_at_remote(later, earlier, &t);
    else if (same_target && pads_over(later, earlier, &t))
        report_at(UT_CHECK_PADDING_LINE, later, earlier, &t);
    if ((gets || got) && !(gets && got && is_bound(later, earlier)) &&
        !(same_target && fill_the_same(later, earlier, &t)) &&
        ut_ranges_overlap(local_of(op_of(later)), local_of(op_of(earlier))))
        report_two(UT_CHECK_LOCAL, later, earlier);
}

/* Checks another VCQ of the process, unless a thread is in a call on it. */
static void look_at_other(struct ut_vcq *vcq, void *arg)
{
    const struct held *mine = arg;

    if (vcq == mine->vcq || !ut_trylock(&vcq->lock))
        return;
    for (uint32_t n = vcq->num_eps && vcq->check ? ut_check_num_held(vcq) : 0, i = 0; i < n; i++)
        look_at_both(*mine, (struct held){vcq, ut_vcq_slot(vcq, vcq->toq_exec + i)});
    ut_unlock(&vcq->lock);
}

/* Gets may fill the same memory if the later one has STRONG_ORDER. Then data of the earlier get are
 * not a change by the program. */
static bool is_filled_before(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct ut_range mine = local_of(ut_check_op_of(vcq, slot));

    for (uint32_t i = vcq->toq_head; i != vcq->toq_tail; i++) {
        const struct ut_slot *earlier = &vcq->toq[i & vcq->toq_mask];
        if (earlier == slot)
            return false;
        if (earlier->desc.kind == UT_DESC_GET && earlier->state != UT_SLOT_RETIRED &&
            ut_ranges_overlap(mine, local_of(ut_check_op_of(vcq, earlier))))
            return true;
    }
    return false;
}

void ut_check_examine_submitted(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    find_memory(vcq, slot, ut_check_op_of(vcq, slot), true);
    look_at_flags(vcq, slot);
}

void ut_check_examine(struct ut_vcq *vcq, const struct ut_slot *slot, bool others_hold)
{
    struct held mine = {vcq, slot};

    find_memory(vcq, slot, op_of(mine), false);
    look_at_flags(vcq, slot);
    if (slot->desc.kind == UT_DESC_NOP)
        return;
    find_remote(vcq, slot, op_of(mine));
    op_of(mine)->shared = slot->desc.kind == UT_DESC_GET && is_filled_before(vcq, slot);
    for (uint32_t i = vcq->toq_exec; ut_vcq_slot(vcq, i) != slot; i++)
        look_at_both(mine, (struct held){vcq, ut_vcq_slot(vcq, i)});
    if (others_hold)
        ut_vcq_for_each(look_at_other, &mine);
}

void ut_check_note_local(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct ut_check_op *op = ut_check_op_of(vcq, slot);
    struct ut_stag_local *local;

    op->gone = true;
    if (slot->desc.kind == UT_DESC_GET &&
        ut_stag_resolve(vcq->stags, slot->desc.lcl_stadd, ut_desc_length(&slot->desc), true, &local,
                        &op->mem) == UT_STAG_OK)
        op->length = ut_desc_length(&slot->desc);
    else
        op->mem = NULL;
}

void ut_check_examine_again(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct ut_check_op *op = ut_check_op_of(vcq, slot);

    if (!op->mem || op->length == 0 || op->gone)
        return;
    if (!ut_check_is_mapped(op->mem, op->length)) {
        op->gone = true;
        report_one(UT_CHECK_UNMAPPED, vcq, slot);
    } else if (!op->shared && ut_check_is_readable(op->mem, op->length) &&
               ut_check_sum(op->mem, op->length, op->number) != op->sum) {
        report_one(slot->desc.kind == UT_DESC_GET ? UT_CHECK_TARGET : UT_CHECK_SOURCE, vcq, slot);
    }
}
