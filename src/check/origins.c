/* SPDX-License-Identifier: Apache-2.0 */
/* Enters communications into the node's table, checks them against those of other processes, and
 * lets some linger. */
#include "check/origins.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>

#include "bootstrap/job.h"
#include "link/link.h"
#include "peers/peers.h"
#include "util/clock.h"

enum {
    /* A communication has references in the buckets of its memory pages. The page size is the
     * smallest one that is not smaller than the communication, so that it touches at most two
     * pages. It is compared with communications in the buckets of all page sizes: MAX_PAGES pages
     * each, the first and the last ones of a long range. */
    MIN_PAGE_BITS = 12,
    PAGE_STEP = 4,
    PAGE_SIZES = 4, /* 4 KiB to 16 MiB, the maximum length */
    MAX_PAGES = 32,
    COMPARED = 1 << 20, /* maximum number of bytes of two puts that are compared */
    AT_ONCE = 4096,     /* number of bytes compared at a time */
    LINGER_NS = 2000000,
    /* No communication lingers while lingering has delayed polls for longer than LINGER_FREE_NS
     * plus one of LINGER_SHARE parts of the elapsed time. */
    LINGER_FREE_NS = 30000000,
    LINGER_SHARE = 32,
    FIRST_PAUSE_MS = 1,
    LAST_PAUSE_MS = 256,
};

static struct {
    uint64_t lingered_ns; /* atomic */
    uint64_t opened_at;   /* atomic; 0: no communication has lingered yet */
} lingering;

/* The search for the table of the process with local rank 0. */
static struct {
    pthread_mutex_t lock; /* guards the fields below */
    bool settled;
    uint64_t next_ms, pause_ms;
} search = {.lock = PTHREAD_MUTEX_INITIALIZER, .pause_ms = FIRST_PAUSE_MS};

/*
 * The table
 */

static bool is_settled(int rc)
{
    return rc != -EAGAIN && rc != -EINPROGRESS && rc != -EBUSY && !ut_peers_is_shortage(rc);
}

void ut_origins_open(void)
{
    const struct ut_job_info *job = ut_check_job;
    uint32_t pid, fd;

    if (job->local_rank == 0 || job->local_size < 2 || pthread_mutex_trylock(&search.lock) != 0)
        return;
    uint64_t now = ut_now_ms();
    if (!search.settled && now >= search.next_ms) {
        int rc = ut_peers_check_table(&pid, &fd);
        if (rc == 0)
            rc = ut_table_open(job, pid, fd);
        search.settled = is_settled(rc);
        search.next_ms = now + search.pause_ms;
        search.pause_ms = search.pause_ms < LAST_PAUSE_MS ? 2 * search.pause_ms : LAST_PAUSE_MS;
    }
    pthread_mutex_unlock(&search.lock);
}

/*
 * Memory
 */

static struct ut_range at_stadd(const struct ut_table_comm *c)
{
    return (struct ut_range){c->rmt_stadd, c->rmt_stadd + c->length};
}

static struct ut_range at_address(const struct ut_table_comm *c)
{
    return (struct ut_range){c->rmt_at, c->rmt_at + c->length};
}

/* Two keys for the same memory: VCQ and STADD, and, if known, process and address. */
struct spot {
    uint64_t space;
    struct ut_range range;
};

static unsigned int find_spots(const struct ut_table_comm *c, struct spot spots[2])
{
    spots[0] = (struct spot){ut_check_mix(1, ut_vcq_id_key(c->rmt_vcq_id)), at_stadd(c)};
    spots[1] = (struct spot){ut_check_mix(2, c->rmt_rank), at_address(c)};
    return c->rmt_rank == UT_NO_RANK ? 1 : 2;
}

/* The bucket of a page of 2^bits bytes. */
static uint32_t bucket_of(const struct spot *s, unsigned int bits, uint64_t page)
{
    return ut_table_bucket(ut_check_mix(ut_check_mix(s->space, page), bits));
}

static unsigned int add_references(const struct spot *s, uint32_t buckets[], unsigned int num)
{
    unsigned int bits = MIN_PAGE_BITS;

    while (s->range.to - s->range.from > 1ull << bits)
        bits += PAGE_STEP;
    uint64_t first = s->range.from >> bits, last = (s->range.to - 1) >> bits;
    buckets[num++] = bucket_of(s, bits, first);
    if (last != first)
        buckets[num++] = bucket_of(s, bits, last);
    return num;
}

/* Calls look() for the entries in the pages of the spot until look() returns true. */
static void look_in_pages(const struct spot *s,
                          bool (*look)(const struct ut_table_found *found, void *arg), void *arg)
{
    for (unsigned int i = 0; i < PAGE_SIZES; i++) {
        unsigned int bits = MIN_PAGE_BITS + i * PAGE_STEP;
        uint64_t first = s->range.from >> bits, last = (s->range.to - 1) >> bits;
        for (uint64_t page = first; page <= last; page++) {
            if (page == first + MAX_PAGES / 2 && last - page >= MAX_PAGES / 2)
                page = last - MAX_PAGES / 2 + 1;
            if (ut_table_find(bucket_of(s, bits, page), look, arg))
                return;
        }
    }
}

/*
 * Two communications
 */

/* The communication of this process. */
struct mine {
    struct ut_vcq *vcq;
    const struct ut_slot *slot;
    struct ut_table_comm comm;
};

/* The remote memory of two communications with the same target. */
struct both {
    struct ut_range mine, other;
    bool has_lines; /* the alignment to cache lines is known */
};

static bool is_same_stag(utofu_stadd_t a, utofu_stadd_t b)
{
    return ut_stadd_stag(a) == ut_stadd_stag(b) && ut_stadd_generation(a) == ut_stadd_generation(b);
}

static bool find_common(const struct ut_table_comm *a, const struct ut_table_comm *b,
                        struct both *t)
{
    if (ut_vcq_id_key(a->rmt_vcq_id) == ut_vcq_id_key(b->rmt_vcq_id) &&
        is_same_stag(a->rmt_stadd, b->rmt_stadd)) {
        *t = (struct both){at_stadd(a), at_stadd(b),
                           ut_stadd_stag(a->rmt_stadd) >= UT_STAG_DYNAMIC_BASE};
        return true;
    }
    *t = (struct both){at_address(a), at_address(b), true};
    return a->rmt_rank != UT_NO_RANK && a->rmt_rank == b->rmt_rank;
}

static bool is_put(const struct ut_table_comm *c)
{
    return c->kind == UT_DESC_PUT || c->kind == UT_DESC_PIGGYBACK;
}

static bool is_padded(const struct ut_table_comm *c)
{
    return c->kind == UT_DESC_PIGGYBACK && (c->flags & UTOFU_ONESIDED_FLAG_PADDING);
}

/* Reads `size` bytes at `from` of the source of another process's put. */
static bool read_other(const struct ut_table_found *found, uint64_t from, uint8_t *to, size_t size)
{
    const struct ut_table_comm *c = &found->comm;
    int error = errno; /* errno of the program, restored below */

    if (c->length <= UT_TABLE_INLINE) {
        memcpy(to, c->data + from, size);
        return true;
    }
    struct iovec here = {to, size}, there = {(void *)(uintptr_t)(c->source + from), size};
    ssize_t got = process_vm_readv(ut_table_pid(found), &here, 1, &there, 1, 0);
    errno = error;
    return got == (ssize_t)size;
}

/* Do two puts write different bytes to their common memory? False if that is unknown. Of a long put
 * at most COMPARED bytes are compared. */
static bool write_others(const struct mine *m, const struct ut_table_found *found,
                         const struct both *t)
{
    const uint8_t *source = ut_check_source(m->vcq, m->slot);
    uint64_t from = t->mine.from > t->other.from ? t->mine.from : t->other.from;
    uint64_t to = t->mine.to < t->other.to ? t->mine.to : t->other.to;
    uint8_t other[AT_ONCE];

    if (to - from > COMPARED)
        to = from + COMPARED;
    for (uint64_t at = from; source && at < to; at += AT_ONCE) {
        size_t size = to - at < AT_ONCE ? to - at : AT_ONCE;
        if (!read_other(found, at - t->other.from, other, size))
            return false;
        if (memcmp(source + (at - t->mine.from), other, size) != 0)
            return true;
    }
    return false;
}

/* A get of a word, or of part of a word, may read the old or the new value. */
static bool takes_either(const struct ut_table_comm *c, struct ut_range r)
{
    return c->kind == UT_DESC_GET && r.from % 8 + (r.to - r.from) <= 8;
}

/* The finding for two communications that use the same bytes; UT_CHECK_FINDINGS: none. */
static enum ut_check_id judge_overlap(const struct mine *m, const struct ut_table_found *found,
                                      const struct both *t)
{
    const struct ut_table_comm *a = &m->comm, *b = &found->comm;

    if (a->kind == UT_DESC_ARMW && b->kind == UT_DESC_ARMW)
        return a->length != b->length ? UT_CHECK_ARMW_SIZE : UT_CHECK_FINDINGS;
    if ((a->kind == UT_DESC_GET && b->kind == UT_DESC_GET) || takes_either(a, t->mine) ||
        takes_either(b, t->other))
        return UT_CHECK_FINDINGS;
    if (a->kind == UT_DESC_ARMW || b->kind == UT_DESC_ARMW)
        return UT_CHECK_ORIGINS_ARMW;
    if (is_put(a) && is_put(b) && !write_others(m, found, t))
        return UT_CHECK_FINDINGS;
    return UT_CHECK_ORIGINS;
}

static enum ut_check_id judge_pair(const struct mine *m, const struct ut_table_found *found)
{
    const struct ut_table_comm *a = &m->comm, *b = &found->comm;
    struct both t;

    if (!find_common(a, b, &t))
        return UT_CHECK_FINDINGS;
    if (ut_ranges_overlap(t.mine, t.other))
        return judge_overlap(m, found, &t);
    if (t.has_lines && ((is_padded(a) && b->kind != UT_DESC_GET &&
                         ut_ranges_overlap(ut_lines_of(t.mine), t.other)) ||
                        (is_padded(b) && a->kind != UT_DESC_GET &&
                         ut_ranges_overlap(ut_lines_of(t.other), t.mine))))
        return UT_CHECK_PADDING_LINE;
    return UT_CHECK_FINDINGS;
}

/* Checks the communication of another process. If its entry is still in the table after the
 * comparison, it has not started; the communication of this process starts only later. */
static bool look_at_other(const struct ut_table_found *found, void *arg)
{
    const struct mine *m = arg;
    enum ut_check_id id = judge_pair(m, found);

    if (id == UT_CHECK_FINDINGS || !ut_table_is_held(found))
        return false;
    const struct ut_check_report r = {.id = id,
                                      .vcq = m->vcq,
                                      .slot = m->slot,
                                      .op = ut_check_op_of(m->vcq, m->slot),
                                      .origin = found};
    ut_check_report(&r);
    return true;
}

/*
 * Entering and leaving
 */

/* Copies memory that the program may be writing, which is an error of the program. */
__attribute__((no_sanitize("thread"))) static void copy_bytes(uint8_t *to, const uint8_t *from,
                                                              uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        to[i] = ((const volatile uint8_t *)from)[i];
}

/* Is the remote address certain? Other processes assume that the memory stays at this address while
 * the communication is held. So for the first few communications of a call site the address is read
 * again from the peer's table. */
static bool is_address_certain(struct ut_vcq *vcq, const struct ut_slot *slot, bool first)
{
    const struct ut_check_op *op = ut_check_op_of(vcq, slot);

    return (first || op->rmt_rank == ut_check_job->rank) && ut_target_is_there(vcq, slot);
}

static void describe_comm(struct ut_vcq *vcq, const struct ut_slot *slot, bool first,
                          struct ut_table_comm *c)
{
    const struct ut_check_op *op = ut_check_op_of(vcq, slot);
    const struct ut_check_module_place *place = ut_check_module_place(vcq->check, op->caller);
    const uint8_t *source = slot->desc.kind == UT_DESC_PIGGYBACK ? slot->desc.data : op->mem;

    *c = (struct ut_table_comm){
        .at = op->at,
        .number = op->number,
        .vcq_id = vcq->id,
        .rmt_vcq_id = slot->desc.rmt_vcq_id,
        .rmt_stadd = slot->desc.rmt_stadd,
        .rmt_at = op->rmt_at,
        .rmt_rank = is_address_certain(vcq, slot, first) ? op->rmt_rank : UT_NO_RANK,
        .length = ut_desc_length(&slot->desc),
        .source = (uintptr_t)source,
        .module = place->module,
        .offset = place->offset,
        .rank = ut_check_job->rank,
        .flags = slot->desc.flags,
        .kind = slot->desc.kind,
    };
    memcpy(c->name, place->name, sizeof(c->name));
    if (is_put(c) && c->length <= UT_TABLE_INLINE)
        copy_bytes(c->data, source, c->length);
}

/* True if the communication will fail, or uses no memory that others can use. */
static bool is_harmless(const struct ut_slot *slot, const struct ut_check_op *op)
{
    bool has_memory = slot->desc.kind == UT_DESC_PUT || slot->desc.kind == UT_DESC_GET;

    return slot->desc.kind == UT_DESC_NOP || ut_desc_length(&slot->desc) == 0 ||
           (has_memory && (!op->mem || op->gone));
}

static bool may_linger(uint64_t now)
{
    uint64_t since = __atomic_load_n(&lingering.opened_at, __ATOMIC_RELAXED);

    if (since == 0) {
        __atomic_store_n(&lingering.opened_at, now, __ATOMIC_RELAXED);
        since = now;
    }
    return __atomic_load_n(&lingering.lingered_ns, __ATOMIC_RELAXED) <
           LINGER_FREE_NS + (now - since) / LINGER_SHARE;
}

void ut_origins_enter(struct ut_vcq *vcq, const struct ut_slot *slot, bool first)
{
    struct mine m = {.vcq = vcq, .slot = slot};
    struct ut_check_op *op = ut_check_op_of(vcq, slot);
    uint32_t buckets[UT_TABLE_MAX_REFS];
    struct spot spots[2];
    unsigned int num = 0;

    if (!ut_table_is_shared() || is_harmless(slot, op))
        return;
    describe_comm(vcq, slot, first, &m.comm);
    unsigned int num_spots = find_spots(&m.comm, spots);
    for (unsigned int i = 0; i < num_spots; i++)
        num = add_references(&spots[i], buckets, num);
    op->entry = ut_table_enter(&m.comm, buckets, num);
    if (!op->entry)
        return;
    if (first && may_linger(op->at))
        op->lingers = op->at + LINGER_NS;
    for (unsigned int i = 0; i < num_spots; i++)
        look_in_pages(&spots[i], look_at_other, &m);
}

void ut_origins_leave(struct ut_check_op *op)
{
    if (op->entry)
        ut_table_leave(op->entry);
    op->entry = 0;
}

void ut_origins_lingered(void)
{
    __atomic_add_fetch(&lingering.lingered_ns, LINGER_NS, __ATOMIC_RELAXED);
}

/* Notes whether the poll leaves the oldest communication held. */
static void note_lingering(struct ut_vcq *vcq, bool lingers, uint64_t now)
{
    struct ut_check *check = vcq->check;

    if (lingers) {
        check->polls_before = vcq->idle_polls + 1;
        if (check->lingers_since == 0)
            check->lingers_since = now;
    } else if (check->lingers_since) {
        uint64_t ns = now - check->lingers_since;
        __atomic_add_fetch(&lingering.lingered_ns, ns < LINGER_NS ? ns : LINGER_NS,
                           __ATOMIC_RELAXED);
        check->lingers_since = 0;
    }
}

uint32_t ut_origins_count_startable(struct ut_vcq *vcq, uint32_t max)
{
    uint64_t now = 0;
    uint32_t n = 0;

    for (; n < max; n++) {
        struct ut_check_op *op = ut_check_op_of(vcq, ut_vcq_slot(vcq, vcq->toq_exec + n));
        if (op->lingers == 0)
            continue;
        now = now ? now : ut_clock_ns();
        if (now < op->lingers)
            break;
        op->lingers = 0;
    }
    if (n == 0 || vcq->check->lingers_since)
        note_lingering(vcq, n == 0, now ? now : ut_clock_ns());
    return n;
}
