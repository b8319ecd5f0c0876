/* SPDX-License-Identifier: Apache-2.0 */
/* Packs of the records of 64 consecutive ranks, in a hash table that grows. */
#include "bootstrap/store.h"
#include "bootstrap/pack.h"

#include <errno.h>
#include <stdlib.h>

enum { GROUP = 64, FIRST_ROOM = 2, MALLOC_HEADER = 8, MALLOC_UNIT = 16 };

struct ut_job_group {
    uint32_t number;  /* the first rank / GROUP */
    uint64_t present; /* one bit per rank: its record is in the pack, which is ordered by rank */
    struct ut_job_pack pack;
};

static uint32_t hash(uint32_t number)
{
    number *= 0x9e3779b1u;
    return number ^ number >> 15;
}

/* The slot of the group in the table, or an empty slot for it. The table always has an empty slot.
 */
static struct ut_job_group **find_group(struct ut_job_group **groups, uint32_t room,
                                        uint32_t number)
{
    uint32_t i = hash(number) & (room - 1);

    while (groups[i] && groups[i]->number != number)
        i = (i + 1) & (room - 1);
    return &groups[i];
}

static int grow_table(struct ut_job_store *store)
{
    uint32_t room = store->room ? store->room * 2 : FIRST_ROOM;
    struct ut_job_group **groups = calloc(room, sizeof(struct ut_job_group *));

    if (!groups)
        return -ENOMEM;
    for (uint32_t i = 0; i < store->room; i++) {
        if (store->groups[i])
            *find_group(groups, room, store->groups[i]->number) = store->groups[i];
    }
    free(store->groups);
    store->groups = groups;
    store->room = room;
    return 0;
}

static struct ut_job_group *find_or_add(struct ut_job_store *store, uint32_t number)
{
    if ((store->num_groups + 1) * 4 > store->room * 3 && grow_table(store) != 0)
        return NULL;
    struct ut_job_group **place = find_group(store->groups, store->room, number), *group = *place;
    if (group)
        return group;
    group = calloc(1, sizeof(*group));
    if (!group)
        return NULL;
    group->number = number;
    *place = group;
    store->num_groups++;
    return group;
}

static uint64_t bit_of(uint32_t rank)
{
    return 1ull << rank % GROUP;
}

/* The number of records of lower ranks in the group. */
static unsigned int index_of(const struct ut_job_group *group, uint32_t rank)
{
    return (unsigned int)__builtin_popcountll(group->present & (bit_of(rank) - 1));
}

int ut_job_store_add(struct ut_job_store *store, uint32_t rank, const void *record, size_t size)
{
    struct ut_job_group *group = find_or_add(store, rank / GROUP);

    if (!group)
        return -ENOMEM;
    if (group->present & bit_of(rank)) {
        ut_job_pack_remove(&group->pack, index_of(group, rank));
        group->present &= ~bit_of(rank);
        store->num_records--;
    }
    int rc = ut_job_pack_insert(&group->pack, index_of(group, rank), record, size);
    if (rc != 0)
        return rc;
    group->present |= bit_of(rank);
    store->num_records++;
    return 0;
}

bool ut_job_store_read(const struct ut_job_store *store, uint32_t rank, void *record, size_t *size)
{
    if (store->room == 0)
        return false;
    const struct ut_job_group *group = *find_group(store->groups, store->room, rank / GROUP);
    return group && (group->present & bit_of(rank)) &&
           ut_job_pack_read(&group->pack, index_of(group, rank), record, size);
}

int64_t ut_job_store_next(const struct ut_job_store *store, uint64_t *place)
{
    for (; *place / GROUP < store->room; ++*place) {
        const struct ut_job_group *group = store->groups[*place / GROUP];
        uint32_t rank = (uint32_t)(*place % GROUP);
        if (group && (group->present & bit_of(rank))) {
            ++*place;
            return (int64_t)group->number * GROUP + rank;
        }
    }
    return -1;
}

/* The number of bytes that malloc() uses for a block. */
static size_t malloc_size(size_t bytes)
{
    return (bytes + MALLOC_HEADER + MALLOC_UNIT - 1) / MALLOC_UNIT * MALLOC_UNIT;
}

size_t ut_job_store_bytes(const struct ut_job_store *store)
{
    size_t bytes = store->room ? malloc_size(store->room * sizeof(struct ut_job_group *)) : 0;

    for (uint32_t i = 0; i < store->room; i++) {
        const struct ut_job_group *group = store->groups[i];
        if (group)
            bytes += malloc_size(sizeof(*group)) + malloc_size(group->pack.size);
    }
    return bytes;
}

void ut_job_store_free(struct ut_job_store *store)
{
    for (uint32_t i = 0; i < store->room; i++) {
        if (store->groups[i])
            ut_job_pack_free(&store->groups[i]->pack);
        free(store->groups[i]);
    }
    free(store->groups);
    *store = (struct ut_job_store){NULL, 0, 0, 0};
}
