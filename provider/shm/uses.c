/* SPDX-License-Identifier: Apache-2.0 */
/* A table of the parts in use, with open addressing. It is at most half full: it grows, and then
 * forgets parts of regions that are deregistered. */
#include "uses.h"

#include <stdlib.h>

#include "mr.h"
#include "util/hash.h"

/* MOST_ROOM: for 8 GiB of a peer's memory; if more are in use, counting begins again. */
enum { FIRST_ROOM = 16, MOST_ROOM = 1 << 13, MOST_ASKED = 3 };

/* What is used of a block of the peer's memory, in one region. */
struct part {
    uint32_t key;
    bool used;
    uint8_t asked;  /* how often without an exchange: the price of the asked part doubles */
    uint64_t block; /* its address divided by SP_USE_BLOCK */
    uint64_t lo, hi;
    uint64_t spent_ns;
    uint64_t asked_lo, asked_hi;
};

struct sp_uses {
    uint32_t room, num; /* room: a power of two */
    struct part parts[];
};

void sp_uses_free(struct sp_conn *conn)
{
    free(conn->uses);
    conn->uses = NULL;
}

static struct sp_uses *make_uses(uint32_t room)
{
    struct sp_uses *uses = calloc(1, sizeof(*uses) + room * sizeof(struct part));

    if (uses)
        uses->room = room;
    return uses;
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

/* The part, or the place for it. */
static struct part *place_of(struct sp_uses *uses, uint32_t rkey, uint64_t block)
{
    uint64_t i = ut_hash_index(block ^ (uint64_t)rkey << 32, 32);
    struct part *p;

    do
        p = &uses->parts[i++ & (uses->room - 1)];
    while (p->used && (p->key != rkey || p->block != block));
    return p;
}

static bool is_registered(const struct sp_conn *conn, uint32_t rkey)
{
    const struct sp_mr_entry *mrs = conn->peer->seg->table.mrs;
    uint64_t base = __atomic_load_n(&sp_mr_entry_of(mrs, rkey)->base, __ATOMIC_RELAXED);

    return sp_mr_allows(mrs, rkey, base, 0, 0);
}

/* Room for another part; false: no memory. */
static bool make_room(struct sp_conn *conn)
{
    struct sp_uses *old = conn->uses;

    if (old && 2 * (old->num + 1) <= old->room)
        return true;
    bool is_full = old && old->room == MOST_ROOM;
    struct sp_uses *uses = make_uses(!old ? FIRST_ROOM : is_full ? MOST_ROOM : 2 * old->room);
    if (!uses)
        return false;
    for (uint32_t i = 0; old && !is_full && i < old->room; i++) {
        const struct part *p = &old->parts[i];
        if (p->used && is_registered(conn, p->key)) {
            *place_of(uses, p->key, p->block) = *p;
            uses->num++;
        }
    }
    free(old);
    conn->uses = uses;
    return true;
}

/* NULL: no memory. */
static struct part *part_of(struct sp_conn *conn, uint32_t rkey, uint64_t block)
{
    struct part *p = conn->uses ? place_of(conn->uses, rkey, block) : NULL;

    if (p && p->used)
        return p;
    if (!make_room(conn))
        return NULL;
    p = place_of(conn->uses, rkey, block);
    *p = (struct part){.used = true, .key = rkey, .block = block, .lo = UINT64_MAX};
    conn->uses->num++;
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
    if (!was_asked_for(p))
        p->asked = 1;
    else if (p->asked < MOST_ASKED)
        p->asked++;
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
    struct part *p = part_of(conn, rkey, block);
    if (!p)
        return false;
    *lo = at & -(uint64_t)SP_USE_PART;
    *hi = (at + size + SP_USE_PART - 1) & -(uint64_t)SP_USE_PART;
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
    return !p || !p->used || p->asked < MOST_ASKED;
}
