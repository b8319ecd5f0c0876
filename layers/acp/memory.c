/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registered memory of this process: a table of regions. A row has a tag, which is its index
 * and part of the GAs of the region. Peers read one half of a row (struct al_published), chunk by
 * chunk under reserved STags; the other half is private. A list of rows sorted by address finds the
 * region that contains memory to be registered; registering it again only increments a counter.
 *
 * Tags 1 to 3 are the starter memory of the user and of the two upper layers.
 */
#include "memory.h"
#include "address.h"
#include "ctx.h"
#include "lock.h"
#include "log.h"
#include "net.h"
#include "progress.h"
#include "ranges.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/stall.h"

enum {
    FIRST_TAG = AL_STAG_STARTER + AL_STARTERS,
    TAGS = AL_SMALL_TAGS + AL_LARGE_TAGS,
    NO_TAG = TAGS, /* end of a list of free tags */
    MOST_MERGED =
        1 << 20, /* bytes; a region is registered again as a whole each time that it grows */
};

_Static_assert(sizeof(struct al_region) + sizeof(struct al_published) + sizeof(uint32_t) <= 64,
               "memory for each registration");

static const size_t published_size = AL_CHUNK * sizeof(struct al_published);

static struct al_region *row_of(uint32_t tag)
{
    struct al_chunk *chunk = &al.memory.chunks[tag / AL_CHUNK];

    return chunk->rows == NULL ? NULL : &chunk->rows[tag % AL_CHUNK];
}

static struct al_published *published_row(uint32_t tag)
{
    return &al.memory.chunks[tag / AL_CHUNK].published[tag % AL_CHUNK];
}

/* The first chunk exists from the start. */
void al_memory_count_usage(struct al_usage *usage)
{
    const size_t chunk = published_size + AL_CHUNK * sizeof(struct al_region);
    uint32_t num_chunks = 0;

    for (uint32_t i = 0; i < AL_CHUNKS; i++)
        num_chunks += al.memory.chunks[i].rows != NULL;
    usage->fixed += chunk;
    usage->region_bytes =
        (num_chunks - 1) * chunk + al.memory.room_sorted * sizeof(*al.memory.sorted);
    usage->regions = al.memory.num_sorted;
}

/* Creates the chunk of a tag, unless it exists. */
static bool make_chunk(uint32_t tag)
{
    struct al_chunk *chunk = &al.memory.chunks[tag / AL_CHUNK];

    if (chunk->rows != NULL)
        return true;
    chunk->published =
        mmap(NULL, published_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk->published == MAP_FAILED)
        return false;
    chunk->rows = calloc(AL_CHUNK, sizeof(*chunk->rows));
    if (chunk->rows != NULL &&
        utofu_reg_mem_with_stag(al_port(0)->vcq, chunk->published, published_size,
                                AL_STAG_REGIONS + tag / AL_CHUNK, UTOFU_REG_MEM_FLAG_READ_ONLY,
                                &chunk->stadd) == UTOFU_SUCCESS)
        return true;
    al_log("no room for more regions: %s", lc_utofu_error());
    free(chunk->rows);
    chunk->rows = NULL;
    munmap(chunk->published, published_size);
    return false;
}

static uint32_t alloc_tag(bool large)
{
    uint32_t tag = al.memory.free_tags[large].first;

    if (tag == NO_TAG) {
        tag = al.memory.free_tags[large].fresh;
        if (tag == al.memory.free_tags[large].end || !make_chunk(tag))
            return NO_TAG;
        al.memory.free_tags[large].fresh++;
    } else {
        al.memory.free_tags[large].first = row_of(tag)->count;
    }
    return tag;
}

static void free_tag(uint32_t tag)
{
    bool large = tag >= AL_SMALL_TAGS;

    *row_of(tag) = (struct al_region){.count = NO_TAG};
    if (al.memory.free_tags[large].first == NO_TAG)
        al.memory.free_tags[large].first = tag;
    else
        row_of(al.memory.free_tags[large].last)->count = tag;
    al.memory.free_tags[large].last = tag;
}

static char *begin_of(uint32_t tag)
{
    return row_of(tag)->addr + row_of(tag)->skew;
}

/* The number of regions in the sorted list that begin at or before addr. */
static uint32_t sorted_until(const char *addr)
{
    uint32_t low = 0, high = al.memory.num_sorted;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (begin_of(al.memory.sorted[middle]) <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool make_room(void)
{
    uint32_t room = al.memory.room_sorted == 0 ? 64 : 2 * al.memory.room_sorted;
    uint32_t *more;

    if (al.memory.num_sorted < al.memory.room_sorted)
        return true;
    more = realloc(al.memory.sorted, room * sizeof(*al.memory.sorted));
    if (more == NULL)
        return false;
    al.memory.sorted = more;
    al.memory.room_sorted = room;
    return true;
}

static void insert_sorted(uint32_t tag)
{
    uint32_t at = sorted_until(begin_of(tag));

    memmove(&al.memory.sorted[at + 1], &al.memory.sorted[at],
            (al.memory.num_sorted - at) * sizeof(*al.memory.sorted));
    al.memory.sorted[at] = tag;
    al.memory.num_sorted++;
}

static void remove_sorted(uint32_t tag)
{
    uint32_t at = sorted_until(begin_of(tag)) - 1;

    while (al.memory.sorted[at] != tag)
        at--;
    al.memory.num_sorted--;
    memmove(&al.memory.sorted[at], &al.memory.sorted[at + 1],
            (al.memory.num_sorted - at) * sizeof(*al.memory.sorted));
}

/* The region of this color that contains the memory. Considers regions that begin at the same
 * address as the last region before addr. */
static uint32_t find_around(const char *addr, size_t size, uint32_t color)
{
    uint32_t i = sorted_until(addr);
    const char *begin = i > 0 ? begin_of(al.memory.sorted[i - 1]) : NULL;

    for (; i > 0 && begin_of(al.memory.sorted[i - 1]) == begin; i--) {
        uint32_t tag = al.memory.sorted[i - 1];
        uint64_t before = (uint64_t)(addr - row_of(tag)->addr);

        if (row_of(tag)->color == color && before <= published_row(tag)->size &&
            size <= published_row(tag)->size - before)
            return tag;
    }
    return NO_TAG;
}

static bool map_starters(void)
{
    size_t offset = 0, sizes[AL_STARTERS];

    for (int i = 0; i < AL_STARTERS; i++)
        sizes[i] = (al.starter_size[i] + 4095) / 4096 * 4096;
    al.memory.starter_mapped = sizes[0] + sizes[1] + sizes[2];
    if (al.memory.starter_mapped == 0)
        return true;
    al.memory.starter = mmap(NULL, al.memory.starter_mapped, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (al.memory.starter == MAP_FAILED) {
        al.memory.starter = NULL;
        al_log("acp_init: no memory for %zu bytes of starter memory: --acp-size-smem asks for less",
               al.memory.starter_mapped);
        return false;
    }
    for (uint32_t i = 0; i < AL_STARTERS; offset += sizes[i++]) {
        uint32_t tag = AL_STAG_STARTER + i;

        if (sizes[i] == 0)
            continue;
        if (utofu_reg_mem_with_stag(al_port(0)->vcq, al.memory.starter + offset, sizes[i], tag, 0,
                                    &published_row(tag)->stadd) != UTOFU_SUCCESS) {
            al_log("acp_init: %zu bytes of starter memory cannot be registered: %s", sizes[i],
                   lc_utofu_error());
            return false;
        }
        published_row(tag)->size = al.starter_size[i];
        row_of(tag)->addr = al.memory.starter + offset;
    }
    return true;
}

static bool starters_fit(void)
{
    for (int i = 0; i < AL_STARTERS; i++) {
        if (al.starter_size[i] <= al_address_max_offset(false))
            continue;
        al_log("acp_init: starter memory of %zu bytes: with %u processes at most %llu",
               al.starter_size[i], al.job.procs, (unsigned long long)al_address_max_offset(false));
        return false;
    }
    return true;
}

bool al_memory_setup(void)
{
    memset(al.memory.chunks, 0, sizeof(al.memory.chunks));
    al.memory.sorted = NULL;
    al.memory.num_sorted = al.memory.room_sorted = 0;
    al.memory.starter = NULL;
    for (int large = 0; large < 2; large++) {
        al.memory.free_tags[large].first = al.memory.free_tags[large].last = NO_TAG;
        al.memory.free_tags[large].fresh = large ? AL_SMALL_TAGS : FIRST_TAG;
        al.memory.free_tags[large].end = large ? TAGS : AL_SMALL_TAGS;
    }
    return starters_fit() && make_chunk(FIRST_TAG) && map_starters();
}

static void close_chunk(struct al_chunk *chunk)
{
    for (uint32_t i = 0; i < AL_CHUNK; i++)
        if (chunk->rows[i].addr != NULL && chunk->published[i].stadd != 0)
            al_check_rc(utofu_dereg_mem(al_port(chunk->rows[i].color)->vcq,
                                        chunk->published[i].stadd + chunk->rows[i].skew, 0),
                        "utofu_dereg_mem");
    al_check_rc(utofu_dereg_mem(al_port(0)->vcq, chunk->stadd, 0), "utofu_dereg_mem");
    munmap(chunk->published, published_size);
    free(chunk->rows);
    *chunk = (struct al_chunk){0};
}

void al_memory_close(void)
{
    for (uint32_t i = 0; i < AL_CHUNKS; i++)
        if (al.memory.chunks[i].rows != NULL)
            close_chunk(&al.memory.chunks[i]);
    if (al.memory.starter != NULL)
        munmap(al.memory.starter, al.memory.starter_mapped);
    al.memory.starter = NULL;
    free(al.memory.sorted);
    al.memory.sorted = NULL;
}

void *al_memory_find(acp_ga_t ga, uint64_t size, utofu_stadd_t *stadd)
{
    struct al_place place;
    struct al_region *row;

    if (!al_address_unpack(ga, &place) || place.rank != al.job.rank)
        return NULL;
    row = row_of(place.tag);
    if (row == NULL || row->addr == NULL || row->color != place.color || place.offset < row->skew ||
        place.offset > published_row(place.tag)->size ||
        size > published_row(place.tag)->size - place.offset)
        return NULL;
    if (stadd != NULL)
        *stadd = published_row(place.tag)->stadd + place.offset;
    return row->addr + place.offset;
}

struct al_extent al_memory_extent(acp_ga_t ga)
{
    struct al_place place;

    al_address_unpack(ga, &place);
    return (struct al_extent){.before = place.offset - row_of(place.tag)->skew,
                              .size = published_row(place.tag)->size - row_of(place.tag)->skew};
}

/* Fills a row, which peers may read at any time; stadd is written last. */
static void publish_region(uint32_t tag, char *addr, size_t size, uint32_t color,
                           utofu_stadd_t stadd)
{
    struct al_published *p = published_row(tag);
    uint8_t skew = (uint8_t)((uintptr_t)addr % 8);

    *row_of(tag) =
        (struct al_region){.addr = addr - skew, .count = 1, .color = (uint8_t)color, .skew = skew};
    p->size = size + skew;
    p->color = color;
    __atomic_store_n(&p->stadd, stadd - skew, __ATOMIC_RELEASE);
    insert_sorted(tag);
}

/* The region of this color that ends at the start of the memory, or within the memory. */
static uint32_t find_before(const char *addr, size_t size, uint32_t color)
{
    for (uint32_t i = sorted_until(addr), looked_at = 0; i > 0 && looked_at < 8; looked_at++) {
        uint32_t tag = al.memory.sorted[--i];
        const char *end = row_of(tag)->addr + published_row(tag)->size;

        if (row_of(tag)->color == color && end >= addr && end < addr + size)
            return tag;
    }
    return NO_TAG;
}

static bool register_with_utofu(uint32_t tag, size_t size)
{
    struct al_published *p = published_row(tag);
    struct al_region *row = row_of(tag);
    utofu_stadd_t stadd;

    if (utofu_reg_mem(al_port(row->color)->vcq, begin_of(tag), size, 0, &stadd) != UTOFU_SUCCESS)
        return false;
    p->size = size + row->skew;
    __atomic_store_n(&p->stadd, stadd - row->skew, __ATOMIC_RELEASE);
    return true;
}

static void deregister_from_utofu(uint32_t tag, utofu_stadd_t stadd)
{
    al_check_rc(utofu_dereg_mem(al_port(row_of(tag)->color)->vcq, stadd + row_of(tag)->skew, 0),
                "utofu_dereg_mem");
    al_ranges_drop_all();
}

/* Extends a region to another end by registering it again. Its GAs stay valid; a peer that has
 * cached the old row gets an error and reads the row again. Fails while operations of this process
 * are in flight. */
static bool grow_region(uint32_t tag, const char *end)
{
    utofu_stadd_t before = published_row(tag)->stadd;

    if (!al_net_drain() || !register_with_utofu(tag, (size_t)(end - begin_of(tag))))
        return false;
    deregister_from_utofu(tag, before);
    row_of(tag)->merged = true;
    return true;
}

/* Registers a merged region again after a part of it was unregistered, because other memory may
 * have been mapped at that address. Requires that no operation of this process is in flight. */
static void register_again(uint32_t tag)
{
    utofu_stadd_t before = published_row(tag)->stadd;
    size_t size = published_row(tag)->size - row_of(tag)->skew;

    row_of(tag)->has_holes = false;
    __atomic_store_n(&published_row(tag)->stadd, AL_STADD_CHANGES, __ATOMIC_RELEASE);
    deregister_from_utofu(tag, before);
    if (register_with_utofu(tag, size))
        return;
    __atomic_store_n(&published_row(tag)->stadd, 0, __ATOMIC_RELEASE);
    al_log("acp_register_memory: key 0x%llx is not valid any more: some of its %zu bytes at %p are "
           "unmapped, although %u registrations have not been unregistered",
           (unsigned long long)al_address_pack(al.job.rank, row_of(tag)->color, tag, 0), size,
           (void *)begin_of(tag), row_of(tag)->count);
}

/* The region that contains the memory, or that the memory continues. */
static uint32_t find_near(const char *addr, size_t size, uint32_t color)
{
    uint32_t tag = find_around(addr, size, color);

    return tag != NO_TAG ? tag : find_before(addr, size, color);
}

/* Merges the memory into the region that contains it or that it continues. NO_TAG: there is none.
 * */
static uint32_t merge_memory(const char *addr, size_t size, uint32_t color)
{
    struct lc_stall_timer stall = {0};
    uint32_t tag, idle = 0;
    size_t whole;

    while ((tag = find_near(addr, size, color)) != NO_TAG && row_of(tag)->has_holes) {
        if (lc_stall_should_log(&stall, idle))
            al_log("acp_register_memory: has waited %llu s for %u communications to complete, "
                   "before it can register the region before %p again",
                   lc_stall_seconds(&stall), al_net_ops_in_flight(), (const void *)addr);
        if (al_net_drain())
            register_again(tag);
        else
            al_progress_wait(&idle);
    }
    al_progress_wait_done();
    if (tag == NO_TAG)
        return NO_TAG;
    whole = (size_t)(addr + size - row_of(tag)->addr);
    if (published_row(tag)->stadd != 0 && whole <= published_row(tag)->size)
        return tag;
    return whole <= MOST_MERGED && whole <= al_address_max_offset(false) - 7 &&
                   published_row(tag)->stadd != 0 && grow_region(tag, addr + size)
               ? tag
               : NO_TAG;
}

static acp_atkey_t key_of(uint32_t tag)
{
    return al_address_pack(al.job.rank, row_of(tag)->color, tag, 0);
}

static acp_atkey_t register_new(char *addr, size_t size, uint32_t color)
{
    utofu_stadd_t stadd;
    uint32_t tag;

    if (!al_port_open(color) || !make_room())
        return ACP_ATKEY_NULL;
    if (utofu_reg_mem(al_port(color)->vcq, addr, size, 0, &stadd) != UTOFU_SUCCESS) {
        al_log("acp_register_memory: %zu bytes at %p: %s", size, (void *)addr, lc_utofu_error());
        return ACP_ATKEY_NULL;
    }
    tag = alloc_tag(size > al_address_max_offset(false) - 7);
    if (tag == NO_TAG) {
        al_log("acp_register_memory: %zu bytes at %p: all %d regions of this size are in use; "
               "acp_unregister_memory frees one",
               size, (void *)addr,
               size > al_address_max_offset(false) - 7 ? AL_LARGE_TAGS : AL_SMALL_TAGS - FIRST_TAG);
        al_check_rc(utofu_dereg_mem(al_port(color)->vcq, stadd, 0), "utofu_dereg_mem");
        return ACP_ATKEY_NULL;
    }
    publish_region(tag, addr, size, color, stadd);
    return key_of(tag);
}

static acp_atkey_t register_memory(char *addr, size_t size, int color)
{
    uint32_t tag;

    if (!al.running) {
        al_log("acp_register_memory: before acp_init");
    } else if (color < 0 || (uint32_t)color >= al_net_colors()) {
        al_log("acp_register_memory: color %d: there are 0 to %u", color, al_net_colors() - 1);
    } else if (addr == NULL || size == 0 || size > al_address_max_offset(true) - 7) {
        al_log("acp_register_memory: %zu bytes at %p: with %u processes a region has 1 to %llu",
               size, (void *)addr, al.job.procs,
               (unsigned long long)al_address_max_offset(true) - 7);
    } else {
        tag = merge_memory(addr, size, (uint32_t)color);
        if (tag == NO_TAG)
            return register_new(addr, size, (uint32_t)color);
        row_of(tag)->count++;
        return key_of(tag);
    }
    return ACP_ATKEY_NULL;
}

acp_atkey_t acp_register_memory(void *addr, size_t size, int color)
{
    acp_atkey_t key;

    al_lock();
    key = register_memory(addr, size, color);
    al_unlock();
    return key;
}

/* The tag of a valid key: from acp_register_memory() of this process, or of starter memory. */
static uint32_t tag_of_key(acp_atkey_t key, const char *function)
{
    struct al_place place;
    struct al_region *row;

    if (!al.running) {
        al_log("%s: before acp_init", function);
        return NO_TAG;
    }
    if (key == ACP_ATKEY_NULL || !al_address_unpack(key, &place) || place.offset != 0) {
        al_log("%s: 0x%llx is not a key", function, (unsigned long long)key);
        return NO_TAG;
    }
    if (place.rank != al.job.rank) {
        al_log("%s: key 0x%llx belongs to rank %u: a process can use only its own keys", function,
               (unsigned long long)key, place.rank);
        return NO_TAG;
    }
    row = row_of(place.tag);
    if (row == NULL || row->addr == NULL || row->color != place.color) {
        al_log("%s: key 0x%llx: not registered, or unregistered already", function,
               (unsigned long long)key);
        return NO_TAG;
    }
    return place.tag;
}

static int unregister_memory(acp_atkey_t key)
{
    uint32_t tag = tag_of_key(key, "acp_unregister_memory");
    struct al_region *row;

    if (tag == NO_TAG)
        return -1;
    row = row_of(tag);
    if (tag < FIRST_TAG) {
        al_log("acp_unregister_memory: key 0x%llx belongs to the starter memory, which "
               "acp_finalize unregisters",
               (unsigned long long)key);
        return -1;
    }
    row->has_holes = row->merged;
    if (--row->count > 0)
        return 0;
    if (published_row(tag)->stadd != 0)
        deregister_from_utofu(tag, published_row(tag)->stadd);
    __atomic_store_n(&published_row(tag)->stadd, 0, __ATOMIC_RELEASE);
    remove_sorted(tag);
    free_tag(tag);
    return 0;
}

int acp_unregister_memory(acp_atkey_t key)
{
    int rc;

    al_lock();
    rc = unregister_memory(key);
    al_unlock();
    return rc;
}

acp_ga_t acp_query_ga(acp_atkey_t key, void *addr)
{
    acp_ga_t ga = ACP_GA_NULL;
    uint32_t tag;

    al_lock();
    tag = tag_of_key(key, "acp_query_ga");
    if (tag != NO_TAG) {
        const char *begin = begin_of(tag);
        uint64_t offset = (uint64_t)((char *)addr - row_of(tag)->addr);

        if ((char *)addr >= begin && offset <= published_row(tag)->size)
            ga = key + offset;
        else
            al_log("acp_query_ga: %p is outside the region of key 0x%llx: %llu bytes at %p", addr,
                   (unsigned long long)key,
                   (unsigned long long)published_row(tag)->size - row_of(tag)->skew,
                   (const void *)begin);
    }
    al_unlock();
    return ga;
}

void *acp_query_address(acp_ga_t ga)
{
    void *addr = NULL;

    al_lock();
    if (al.running && ga != ACP_GA_NULL)
        addr = al_memory_find(ga, 0, NULL);
    al_unlock();
    return addr;
}

static acp_ga_t starter_ga(int rank, uint32_t which, const char *function)
{
    acp_ga_t ga = ACP_GA_NULL;

    al_lock();
    if (!al.running)
        al_log("%s: before acp_init", function);
    else if (rank < 0 || (uint32_t)rank >= al.job.procs)
        al_log("%s: rank %d: there are 0 to %u", function, rank, al.job.procs - 1);
    else
        ga = al_address_pack((uint32_t)rank, 0, AL_STAG_STARTER + which, 0);
    al_unlock();
    return ga;
}

acp_ga_t acp_query_starter_ga(int rank)
{
    return starter_ga(rank, 0, "acp_query_starter_ga");
}

/* For the upper layers of ACP; a program may define its own. */
acp_ga_t iacp_query_starter_ga_cl(int rank);
acp_ga_t iacp_query_starter_ga_dl(int rank);

__attribute__((weak, visibility("default"))) acp_ga_t iacp_query_starter_ga_cl(int rank)
{
    return starter_ga(rank, 1, "iacp_query_starter_ga_cl");
}

__attribute__((weak, visibility("default"))) acp_ga_t iacp_query_starter_ga_dl(int rank)
{
    return starter_ga(rank, 2, "iacp_query_starter_ga_dl");
}

int acp_query_rank(acp_ga_t ga)
{
    struct al_place place;

    return al.running && al_address_unpack(ga, &place) ? (int)place.rank : -1;
}

int acp_query_color(acp_ga_t ga)
{
    struct al_place place;

    return al.running && al_address_unpack(ga, &place) ? (int)place.color : -1;
}

int acp_colors(void)
{
    if (al.running)
        return (int)al_net_colors();
    al_log("acp_colors: before acp_init");
    return -1;
}
