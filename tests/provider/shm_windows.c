/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows into the memory of a peer (shm/map.c), over a memfd of this process; and memory regions
 * (shm/mr.c), with what remaps their pages played by the test.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../harness/check.h"
#include "common/probe.h"
#include "shm/map.h"
#include "shm/mr.h"
#include "shm/op_queue.h"
#include "shm/pageref.h"
#include "shm/pages.h"
#include "shm/remap.h"
#include "util/fd_check.h"
#include "util/log.h"

static char line[400];
static unsigned int num_lines;

static void note_line(enum ut_log_level level, const char *category, const char *format, ...)
{
    va_list ap;

    CHECK(strcmp(category, "shm") == 0 && level <= UT_LOG_INFO);
    va_start(ap, format);
    vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    num_lines++;
}

static bool is_open = true, has_ops, calloc_fails;

static bool check_fd(int fd)
{
    return fd >= 0 && is_open;
}

static bool op_queue_has_ops(const struct sp_conn *conn)
{
    CHECK(conn->op_queue);
    return has_ops;
}

static void *allocate(size_t count, size_t size)
{
    return calloc_fails ? NULL : calloc(count, size);
}

/* Blocks that are prefaulted, as text. */
static char prefaulted[400];
static const uint8_t *window_begin;

static int advise(void *at, size_t size, int advice)
{
    if (advice == 22) /* MADV_POPULATE_READ */
        snprintf(prefaulted + strlen(prefaulted), sizeof(prefaulted) - strlen(prefaulted),
                 "%td+%zu ", ((uint8_t *)at - window_begin) / SP_MAP_BLOCK, size / SP_MAP_BLOCK);
    return 0;
}

#define ut_log_write           note_line
#define ut_fd_check_still_ours check_fd
#define sp_op_queue_has_ops    op_queue_has_ops
#define calloc                 allocate
#define madvise                advise
#include "../../provider/shm/map.c"
#undef madvise
#undef calloc

/* What remaps pages: the calls, as text, with addresses in pages from PAGES on. */
enum { PAGE = 4096 };
#define PAGES (UINT64_C(1) << 32)

static char calls[600];
static bool counts = true, may_remap = true, is_there = true;
static uint64_t remapped[12][2]; /* what sp_remap_for_each() finds */
static int num_remapped, open_maps;
static uint64_t interval_lo, interval_hi; /* what the callbacks get */

static void say(const char *format, ...)
{
    size_t at = strlen(calls);
    va_list ap;

    va_start(ap, format);
    vsnprintf(calls + at, sizeof(calls) - at, format, ap);
    va_end(ap);
}

static unsigned int page_number(uint64_t at)
{
    CHECK(at % PAGE == 0);
    return (unsigned int)((at - PAGES) / PAGE);
}

static bool get_refs(struct sp_pagerefs *refs, uint64_t lo, uint64_t hi, sp_remap_fn *remap,
                     void *arg)
{
    CHECK(refs);
    say("get %u-%u ", page_number(lo), page_number(hi));
    if (counts && remap)
        remap(arg, interval_lo, interval_hi);
    return counts;
}

static void put_refs(struct sp_pagerefs *refs, uint64_t lo, uint64_t hi, sp_restore_fn *restore,
                     void *arg)
{
    CHECK(refs);
    say("put %u-%u ", page_number(lo), page_number(hi));
    restore(arg, interval_lo, interval_hi);
}

static uint64_t remap_pages(struct sp_remap *remap, struct sp_vma_maps *maps, uint64_t lo,
                            uint64_t hi)
{
    CHECK(remap && maps && open_maps == 1);
    say("remap %u-%u ", page_number(lo), page_number(hi));
    return hi - lo;
}

static uint64_t restore_pages(struct sp_remap *remap, struct sp_vma_maps *maps, uint64_t lo,
                              uint64_t hi, uint64_t expected)
{
    CHECK(remap && maps && open_maps == 1 && expected % PAGE == 0);
    say("restore %u-%u of %u ", page_number(lo), page_number(hi), (unsigned int)(expected / PAGE));
    return 0;
}

static void find_remapped(const struct sp_remap *remap, uint64_t lo, uint64_t hi,
                          void (*fn)(void *arg, uint64_t lo, uint64_t hi), void *arg)
{
    CHECK(remap);
    say("find %u-%u ", page_number(lo), page_number(hi));
    for (int i = 0; i < num_remapped; i++)
        fn(arg, PAGES + remapped[i][0] * PAGE, PAGES + remapped[i][1] * PAGE);
}

static bool check_remap(struct sp_remap *remap)
{
    CHECK(remap);
    return may_remap;
}

static void open_vmas(struct sp_vma_maps *maps)
{
    memset(maps, 0, sizeof(*maps));
    open_maps++;
}

static void close_vmas(struct sp_vma_maps *maps)
{
    CHECK(maps);
    open_maps--;
}

static bool look_at_memory(const void *addr, size_t size, bool writable)
{
    say("%s %zu ", writable ? "write" : "read", size);
    CHECK(addr);
    return is_there;
}

#define sp_pagerefs_get       get_refs
#define sp_pagerefs_put       put_refs
#define sp_remap_range        remap_pages
#define sp_remap_restore      restore_pages
#define sp_remap_for_each     find_remapped
#define sp_remap_may_remap    check_remap
#define sp_vma_init           open_vmas
#define sp_vma_close          close_vmas
#define prov_memory_is_mapped look_at_memory
#include "../../provider/shm/mr.c"

/*
 * Windows
 */

enum { CONNS = 3, READ_ONLY = PROV_ACCESS_READ, KEY_INDEX = 3, GENERATION = 5 };
static const uint32_t key = (uint32_t)GENERATION << SP_MR_BITS | KEY_INDEX;
static struct sp_prov prov;
static struct sp_ep ep;
static struct sp_peer peer;
static struct sp_conn conns[CONNS], *conn_list[4];
static struct sp_segment *seg;

static uint64_t range_of(uint64_t base, uint64_t lo, uint64_t hi)
{
    return (lo / PAGE - base / PAGE) << 32 | (hi - lo) / PAGE;
}

static const uint64_t W = WINDOW_SIZE, BASE = 5 * WINDOW_SIZE - 0x2800;

/* A region with two mappable parts, of which the first lies across two windows. */
static void set_region(unsigned int access)
{
    struct sp_mr_entry *entry = &seg->table.mrs[KEY_INDEX];

    *entry = (struct sp_mr_entry){.state = sp_mr_make_state(9, GENERATION, access),
                                  .base = BASE,
                                  .size = 0x30000,
                                  .ranges = {range_of(BASE, 5 * W + 0x10000, 5 * W + 0x20000),
                                             range_of(BASE, 5 * W - 0x2000, 5 * W + 0x3000)}};
}

static void open_connections(void)
{
    int fd = memfd_create("peer", MFD_CLOEXEC);

    CHECK(fd >= 0 && ftruncate(fd, (off_t)(16 * W)) == 0);
    seg = mmap(NULL, sizeof(*seg), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(seg != MAP_FAILED);
    prov.max_mapped_bytes = 100 * W;
    peer = (struct sp_peer){.remap_fd = fd, .seg = seg, .pid = 4711};
    ep = (struct sp_ep){.prov = &prov, .conns = conn_list, .conns_size = 4};
    for (int i = 0; i < CONNS; i++) {
        conns[i] = (struct sp_conn){.ep = &ep, .peer = &peer};
        conn_list[i == 2 ? 3 : i] = &conns[i];
    }
    set_region(PROV_ACCESS_READ | PROV_ACCESS_WRITE);
}

static void pieces(void)
{
    const struct {
        uint64_t at, size, piece;
        bool is_mapped;
    } cases[] = {{BASE, 0x100, 0x100, false},
                 {BASE, 0x10000, 0x800, false},
                 {5 * W - 0x2000, 0x10000, 0x2000, true}, /* to the end of the window */
                 {5 * W - 0x2000, 0x1fff, 0x1fff, true},
                 {5 * W - 1, 8, 1, true},
                 {5 * W, 0x10, 0x10, true},
                 {5 * W + 0x2ff0, 0x100, 0x10, true},
                 {5 * W + 0x3000, 0x20000, 0xd000, false},
                 {5 * W + 0x10000, 0x20000, 0x10000, true},
                 {5 * W + 0x1ffff, 8, 1, true},
                 {5 * W + 0x20000, 8, 8, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t value = 0x12340000 + (uint32_t)i, found;
        CHECK(pwrite(peer.remap_fd, &value, 4, (off_t)cases[i].at) == 4);
        struct sp_piece piece = sp_map_piece(&conns[0], key, cases[i].at, cases[i].size);
        CHECK(piece.size == cases[i].piece && (piece.at != NULL) == cases[i].is_mapped);
        if (piece.at && piece.size >= 4) {
            memcpy(&found, piece.at, 4);
            CHECK(found == value);
        }
        CHECK(!sp_map_piece(&conns[0], key + (1u << SP_MR_BITS), cases[i].at, 8).at);
        CHECK(sp_map_piece(&conns[0], key + (1u << SP_MR_BITS), cases[i].at, 99).size == 99);
    }
    CHECK(prov.mapped_bytes == 2 * W);
    int fd = peer.remap_fd;
    peer.remap_fd = -1;
    CHECK(!sp_map_piece(&conns[1], key, 5 * W, 8).at && !sp_map_covers(&conns[1], key, 5 * W, 8));
    peer.remap_fd = fd;
}

static void ranges_that_are_covered(void)
{
    const struct {
        uint64_t at, size;
        bool is_covered;
    } cases[] = {{5 * W - 0x2000, 0x5000, true}, {5 * W - 0x2000, 0x5001, false},
                 {5 * W - 0x2001, 2, false},     {5 * W, 0, false},
                 {5 * W + 0x2fff, 1, true},      {5 * W + 0x3000, 1, false},
                 {5 * W + 0x10000, 1, true},     {5 * W + 0x10000, UINT64_MAX, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK(sp_map_covers(&conns[0], key, cases[i].at, cases[i].size) == cases[i].is_covered);
    CHECK(!sp_map_covers(&conns[0], key + (1u << SP_MR_BITS), 5 * W, 8));
}

static void the_part_used_last_is_the_mapping(void)
{
    struct prov_mapping *m = &conns[0].mapping;

    m->size = 0;
    uint8_t *at = sp_map_piece(&conns[0], key, 5 * W + 0x100, 8).at;
    CHECK(m->key == key && m->base == 5 * W && m->size == 0x3000);
    CHECK(m->valid_state == seg->table.mrs[KEY_INDEX].state);
    CHECK(m->state == &seg->table.mrs[KEY_INDEX].state &&
          5 * W + 0x100 + m->delta == (uintptr_t)at);
    at = sp_map_piece(&conns[0], key, 5 * W - 8, 8).at;
    CHECK(m->base == 5 * W - 0x2000 && m->size == 0x2000);
    CHECK(prov_mapped_at(m, key, 5 * W - 8, 8) == at);
    for (unsigned int access = 0; access < 8; access++) {
        set_region(access);
        m->size = 0;
        CHECK(sp_map_piece(&conns[0], key, 5 * W, 8).at);
        CHECK((m->size != 0) == ((access & 3) == 3));
    }
    conns[0].op_queue = (struct sp_op_queue *)(void *)&prov;
    for (int queued = 0; queued < 2; queued++) {
        m->size = 0;
        has_ops = queued;
        CHECK(sp_map_piece(&conns[0], key, 5 * W, 8).at && (m->size != 0) == !queued);
    }
    conns[0].op_queue = NULL;
}

/* A block is prefaulted once, if all of it is in the piece. */
static void blocks_are_prefaulted_once(void)
{
    enum { B = SP_MAP_BLOCK };
    static const struct {
        uint64_t offset, size;
        const char *wanted;
    } cases[] = {{0, B - 1, ""},
                 {1, B, ""},
                 {0, B, "0+1 "},
                 {0, 3 * B, "1+2 "},
                 {2 * B, 4 * B, "3+3 "},
                 {1, 8 * B - 1, "6+2 "},
                 {70 * B - 1, B + 1, "70+1 "},
                 {63 * B, 9 * B, "63+7 71+1 "},
                 {37 * B, B, "37+1 "},
                 {0, 8 * B, ""}};

    window_begin = sp_map_piece(&conns[0], key, 5 * W, 8).at;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        prefaulted[0] = '\0';
        sp_map_prefault(&conns[0], 5 * W + cases[i].offset, cases[i].size);
        CHECK(strcmp(prefaulted, cases[i].wanted) == 0);
    }
    prefaulted[0] = '\0';
    sp_map_prefault(&conns[0], 9 * W, 4 * B); /* there is no window */
    sp_map_prefault(&conns[1], 5 * W, 4 * B);
    CHECK(!prefaulted[0]);
}

/* Which windows a connection has, the newest first. */
static void expect_windows(const struct sp_conn *conn, const char *wanted)
{
    char text[100] = "";
    const struct window *w;

    if (conn->map)
        TAILQ_FOREACH (w, &conn->map->by_use, by_use)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%u ",
                     (unsigned int)w->number);
    if (strcmp(text, wanted) != 0)
        fprintf(stderr, "windows %s, not %s\n", text, wanted);
    CHECK(strcmp(text, wanted) == 0);
}

/* A region that is mappable everywhere. */
static bool use_window(unsigned int conn, uint64_t number)
{
    seg->table.mrs[KEY_INDEX].base = 0;
    seg->table.mrs[KEY_INDEX].size = 16 * W;
    seg->table.mrs[KEY_INDEX].ranges[0] = 16 * W / PAGE;
    seg->table.mrs[KEY_INDEX].ranges[1] = 0;
    return sp_map_piece(&conns[conn], key, number * W + 8, 8).at != NULL;
}

static void windows_are_limited(void)
{
    for (int i = 0; i < CONNS; i++)
        sp_map_free(&conns[i]);
    CHECK(prov.mapped_bytes == 0 && !conns[0].map);
    prov.max_mapped_bytes = 3 * W;
    CHECK(use_window(0, 1) && use_window(0, 2));
    expect_windows(&conns[0], "2 1 ");
    CHECK(use_window(0, 1) && use_window(2, 7));
    expect_windows(&conns[0], "1 2 ");
    CHECK(use_window(2, 8)); /* that of the same connection makes room */
    expect_windows(&conns[2], "8 ");
    expect_windows(&conns[0], "1 2 ");
    conns[0].mapping.size = 5;
    CHECK(use_window(1, 4)); /* that of the connection with most */
    expect_windows(&conns[0], "1 ");
    expect_windows(&conns[1], "4 ");
    CHECK(prov.mapped_bytes == 3 * W && conns[0].mapping.size == 0);
    prov.max_mapped_bytes = 0; /* one is always allowed */
    CHECK(use_window(1, 5));
    expect_windows(&conns[1], "5 ");
    expect_windows(&conns[0], "");
    expect_windows(&conns[2], "");
    CHECK(prov.mapped_bytes == W);
    prov.max_mapped_bytes = 100 * W;
}

static void windows_that_cannot_be_mapped(void)
{
    ut_log_threshold = UT_LOG_INFO;
    num_lines = 0;
    is_open = false;
    for (int again = 0; again < 2; again++)
        CHECK(!use_window(0, 6) && prov.mapped_bytes == W && num_lines == 1);
    CHECK(strstr(line, "of process 4711"));
    is_open = true;
    calloc_fails = true;
    CHECK(!use_window(0, 6) && !use_window(2, 6) && prov.mapped_bytes == W);
    calloc_fails = false;
    CHECK(use_window(0, 6) && use_window(2, 6) && num_lines == 1);
    for (int i = 0; i < CONNS; i++)
        sp_map_free(&conns[i]);
    CHECK(prov.mapped_bytes == 0);
}

/*
 * Regions
 */

static struct sp_prov regions;

static void open_regions(void)
{
    memset(&regions, 0, sizeof(regions));
    pthread_mutex_init(&regions.mr_lock, NULL);
    STAILQ_INIT(&regions.free_mrs);
    regions.seg = seg;
    regions.pagerefs = (struct sp_pagerefs *)(void *)&regions;
    regions.config.local_size = 2;
    num_remapped = 0;
    counts = may_remap = is_there = true;
}

static struct sp_mr *register_at(uint64_t from, uint64_t size, unsigned int access, int rc)
{
    struct prov_mr *mr = NULL;

    calls[0] = '\0';
    CHECK(sp_reg(&regions.base, 0, (void *)(uintptr_t)(PAGES + from), size, access, &mr) == rc);
    CHECK(open_maps == 0);
    return (struct sp_mr *)mr;
}

static const struct sp_mr_entry *entry_of(const struct sp_mr *mr)
{
    return sp_mr_entry_of(seg->table.mrs, mr->base.rkey);
}

static void expect_calls(const char *wanted)
{
    if (strcmp(calls, wanted) != 0)
        fprintf(stderr, "calls %s, not %s\n", calls, wanted);
    CHECK(strcmp(calls, wanted) == 0);
    calls[0] = '\0';
}

/* All pages that a region touches are counted; only whole ones are remapped, and restored. */
static void pages_of_regions(void)
{
    open_regions();
    interval_lo = PAGES + 8 * PAGE;
    interval_hi = PAGES + 30 * PAGE;
    struct sp_mr *mr = register_at(10 * PAGE + 1, 5 * PAGE, 3, 0);
    expect_calls("get 10-16 remap 11-15 find 11-15 write 20480 ");
    CHECK(mr->lo == PAGES + 10 * PAGE && mr->hi == PAGES + 16 * PAGE);
    CHECK(entry_of(mr)->base == PAGES + 10 * PAGE + 1 && entry_of(mr)->size == 5 * PAGE);
    sp_dereg(&regions.base, &mr->base);
    expect_calls("put 10-16 restore 8-30 of 4 ");
    interval_lo = PAGES + 12 * PAGE;
    interval_hi = PAGES + 13 * PAGE;
    mr = register_at(10 * PAGE, 5 * PAGE, 3, 0);
    expect_calls("get 10-15 remap 12-13 find 10-15 write 20480 ");
    interval_lo = PAGES + 16 * PAGE; /* none of the whole pages */
    interval_hi = PAGES + 17 * PAGE;
    sp_dereg(&regions.base, &mr->base);
    expect_calls("put 10-15 restore 16-17 of 0 ");
    mr = register_at(10 * PAGE, 6 * PAGE, 3, 0);
    expect_calls("get 10-16 find 10-16 write 24576 ");
    sp_dereg(&regions.base, &mr->base);
    mr = register_at(10 * PAGE + 1, 2 * PAGE - 2, 3, 0); /* no whole page */
    expect_calls("get 10-12 write 8190 ");
    CHECK(!entry_of(mr)->small_writes_need_cpu && entry_of(mr)->ranges[0] == 0);
    sp_dereg(&regions.base, &mr->base);
    interval_lo = PAGES + 8 * PAGE;
    interval_hi = PAGES + 30 * PAGE;
    may_remap = false; /* but others may have remapped some of them */
    mr = register_at(10 * PAGE, 6 * PAGE, 3, 0);
    expect_calls("get 10-16 find 10-16 write 24576 ");
    sp_dereg(&regions.base, &mr->base);
    counts = false; /* no memory */
    mr = register_at(10 * PAGE, 6 * PAGE, 3, 0);
    expect_calls("get 10-16 write 24576 ");
    CHECK(mr->lo == 0 && mr->hi == 0 && entry_of(mr)->small_writes_need_cpu);
    sp_dereg(&regions.base, &mr->base);
    expect_calls("");
}

static void regions_that_peers_may_map(void)
{
    for (unsigned int access = 0; access < 8; access++)
        for (int how = 0; how < 5; how++) {
            open_regions();
            regions.config.local_size = how == 0 ? 0 : how == 1 ? 2 : 1;
            regions.remap.eager = how == 3;
            regions.remap.swap_protect = how == 4;
            struct sp_mr *mr = register_at(10 * PAGE, PAGE, access, 0);
            bool maps = (access & 3) == 3 && how != 2;
            CHECK(entry_of(mr)->small_writes_need_cpu == maps && !!strstr(calls, "find") == maps);
            CHECK(!!strstr(calls, "write") == !!(access & PROV_ACCESS_WRITE));
            sp_dereg(&regions.base, &mr->base);
        }
    open_regions();
    regions.remap.exchange.fd = -1;
    CHECK(!entry_of(register_at(10 * PAGE, PAGE, 3, 0))->small_writes_need_cpu);
}

/* The longest parts that are remapped. */
static void parts_of_regions(void)
{
    static const struct {
        int count;
        uint64_t parts[6][2];
        const char *wanted; /* in any order */
    } cases[] = {{0, {{0}}, ""},
                 {1, {{11, 12}}, "11-12 "},
                 {2, {{11, 12}, {14, 20}}, "11-12 14-20 "},
                 {6,
                  {{11, 12}, {13, 15}, {16, 19}, {20, 24}, {25, 30}, {31, 32}},
                  "13-15 16-19 20-24 25-30 "},
                 {6,
                  {{11, 16}, {17, 21}, {22, 25}, {26, 28}, {29, 30}, {31, 40}},
                  "11-16 17-21 22-25 31-40 "}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char found[200] = "";
        open_regions();
        num_remapped = cases[i].count;
        memcpy(remapped, cases[i].parts, sizeof(cases[i].parts));
        struct sp_mr *mr = register_at(10 * PAGE + 5, 100 * PAGE, 3, 0);
        struct sp_mr_range range;
        for (uint64_t at = PAGES;
             sp_mr_find_range(seg->table.mrs, mr->base.rkey, at, &range) && range.lo != UINT64_MAX;
             at = range.hi)
            snprintf(found + strlen(found), sizeof(found) - strlen(found), "%u-%u ",
                     page_number(range.lo), page_number(range.hi));
        if (strcmp(found, cases[i].wanted) != 0)
            fprintf(stderr, "parts %s, not %s\n", found, cases[i].wanted);
        CHECK(strcmp(found, cases[i].wanted) == 0);
        sp_dereg(&regions.base, &mr->base);
    }
}

static void keys_of_regions(void)
{
    enum { MANY = 300 };
    static struct sp_mr *mrs[MANY];
    uint32_t last;

    open_regions();
    memset(seg->table.mrs, 0, 1000 * sizeof(seg->table.mrs[0]));
    for (uint32_t i = 0; i < MANY; i++) {
        mrs[i] = register_at(10 * PAGE, PAGE, 3, 0);
        CHECK(mrs[i]->base.rkey == (1u << SP_MR_BITS | i) &&
              mrs[i]->base.lkey == mrs[i]->base.rkey);
        CHECK(sp_mr_allows(seg->table.mrs, mrs[i]->base.rkey, PAGES + 10 * PAGE, PAGE, 3));
        CHECK(entry_of(mrs[i])->state == sp_mr_make_state(i + 1, 1, 3));
    }
    is_there = false;
    register_at(10 * PAGE, PAGE, 3, -EFAULT);
    CHECK(seg->table.mrs[MANY].state == 0 && regions.num_free_mrs == 1);
    CHECK(strstr(calls, "put 10-11"));
    is_there = true;
    for (int i = 0; i < MIN_QUEUE - 1; i++) {
        sp_dereg(&regions.base, &mrs[i]->base);
        CHECK(!sp_mr_allows(seg->table.mrs, mrs[i]->base.rkey, PAGES + 10 * PAGE, PAGE, 1));
    }
    CHECK(regions.num_free_mrs == MIN_QUEUE); /* now the entries that were freed first */
    struct sp_mr *mr = register_at(10 * PAGE, PAGE, 3, 0);
    CHECK(mr->base.rkey == (1u << SP_MR_BITS | MANY));
    mr = register_at(10 * PAGE, PAGE, 3, 0); /* one too few is free: a new one */
    CHECK(mr->base.rkey == (1u << SP_MR_BITS | (MANY + 1)) && regions.num_free_mrs == 255);
    sp_dereg(&regions.base, &mrs[MANY - 1]->base);
    mr = register_at(10 * PAGE, PAGE, 3, 0);
    CHECK(mr == mrs[0] && mr->base.rkey == 2u << SP_MR_BITS);
    mr->base.lkey |= (uint32_t)SP_MR_GENERATION_MASK << SP_MR_BITS; /* the last generation */
    last = regions.mrs_high_water;
    sp_dereg(&regions.base, &mr->base);
    regions.mrs_high_water = SP_MAX_MRS; /* no new ones */
    regions.mr_serial = 1000;
    for (int i = 0; i < MIN_QUEUE - 1; i++)
        CHECK(register_at(10 * PAGE, PAGE, 3, 0) ==
              (i < MIN_QUEUE - 2 ? mrs[i + 1] : mrs[MANY - 1]));
    CHECK(register_at(10 * PAGE, PAGE, 3, 0) == mr && mr->base.rkey == 0 && last == MANY + 2);
    CHECK(entry_of(mr)->state == sp_mr_make_state(1000 + MIN_QUEUE, 0, 3));
    num_lines = 0;
    register_at(10 * PAGE, PAGE, 3, -ENOMEM);
    CHECK(num_lines == 1 && strstr(line, "no free entry for another memory region"));
}

int main(void)
{
    if (sizeof(void *) < 8 || sysconf(_SC_PAGESIZE) != PAGE) {
        printf("this test has addresses of 64 bits and pages of %d bytes\n", PAGE);
        return 77;
    }
    open_connections();
    pieces();
    ranges_that_are_covered();
    the_part_used_last_is_the_mapping();
    blocks_are_prefaulted_once();
    windows_are_limited();
    windows_that_cannot_be_mapped();
    pages_of_regions();
    regions_that_peers_may_map();
    parts_of_regions();
    keys_of_regions();
    return 0;
}
