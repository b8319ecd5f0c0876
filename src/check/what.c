/* SPDX-License-Identifier: Apache-2.0 */
/* What is looked for: in a communication when it is submitted, between it and those that are held,
 * and in its memory until it starts. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check/inner.h"
#include "stag/stag.h"

/*
 * The sum of memory. Of more than SUM_ALL bytes the first and the last SUM_ENDS, and between them
 * one word of each line, not always the same: who changes a buffer changes more than that.
 */

enum { SUM_ALL = 16384, SUM_ENDS = 4096, LANES = 4 };
#define SUM_STEP  (LANES * sizeof(uint64_t))
#define SUM_PRIME 0x9e3779b97f4a7c15ull

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * SUM_PRIME;
    return h ^ h >> 32;
}

static uint64_t sum_bytes(uint64_t h, const uint8_t *p, size_t size)
{
    uint64_t lanes[LANES] = {h, h + 1, h + 2, h + 3}, word[LANES];

    for (; size >= SUM_STEP; p += SUM_STEP, size -= SUM_STEP) {
        memcpy(word, p, SUM_STEP);
        for (unsigned int i = 0; i < LANES; i++)
            lanes[i] = mix(lanes[i], word[i]);
    }
    for (; size >= sizeof(*word); p += sizeof(*word), size -= sizeof(*word)) {
        memcpy(word, p, sizeof(*word));
        lanes[0] = mix(lanes[0], word[0]);
    }
    word[0] = 0;
    memcpy(word, p, size);
    return mix(mix(mix(mix(lanes[0], word[0]), lanes[1]), lanes[2]), lanes[3]);
}

static uint64_t sum_of(const uint8_t *p, uint32_t size, uint64_t number)
{
    uint64_t h = SUM_PRIME, word;

    if (size <= SUM_ALL)
        return sum_bytes(h, p, size);
    h = sum_bytes(sum_bytes(h, p, SUM_ENDS), p + size - SUM_ENDS, SUM_ENDS);
    uint32_t turn = (uint32_t)number % (UT_CACHE_LINE / sizeof(word)) * sizeof(word);
    for (uint32_t at = SUM_ENDS; at < size - SUM_ENDS - UT_CACHE_LINE; at += UT_CACHE_LINE) {
        memcpy(&word, p + at + turn, sizeof(word));
        h = mix(h, word);
    }
    return h;
}

static bool is_mapped(const uint8_t *p, uint32_t size)
{
    static uintptr_t page;
    uintptr_t mask = __atomic_load_n(&page, __ATOMIC_RELAXED);

    if (mask == 0) {
        mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
        __atomic_store_n(&page, mask, __ATOMIC_RELAXED);
    }
    uintptr_t from = (uintptr_t)p & mask;
    return msync((void *)from, (uintptr_t)p + size - from, MS_ASYNC) == 0; /* does only look */
}

/*
 * One communication
 */

static void report(enum ut_check_id id, struct ut_vcq *vcq, const struct ut_slot *slot,
                   const struct ut_slot *other)
{
    const struct ut_check_report r = {.id = id,
                                      .vcq = vcq,
                                      .slot = slot,
                                      .op = ut_check_op_of(vcq, slot),
                                      .other = other,
                                      .other_op = other ? ut_check_op_of(vcq, other) : NULL};

    ut_check_report(&r);
}

static void find_memory(struct ut_vcq *vcq, const struct ut_slot *slot, struct ut_check_op *op)
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
        report(UT_CHECK_STADD, vcq, slot, NULL);
    }
    if (!op->mem || op->length == 0)
        return;
    op->gone = !is_mapped(op->mem, op->length);
    if (op->gone)
        report(UT_CHECK_UNMAPPED, vcq, slot, NULL);
    else if (vcq->check->holds)
        op->sum = sum_of(op->mem, op->length, op->number);
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
        report(UT_CHECK_PADDING_FLAG, vcq, slot, NULL);
}

/*
 * Two communications
 */

/* Half-open. */
struct range {
    uint64_t from, to;
};

static bool meet(struct range a, struct range b)
{
    return a.from < a.to && b.from < b.to && a.from < b.to && b.from < a.to;
}

static struct range remote_of(const struct ut_slot *slot)
{
    uint64_t at = slot->desc.rmt_stadd;

    return (struct range){at, at + ut_desc_length(&slot->desc)};
}

/* The cache lines that it touches; the first offset of a region is that of its address. */
static struct range lines_of(const struct ut_slot *slot)
{
    struct range r = remote_of(slot);
    uint64_t line = UT_CACHE_LINE;

    return (struct range){r.from / line * line, (r.to + line - 1) / line * line};
}

static struct range local_of(const struct ut_check_op *op)
{
    uint64_t at = (uintptr_t)op->mem;

    return (struct range){at, op->mem ? at + op->length : at};
}

/* STRONG_ORDER of the later one, and the same remote VCQ and path. */
static bool is_bound(const struct ut_slot *later, const struct ut_slot *earlier)
{
    return (later->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER) &&
           later->desc.rmt_vcq_id == earlier->desc.rmt_vcq_id &&
           ut_desc_path(&later->desc) == ut_desc_path(&earlier->desc);
}

static bool is_put(const struct ut_slot *slot)
{
    return slot->desc.kind == UT_DESC_PUT || slot->desc.kind == UT_DESC_PIGGYBACK;
}

/* What a put writes, or NULL where it cannot be read. */
static const uint8_t *source_of(const struct ut_slot *slot, const struct ut_check_op *op)
{
    if (slot->desc.kind == UT_DESC_PIGGYBACK)
        return slot->desc.data;
    return !op->mem || op->gone || !is_mapped(op->mem, op->length) ? NULL : op->mem;
}

/* Two puts that write the same bytes where they meet: their order does not matter. */
static bool write_the_same(const struct ut_vcq *vcq, const struct ut_slot *a,
                           const struct ut_slot *b)
{
    const uint8_t *from_a = source_of(a, ut_check_op_of(vcq, a));
    const uint8_t *from_b = source_of(b, ut_check_op_of(vcq, b));
    struct range ra = remote_of(a), rb = remote_of(b);
    uint64_t from = ra.from > rb.from ? ra.from : rb.from, to = ra.to < rb.to ? ra.to : rb.to;

    return is_put(a) && is_put(b) && from_a && from_b &&
           memcmp(from_a + (from - ra.from), from_b + (from - rb.from), to - from) == 0;
}

static void look_at_remote(struct ut_vcq *vcq, const struct ut_slot *later,
                           const struct ut_slot *earlier)
{
    unsigned int a = later->desc.kind, b = earlier->desc.kind;

    if (is_bound(later, earlier) || (a == UT_DESC_GET && b == UT_DESC_GET) ||
        write_the_same(vcq, later, earlier))
        return;
    if (a == UT_DESC_ARMW && b == UT_DESC_ARMW) {
        if (ut_desc_length(&later->desc) != ut_desc_length(&earlier->desc))
            report(UT_CHECK_ARMW_SIZE, vcq, later, earlier);
        return;
    }
    report(a == UT_DESC_ARMW || b == UT_DESC_ARMW ? UT_CHECK_ARMW_MIXED : UT_CHECK_UNORDERED, vcq,
           later, earlier);
}

/* One writes bytes of which nothing is said into the line of the other. */
static bool pads_over(const struct ut_slot *later, const struct ut_slot *earlier)
{
    bool before = is_padded(earlier) && !is_bound(later, earlier) &&
                  later->desc.kind != UT_DESC_GET && meet(lines_of(earlier), remote_of(later));

    return before || (is_padded(later) && earlier->desc.kind != UT_DESC_GET &&
                      meet(lines_of(later), remote_of(earlier)));
}

/* Two gets that fill the memory where they meet with the same remote bytes, as the blocks of one
 * call may. */
static bool fill_the_same(const struct ut_slot *a, const struct ut_slot *b)
{
    return a->desc.kind == UT_DESC_GET && b->desc.kind == UT_DESC_GET &&
           ut_vcq_id_key(a->desc.rmt_vcq_id) == ut_vcq_id_key(b->desc.rmt_vcq_id) &&
           a->desc.lcl_stadd - b->desc.lcl_stadd == a->desc.rmt_stadd - b->desc.rmt_stadd;
}

static void look_at_both(struct ut_vcq *vcq, const struct ut_slot *later,
                         const struct ut_slot *earlier)
{
    bool same_target =
        ut_vcq_id_key(later->desc.rmt_vcq_id) == ut_vcq_id_key(earlier->desc.rmt_vcq_id);
    bool gets = later->desc.kind == UT_DESC_GET, got = earlier->desc.kind == UT_DESC_GET;

    if (earlier->desc.kind == UT_DESC_NOP)
        return;
    if (same_target && meet(remote_of(later), remote_of(earlier)))
        look_at_remote(vcq, later, earlier);
    else if (same_target && pads_over(later, earlier))
        report(UT_CHECK_PADDING_LINE, vcq, later, earlier);
    if ((gets || got) && !(gets && got && is_bound(later, earlier)) &&
        !fill_the_same(later, earlier) &&
        meet(local_of(ut_check_op_of(vcq, later)), local_of(ut_check_op_of(vcq, earlier))))
        report(UT_CHECK_LOCAL, vcq, later, earlier);
}

/* Gets may fill the same memory where STRONG_ORDER binds the later one: what the earlier one fills
 * is no change by the program. */
static bool is_filled_before(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct range mine = local_of(ut_check_op_of(vcq, slot));

    for (uint32_t i = vcq->toq_head; i != vcq->toq_tail; i++) {
        const struct ut_slot *earlier = &vcq->toq[i & vcq->toq_mask];
        if (earlier == slot)
            return false;
        if (earlier->desc.kind == UT_DESC_GET && earlier->state != UT_SLOT_RETIRED &&
            meet(mine, local_of(ut_check_op_of(vcq, earlier))))
            return true;
    }
    return false;
}

void ut_check_look(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    find_memory(vcq, slot, ut_check_op_of(vcq, slot));
    look_at_flags(vcq, slot);
    if (!vcq->check->holds || slot->desc.kind == UT_DESC_NOP)
        return;
    ut_check_op_of(vcq, slot)->shared =
        slot->desc.kind == UT_DESC_GET && is_filled_before(vcq, slot);
    for (uint32_t i = vcq->toq_exec; ut_vcq_slot(vcq, i) != slot; i++)
        look_at_both(vcq, slot, ut_vcq_slot(vcq, i));
}

void ut_check_look_again(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct ut_check_op *op = ut_check_op_of(vcq, slot);

    if (!op->mem || op->length == 0 || op->gone)
        return;
    if (!is_mapped(op->mem, op->length)) {
        op->gone = true;
        report(UT_CHECK_UNMAPPED, vcq, slot, NULL);
    } else if (!op->shared && sum_of(op->mem, op->length, op->number) != op->sum) {
        report(slot->desc.kind == UT_DESC_GET ? UT_CHECK_TARGET : UT_CHECK_SOURCE, vcq, slot, NULL);
    }
}
