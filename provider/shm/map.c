/* SPDX-License-Identifier: Apache-2.0 */
/* Windows are parts of the peer's memfd, of one size and aligned to it. A file offset in the memfd
 * is an address of the peer. The peer's table of regions says which parts of a window may be used.
 * */
#include "map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pages.h"
#include "stream.h"
#include "util/fd_check.h"
#include "util/hash.h"
#include "util/log.h"

enum { WINDOW_BITS = 28, FIRST_BUCKETS = 16 };
#define WINDOW_SIZE (1ull << WINDOW_BITS)

#ifndef MADV_POPULATE_READ
#    define MADV_POPULATE_READ 22
#endif

struct window {
    struct window *next;          /* in its bucket */
    struct window *newer, *older; /* LRU list */
    uint64_t number;              /* first address / WINDOW_SIZE */
    uint8_t *at;
    uint64_t prefaulted[WINDOW_SIZE / SP_MAP_BLOCK / 64]; /* one bit per block */
};

struct sp_map {
    struct window **buckets;
    uint32_t num_buckets, num_windows;
    struct window *newest, *oldest;
};

static struct window **bucket_of(const struct sp_map *map, uint64_t number)
{
    return &map->buckets[ut_hash_index(number, 32) & (map->num_buckets - 1)];
}

static void lru_remove(struct sp_map *map, struct window *w)
{
    *(w->newer ? &w->newer->older : &map->newest) = w->older;
    *(w->older ? &w->older->newer : &map->oldest) = w->newer;
}

static void lru_add_newest(struct sp_map *map, struct window *w)
{
    w->newer = NULL;
    w->older = map->newest;
    *(map->newest ? &map->newest->newer : &map->oldest) = w;
    map->newest = w;
}

static void uncount_window(struct sp_prov *prov)
{
    __atomic_sub_fetch(&prov->mapped_bytes, WINDOW_SIZE, __ATOMIC_RELAXED);
}

static void drop_window(struct sp_conn *conn, struct window *w)
{
    struct sp_map *map = conn->map;
    struct window **at = bucket_of(map, w->number);

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    lru_remove(map, w);
    map->num_windows--;
    conn->mapping.size = 0; /* the mapping may be part of this window */
    munmap(w->at, WINDOW_SIZE);
    uncount_window(conn->ep->prov);
    free(w);
}

static struct sp_map *get_map(struct sp_conn *conn)
{
    struct sp_map *map = conn->map;

    if (map)
        return map;
    map = calloc(1, sizeof(*map));
    if (!map)
        return NULL;
    map->num_buckets = FIRST_BUCKETS;
    map->buckets = calloc(map->num_buckets, sizeof(struct window *));
    if (!map->buckets) {
        free(map);
        return NULL;
    }
    conn->map = map;
    return map;
}

static void grow_buckets(struct sp_map *map)
{
    uint32_t n = map->num_buckets * 4;
    struct window **buckets = calloc(n, sizeof(struct window *));

    if (!buckets)
        return; /* no memory: longer chains */
    free(map->buckets);
    map->buckets = buckets;
    map->num_buckets = n;
    for (struct window *w = map->newest; w; w = w->older) {
        struct window **b = bucket_of(map, w->number);
        w->next = *b;
        *b = w;
    }
}

/* Returns the connection that loses a window: `conn`, or if it has no window, the connection with
 * the most windows on this endpoint. Other locks guard the connections of other endpoints. */
static struct sp_conn *find_victim(struct sp_conn *conn)
{
    const struct sp_ep *ep = conn->ep;
    struct sp_conn *victim_so_far = conn;

    if (conn->map->num_windows > 0)
        return conn;
    for (uint32_t i = 0; i < ep->max_conns; i++) {
        struct sp_conn *other = ep->conns[i];
        if (other && other->map && other->map->num_windows > victim_so_far->map->num_windows)
            victim_so_far = other;
    }
    return victim_so_far;
}

/* Accounts for a new window, and unmaps others at the limit. An endpoint may always have one. */
static void make_room(struct sp_conn *conn)
{
    struct sp_prov *prov = conn->ep->prov;

    __atomic_add_fetch(&prov->mapped_bytes, WINDOW_SIZE, __ATOMIC_RELAXED);
    while (__atomic_load_n(&prov->mapped_bytes, __ATOMIC_RELAXED) > prov->max_mapped_bytes) {
        struct sp_conn *victim = find_victim(conn);
        if (victim->map->num_windows == 0)
            break;
        drop_window(victim, victim->map->oldest);
    }
}

/* Maps a window at a huge-page boundary, so that huge pages of the memfd stay huge. */
static uint8_t *map_window(int fd, uint64_t number)
{
    uint8_t *at = sp_huge_reserve(WINDOW_SIZE, 0, PROT_NONE);

    if (!at)
        return NULL;
    if (mmap(at, WINDOW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
             (off_t)(number << WINDOW_BITS)) == MAP_FAILED) {
        int error = errno;
        munmap(at, WINDOW_SIZE);
        errno = error;
        return NULL;
    }
    madvise(at, WINDOW_SIZE, MADV_DONTDUMP);
    madvise(at, WINDOW_SIZE, MADV_DONTFORK);
    return at;
}

static struct window *window_new(struct sp_conn *conn, uint64_t number)
{
    struct sp_prov *prov = conn->ep->prov;
    struct sp_map *map = get_map(conn);
    struct window *w = map ? calloc(1, sizeof(*w)) : NULL;

    if (!w)
        return NULL;
    make_room(conn);
    w->at = ut_fd_check_own(conn->peer->map_fd) ? map_window(conn->peer->map_fd, number) : NULL;
    if (!w->at) {
        if (!__atomic_exchange_n(&prov->no_map_logged, true, __ATOMIC_RELAXED))
            ut_info(SP_LOG,
                    "cannot map %llu bytes of process %ld: %s; cross-memory attach or the rings "
                    "are used instead",
                    WINDOW_SIZE, (long)conn->peer->pid, strerror(errno));
        uncount_window(prov);
        free(w);
        return NULL;
    }
    w->number = number;
    if (map->num_windows++ >= 2 * map->num_buckets)
        grow_buckets(map);
    struct window **b = bucket_of(map, number);
    w->next = *b;
    *b = w;
    lru_add_newest(map, w);
    return w;
}

static struct window *window_at(struct sp_conn *conn, uint64_t at)
{
    struct sp_map *map = conn->map;
    uint64_t number = at >> WINDOW_BITS;
    struct window *w = map ? *bucket_of(map, number) : NULL;

    while (w && w->number != number)
        w = w->next;
    if (!w)
        return window_new(conn, number);
    if (w != map->newest) {
        lru_remove(map, w);
        lru_add_newest(map, w);
    }
    return w;
}

/* Makes the part of the region in this window the connection's mapping, if the region allows
 * reading and writing. */
static void set_mapping(struct sp_conn *conn, uint32_t rkey, const struct sp_mr_range *range,
                        const struct window *w)
{
    const uint64_t all = PROV_ACCESS_READ | PROV_ACCESS_WRITE;
    uint64_t lo = w->number << WINDOW_BITS, hi = lo + WINDOW_SIZE;

    if ((range->state >> 1 & all) != all || (conn->stream && !sp_stream_empty(conn)))
        return;
    lo = range->lo > lo ? range->lo : lo;
    hi = range->hi < hi ? range->hi : hi;
    conn->mapping =
        (struct prov_mapping){.key = rkey,
                              .word = &sp_mr_entry_of(conn->peer->seg->table.mrs, rkey)->state,
                              .valid = range->state,
                              .base = lo,
                              .size = hi - lo,
                              .delta = (uintptr_t)w->at - (w->number << WINDOW_BITS)};
}

struct sp_piece sp_map_piece(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size)
{
    struct sp_mr_range range;

    if (conn->peer->map_fd < 0 || !sp_mr_find_range(conn->peer->seg->table.mrs, rkey, at, &range))
        return (struct sp_piece){NULL, size};
    if (at < range.lo)
        return (struct sp_piece){NULL, size < range.lo - at ? size : range.lo - at};
    struct window *w = window_at(conn, at);
    if (!w)
        return (struct sp_piece){NULL, size};
    set_mapping(conn, rkey, &range, w);
    uint64_t offset = at & (WINDOW_SIZE - 1), left = WINDOW_SIZE - offset;
    if (left > range.hi - at)
        left = range.hi - at;
    return (struct sp_piece){w->at + offset, size < left ? size : left};
}

static bool mark_prefaulted(struct window *w, uint64_t block)
{
    uint64_t bit = 1ull << block % 64, *word = &w->prefaulted[block / 64];
    bool first = !(*word & bit);

    *word |= bit;
    return first;
}

/* Prefaults each whole block once. MADV_POPULATE_READ maps several pages at a time. */
void sp_map_prefault(struct sp_conn *conn, uint64_t at, uint64_t size)
{
    const struct sp_map *map = conn->map;
    struct window *w = map ? *bucket_of(map, at >> WINDOW_BITS) : NULL;

    while (w && w->number != at >> WINDOW_BITS)
        w = w->next;
    if (!w)
        return;
    uint64_t offset = at & (WINDOW_SIZE - 1);
    uint64_t block = (offset + SP_MAP_BLOCK - 1) / SP_MAP_BLOCK;
    uint64_t end = (offset + size) / SP_MAP_BLOCK;
    while (block < end) {
        uint64_t first = block;
        while (block < end && mark_prefaulted(w, block))
            block++;
        if (block > first)
            madvise(w->at + first * SP_MAP_BLOCK, (block - first) * SP_MAP_BLOCK,
                    MADV_POPULATE_READ);
        else
            block++;
    }
}

bool sp_map_covers(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size)
{
    struct sp_mr_range range;

    return size > 0 && conn->peer->map_fd >= 0 &&
           sp_mr_find_range(conn->peer->seg->table.mrs, rkey, at, &range) && at >= range.lo &&
           size <= range.hi - at;
}

void sp_map_free(struct sp_conn *conn)
{
    if (!conn->map)
        return;
    while (conn->map->oldest)
        drop_window(conn, conn->map->oldest);
    free(conn->map->buckets);
    free(conn->map);
    conn->map = NULL;
}
