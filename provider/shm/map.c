/* SPDX-License-Identifier: Apache-2.0 */
/* Windows are parts of the peer's memfd, of one size and aligned to it. A file offset in the memfd
 * is an address of the peer. The peer's table of regions says which parts of a window are valid. */
#include "map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>

#include "op_queue.h"
#include "pages.h"
#include "util/fd_check.h"
#include "util/hash_table.h"
#include "util/log.h"

enum { WINDOW_BITS = 28 };
#define WINDOW_SIZE (1ull << WINDOW_BITS)

#ifndef MADV_POPULATE_READ
#    define MADV_POPULATE_READ 22
#endif

struct window {
    struct ut_hash_entry by_number;
    TAILQ_ENTRY(window) by_use;
    uint64_t number; /* first address in the peer / WINDOW_SIZE */
    uint8_t *at;     /* address in this process */
    uint64_t prefaulted[WINDOW_SIZE / SP_MAP_BLOCK / 64]; /* one bit per block */
};

/* The windows of a connection. */
struct sp_map {
    struct ut_hash_table by_number;
    TAILQ_HEAD(window_queue, window) by_use; /* the newest first */
};

/* Subtracts a window from the mapped memory. */
static void uncount_window(struct sp_prov *prov)
{
    __atomic_sub_fetch(&prov->mapped_bytes, WINDOW_SIZE, __ATOMIC_RELAXED);
}

/* Unmaps and frees a window. */
static void drop_window(struct sp_conn *conn, struct window *window)
{
    ut_hash_remove(&conn->map->by_number, &window->by_number);
    TAILQ_REMOVE(&conn->map->by_use, window, by_use);
    conn->mapping.size = 0; /* the mapping may be part of this window */
    munmap(window->at, WINDOW_SIZE);
    uncount_window(conn->ep->prov);
    free(window);
}

/* Returns the connection's windows, empty at first; NULL: no memory. */
static struct sp_map *get_map(struct sp_conn *conn)
{
    struct sp_map *map = conn->map;

    if (map)
        return map;
    map = calloc(1, sizeof(*map));
    if (!map)
        return NULL;
    TAILQ_INIT(&map->by_use);
    conn->map = map;
    return map;
}

/* Returns the connection that loses a window: `conn`, or if it has no window, the connection with
 * the most windows on this endpoint. Other locks guard the connections of other endpoints. */
static struct sp_conn *find_victim(struct sp_conn *conn)
{
    const struct sp_ep *ep = conn->ep;
    struct sp_conn *victim_so_far = conn;

    if (conn->map->by_number.used > 0)
        return conn;
    for (uint32_t i = 0; i < ep->conns_size; i++) {
        struct sp_conn *other = ep->conns[i];
        if (other && other->map && other->map->by_number.used > victim_so_far->map->by_number.used)
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
        if (victim->map->by_number.used == 0)
            break;
        drop_window(victim, TAILQ_LAST(&victim->map->by_use, window_queue));
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

/* Maps a window. NULL: not possible (logged once). */
static struct window *window_new(struct sp_conn *conn, uint64_t number)
{
    struct sp_prov *prov = conn->ep->prov;
    struct sp_map *map = get_map(conn);
    struct window *window =
        map && ut_hash_reserve(&map->by_number) ? calloc(1, sizeof(*window)) : NULL;

    if (!window)
        return NULL;
    make_room(conn);
    window->at = ut_fd_check_still_ours(conn->peer->remap_fd)
                     ? map_window(conn->peer->remap_fd, number)
                     : NULL;
    if (!window->at) {
        if (!__atomic_exchange_n(&prov->no_map_logged, true, __ATOMIC_RELAXED))
            ut_info(SP_LOG,
                    "cannot map %llu bytes of process %ld: %s; cross-memory attach or the rings "
                    "are used instead",
                    WINDOW_SIZE, (long)conn->peer->pid, strerror(errno));
        uncount_window(prov);
        free(window);
        return NULL;
    }
    window->number = number;
    ut_hash_insert(&map->by_number, &window->by_number, number);
    TAILQ_INSERT_HEAD(&map->by_use, window, by_use);
    return window;
}

/* NULL: not mapped. */
static struct window *find_window(const struct sp_map *map, uint64_t number)
{
    struct window *window;

    return UT_HASH_OBJECT(window, by_number, map ? ut_hash_find(&map->by_number, number) : NULL);
}

/* Returns the window that contains the peer's address, mapped if necessary. NULL: not possible. */
static struct window *window_at(struct sp_conn *conn, uint64_t at)
{
    struct sp_map *map = conn->map;
    uint64_t number = at >> WINDOW_BITS;
    struct window *window = find_window(map, number);

    if (!window)
        return window_new(conn, number);
    if (window != TAILQ_FIRST(&map->by_use)) {
        TAILQ_REMOVE(&map->by_use, window, by_use);
        TAILQ_INSERT_HEAD(&map->by_use, window, by_use);
    }
    return window;
}

/* Makes the part of the region in this window the connection's mapping, if the region allows
 * reading and writing. */
static void set_mapping(struct sp_conn *conn, uint32_t rkey, const struct sp_mr_range *range,
                        const struct window *window)
{
    const uint64_t all = PROV_ACCESS_READ | PROV_ACCESS_WRITE;
    uint64_t lo = window->number << WINDOW_BITS, hi = lo + WINDOW_SIZE;

    if ((range->state >> 1 & all) != all || (conn->op_queue && sp_op_queue_has_ops(conn)))
        return;
    lo = range->lo > lo ? range->lo : lo;
    hi = range->hi < hi ? range->hi : hi;
    conn->mapping =
        (struct prov_mapping){.key = rkey,
                              .state = &sp_mr_entry_of(conn->peer->seg->table.mrs, rkey)->state,
                              .valid_state = range->state,
                              .base = lo,
                              .size = hi - lo,
                              .delta = (uintptr_t)window->at - (window->number << WINDOW_BITS)};
}

struct sp_piece sp_map_piece(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size)
{
    struct sp_mr_range range;

    if (conn->peer->remap_fd < 0 || !sp_mr_find_range(conn->peer->seg->table.mrs, rkey, at, &range))
        return (struct sp_piece){NULL, size};
    if (at < range.lo)
        return (struct sp_piece){NULL, size < range.lo - at ? size : range.lo - at};
    struct window *window = window_at(conn, at);
    if (!window)
        return (struct sp_piece){NULL, size};
    set_mapping(conn, rkey, &range, window);
    uint64_t offset = at & (WINDOW_SIZE - 1), left = WINDOW_SIZE - offset;
    if (left > range.hi - at)
        left = range.hi - at;
    return (struct sp_piece){window->at + offset, size < left ? size : left};
}

/* False if the block was marked before. */
static bool mark_prefaulted(struct window *window, uint64_t block)
{
    uint64_t bit = 1ull << block % 64, *word = &window->prefaulted[block / 64];
    bool first = !(*word & bit);

    *word |= bit;
    return first;
}

/* Prefaults each whole block once. MADV_POPULATE_READ maps several pages at a time. */
void sp_map_prefault(struct sp_conn *conn, uint64_t at, uint64_t size)
{
    struct window *window = find_window(conn->map, at >> WINDOW_BITS);

    if (!window)
        return;
    uint64_t offset = at & (WINDOW_SIZE - 1);
    uint64_t block = (offset + SP_MAP_BLOCK - 1) / SP_MAP_BLOCK;
    uint64_t end = (offset + size) / SP_MAP_BLOCK;
    while (block < end) {
        uint64_t first = block;
        while (block < end && mark_prefaulted(window, block))
            block++;
        if (block > first)
            madvise(window->at + first * SP_MAP_BLOCK, (block - first) * SP_MAP_BLOCK,
                    MADV_POPULATE_READ);
        else
            block++;
    }
}

bool sp_map_covers(struct sp_conn *conn, uint32_t rkey, uint64_t at, uint64_t size)
{
    struct sp_mr_range range;

    return size > 0 && conn->peer->remap_fd >= 0 &&
           sp_mr_find_range(conn->peer->seg->table.mrs, rkey, at, &range) && at >= range.lo &&
           size <= range.hi - at;
}

void sp_map_free(struct sp_conn *conn)
{
    struct window *window;

    if (!conn->map)
        return;
    while ((window = TAILQ_FIRST(&conn->map->by_use)))
        drop_window(conn, window);
    ut_hash_free(&conn->map->by_number);
    free(conn->map);
    conn->map = NULL;
}
