/* SPDX-License-Identifier: Apache-2.0 */
/* A small table of the parts that were used last; a part that returns after others took its place
 * is counted anew. */
#include "uses.h"

#include <stdlib.h>

#include "mr.h"
#include "util/hash.h"

enum { PARTS = 8, MOST_ASKED = 3 };

/* What is used of a block of the peer's memory, in one region. */
struct part {
    uint32_t key;
    uint32_t asked; /* how often without an exchange: the price of the asked part doubles */
    uint64_t block; /* its address divided by SP_USE_BLOCK */
    uint64_t lo, hi;
    uint64_t spent_ns;
    uint64_t asked_lo, asked_hi;
};

struct sp_uses {
    struct part parts[PARTS];
};

void sp_uses_free(struct sp_conn *conn)
{
    free(conn->uses);
    conn->uses = NULL;
}

/* The region's whole pages; false: it cannot be mapped. */
static bool find_whole(const struct sp_conn *conn, uint32_t rkey, uint64_t *lo, uint64_t *hi)
{
    const struct sp_mr_entry *e = sp_mr_entry_of(conn->peer->seg->table.mrs, rkey);
    uint64_t base = __atomic_load_n(&e->base, __ATOMIC_RELAXED);
    uint64_t size = __atomic_load_n(&e->size, __ATOMIC_RELAXED);

    *lo = (base + SP_REMAP_UNIT - 1) & -(uint64_t)SP_REMAP_UNIT;
    *hi = (base + size) & -(uint64_t)SP_REMAP_UNIT;
    return conn->peer->map_fd >= 0 && __atomic_load_n(&e->mappable, __ATOMIC_RELAXED) && *lo < *hi;
}

static struct part *place_of(struct sp_uses *uses, uint32_t rkey, uint64_t block)
{
    return &uses->parts[ut_hash_index(block ^ (uint64_t)rkey << 32, 32) & (PARTS - 1)];
}

static struct part *part_of(struct sp_uses *uses, uint32_t rkey, uint64_t block)
{
    struct part *p = place_of(uses, rkey, block);

    if (p->key != rkey || p->block != block)
        *p = (struct part){.key = rkey, .block = block, .lo = UINT64_MAX};
    return p;
}

static bool was_asked_for(const struct part *p)
{
    return p->lo < p->asked_hi && p->hi > p->asked_lo;
}

static uint64_t price_of(const struct part *p)
{
    return (p->hi - p->lo) / SP_REMAP_UNIT * SP_PAGE_NS << (was_asked_for(p) ? p->asked : 0);
}

/* Counting begins again. */
static void ask_for(struct part *p, uint64_t *lo, uint64_t *hi)
{
    p->asked = !was_asked_for(p) ? 1 : p->asked + (p->asked < MOST_ASKED);
    *lo = p->asked_lo = p->lo;
    *hi = p->asked_hi = p->hi;
    p->lo = UINT64_MAX;
    p->hi = p->spent_ns = 0;
}

bool sp_uses_note(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size, uint64_t *lo,
                  uint64_t *hi)
{
    uint64_t first, end, block = at / SP_USE_BLOCK;

    if (!find_whole(conn, rkey, &first, &end) || at >= end || at + size <= first)
        return false;
    if (!conn->uses && !(conn->uses = calloc(1, sizeof(*conn->uses))))
        return false;
    *lo = at & -(uint64_t)SP_USE_PART;
    *hi = (at + size + SP_USE_PART - 1) & -(uint64_t)SP_USE_PART;
    struct part *p = part_of(conn->uses, rkey, block);
    p->lo = *lo < p->lo ? *lo : p->lo;
    p->hi = *hi > p->hi ? *hi : p->hi;
    p->lo = p->lo > first ? p->lo : first;
    p->hi = p->hi < end ? p->hi : end;
    p->spent_ns += SP_USE_NS + size / SP_USE_BYTES_PER_NS;
    if (p->spent_ns < price_of(p))
        return false;
    ask_for(p, lo, hi);
    return true;
}

bool sp_uses_may_map(const struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size)
{
    uint64_t first, end, block = at / SP_USE_BLOCK;

    if (!find_whole(conn, rkey, &first, &end) || at < first || at + size > end)
        return false;
    const struct part *p = conn->uses ? place_of(conn->uses, rkey, block) : NULL;
    return !p || p->key != rkey || p->block != block || p->asked < MOST_ASKED;
}
