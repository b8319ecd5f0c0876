/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects other writers of the remote memory of a held put. The memory, of this process or of
 * another one on this node, is copied when the put is submitted, and compared when the put starts.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "check/inner.h"
#include "check/table.h"
#include "link/link.h"
#include "peers/peers.h"

enum {
    MAX_COPIES = 16, /* the memory of more puts is not compared */
    END_SIZE = 2048, /* number of bytes compared at each end of a longer put */
};

struct copy {
    uint8_t bytes[2 * END_SIZE];
    uint8_t beside[2 * UT_CACHE_LINE]; /* copy of the rest of the first and the last cache line */
    bool has_beside;                   /* `beside` was copied while no other communication was
                                        * outstanding */
    uint64_t submitted;                /* number of submitted communications at that time */
};

static struct {
    uint32_t used; /* atomic: one bit per copy */
    struct copy copy[MAX_COPIES];
} copies;

static uint8_t take_copy(void)
{
    uint32_t word = __atomic_load_n(&copies.used, __ATOMIC_RELAXED);

    while (word != (1u << MAX_COPIES) - 1) {
        unsigned int i = (unsigned int)__builtin_ctz(~word);
        if (__atomic_compare_exchange_n(&copies.used, &word, word | 1u << i, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return (uint8_t)(i + 1);
    }
    return 0;
}

void ut_target_forget(struct ut_check_op *op)
{
    if (op->copy)
        __atomic_and_fetch(&copies.used, ~(1u << (op->copy - 1)), __ATOMIC_RELEASE);
    op->copy = 0;
}

/* Copies memory that other threads may be writing, which this mode wants to detect. The memory
 * beside the target of a put may belong to nothing. */
__attribute__((no_sanitize("thread"), no_sanitize("address"))) static void copy_own(
    uint8_t *to, const uint8_t *from, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        to[i] = ((const volatile uint8_t *)from)[i];
}

/* Reads memory of another process on this node, if that process exists and permits it. */
static bool read_other(uint32_t rank, uint64_t at, void *to, size_t size)
{
    struct iovec here = {to, size}, there = {(void *)(uintptr_t)at, size};
    int error = errno; /* errno of the program, restored below */
    pid_t pid = ut_table_pid_of(rank);
    bool done = pid != 0 && process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)size;

    errno = error;
    return done;
}

static bool read_at(const struct ut_check_op *op, uint64_t at, uint8_t *to, uint32_t size)
{
    const uint8_t *from = (const uint8_t *)(uintptr_t)at;

    if (op->rmt_rank != ut_check_job->rank)
        return read_other(op->rmt_rank, at, to, size);
    if (!ut_check_is_readable(from, size))
        return false;
    copy_own(to, from, size);
    return true;
}

/* The compared parts of a put: two pieces; the second one is at the end of a long put. */
struct pieces {
    uint32_t first, second;
    uint32_t at; /* offset of the second piece */
};

static struct pieces pieces_of(uint32_t length)
{
    if (length <= 2 * END_SIZE)
        return (struct pieces){length, 0, length};
    return (struct pieces){END_SIZE, END_SIZE, length - END_SIZE};
}

static bool read_memory(const struct ut_check_op *op, uint8_t *to)
{
    const struct pieces p = pieces_of(op->length);

    return read_at(op, op->rmt_at, to, p.first) &&
           (p.second == 0 || read_at(op, op->rmt_at + p.at, to + p.first, p.second));
}

/* Copies the rest of the put's cache lines. Returns the size; -1: not readable. */
static int read_beside(const struct ut_check_op *op, uint8_t *to)
{
    const struct ut_range own = {op->rmt_at, op->rmt_at + op->length}, all = ut_lines_of(own);
    uint32_t before = (uint32_t)(own.from - all.from), behind = (uint32_t)(all.to - own.to);

    if ((before > 0 && !read_at(op, all.from, to, before)) ||
        (behind > 0 && !read_at(op, own.to, to + before, behind)))
        return -1;
    return (int)(before + behind);
}

/* Copies the rest of the cache lines. Other communications may also change this memory, so it is
 * copied only while none is outstanding. */
static bool copy_beside(const struct ut_vcq *vcq, const struct ut_check_op *op)
{
    struct copy *copy = &copies.copy[op->copy - 1];

    return !vcq->shuffled && ut_table_has_one_active(ut_check_job, &copy->submitted) &&
           read_beside(op, copy->beside) > 0;
}

static bool is_beside_changed(const struct ut_check_op *op)
{
    const struct copy *copy = &copies.copy[op->copy - 1];
    uint8_t now[sizeof(copy->beside)];
    uint64_t submitted;
    int size = copy->has_beside ? read_beside(op, now) : 0;

    return size > 0 && memcmp(now, copy->beside, (size_t)size) != 0 &&
           ut_table_has_one_active(ut_check_job, &submitted) && submitted == copy->submitted;
}

static bool slot_writes(const struct ut_slot *slot)
{
    return slot->desc.kind == UT_DESC_PUT || slot->desc.kind == UT_DESC_PIGGYBACK ||
           slot->desc.kind == UT_DESC_ARMW;
}

/* True if two communications use different memory, as far as known. */
static bool are_apart(const struct ut_slot *a, const struct ut_check_op *op_a,
                      const struct ut_slot *b, const struct ut_check_op *op_b)
{
    const struct ut_desc *da = &a->desc, *db = &b->desc;
    uint64_t at_a = da->rmt_stadd, at_b = db->rmt_stadd;

    if (op_a->rmt_known && op_b->rmt_known && op_a->rmt_rank == op_b->rmt_rank) {
        at_a = op_a->rmt_at;
        at_b = op_b->rmt_at;
    } else if (op_a->rmt_known && op_b->rmt_known && op_b->rmt_rank != UT_NO_RANK) {
        return true;
    } else if (ut_vcq_id_key(da->rmt_vcq_id) != ut_vcq_id_key(db->rmt_vcq_id) ||
               ut_stadd_stag(at_a) != ut_stadd_stag(at_b)) {
        return false;
    }
    return !ut_ranges_overlap((struct ut_range){at_a, at_a + ut_desc_length(da)},
                              (struct ut_range){at_b, at_b + ut_desc_length(db)});
}

/* The communication of this process whose memory is about to be copied. */
struct mine {
    struct ut_vcq *vcq;
    const struct ut_slot *slot;
    bool alone; /* no earlier communication of this process may write the memory */
};

static void look_at_slots(struct ut_vcq *vcq, struct mine *m)
{
    for (uint32_t i = vcq->toq_head; m->alone && i != vcq->toq_tail; i++) {
        const struct ut_slot *slot = &vcq->toq[i & vcq->toq_mask];
        if (slot == m->slot)
            break;
        if (slot->state != UT_SLOT_RETIRED && slot->state != UT_SLOT_FREE && slot_writes(slot) &&
            !are_apart(m->slot, ut_check_op_of(m->vcq, m->slot), slot, ut_check_op_of(vcq, slot)))
            m->alone = false;
    }
}

static void look_at_other(struct ut_vcq *vcq, void *arg)
{
    struct mine *m = arg;

    if (vcq == m->vcq || !m->alone)
        return;
    if (!ut_trylock(&vcq->lock)) {
        m->alone = false;
        return;
    }
    if (vcq->num_eps && vcq->check)
        look_at_slots(vcq, m);
    ut_unlock(&vcq->lock);
}

/* True if data of an earlier put may still arrive. With the shuffle mode the TCQ entry of a put may
 * precede its data. A later put with STRONG_ORDER waits for these data, which must not count as a
 * change by another process. */
static bool may_be_behind(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    return vcq->shuffled && (slot->desc.flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER);
}

void ut_target_copy(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct ut_check_op *op = ut_check_op_of(vcq, slot);
    struct mine m = {vcq, slot, true};

    if (!slot_writes(slot) || slot->desc.kind == UT_DESC_ARMW || op->length == 0 ||
        !op->rmt_known || op->rmt_rank == UT_NO_RANK || may_be_behind(vcq, slot))
        return;
    look_at_slots(vcq, &m);
    if (m.alone)
        ut_vcq_for_each(look_at_other, &m);
    if (!m.alone)
        return;
    op->copy = take_copy();
    if (op->copy && !read_memory(op, copies.copy[op->copy - 1].bytes))
        ut_target_forget(op);
    if (op->copy)
        copies.copy[op->copy - 1].has_beside = copy_beside(vcq, op);
}

/* True if a byte is neither the old byte nor the one that the put writes. */
static bool copy_differs(const uint8_t *before, const uint8_t *now, const uint8_t *source,
                         uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        if (now[i] != before[i] && now[i] != source[i])
            return true;
    return false;
}

static bool was_changed(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    const struct ut_check_op *op = ut_check_op_of(vcq, slot);
    const uint8_t *before = copies.copy[op->copy - 1].bytes, *source = ut_check_source(vcq, slot);
    const struct pieces p = pieces_of(op->length);
    uint8_t now[2 * END_SIZE];

    if (!read_memory(op, now) || memcmp(now, before, p.first + p.second) == 0)
        return false;
    return source && (copy_differs(before, now, source, p.first) ||
                      copy_differs(before + p.first, now + p.first, source + p.at, p.second));
}

/* True if the STag in the table of a process on this node still has this memory. */
static bool is_in_table(struct ut_vcq *vcq, const struct ut_slot *slot, uint32_t rank)
{
    struct ut_stag_entry e;
    struct ut_cached_stag known;
    uint64_t at;

    return ut_link_get_cached_entry(vcq, slot->desc.rmt_vcq_id, slot->desc.rmt_stadd, &at,
                                    &known) &&
           read_other(rank, at, &e, sizeof(e)) && e.check == ut_stag_entry_check(&e) &&
           e.base == known.base && e.size == known.size && e.info == known.flags_and_generation;
}

bool ut_target_is_there(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    const struct ut_check_op *op = ut_check_op_of(vcq, slot);

    if (!op->rmt_known || op->rmt_rank == UT_NO_RANK)
        return false;
    return op->rmt_rank == ut_check_job->rank || is_in_table(vcq, slot, op->rmt_rank) ||
           ut_link_recheck_entry(vcq, slot->desc.rmt_vcq_id, slot->desc.rmt_stadd);
}

void ut_target_compare(struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct ut_check_op *op = ut_check_op_of(vcq, slot);

    if (!op->copy)
        return;
    if (was_changed(vcq, slot) && ut_target_is_there(vcq, slot)) {
        const struct ut_check_report r = {
            .id = UT_CHECK_REMOTE, .vcq = vcq, .slot = slot, .op = op};
        ut_check_report(&r);
    }
    if (is_beside_changed(op) && ut_target_is_there(vcq, slot))
        ut_check_note_line(op->caller);
    ut_target_forget(op);
}
