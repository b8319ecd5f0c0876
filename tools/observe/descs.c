/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared descriptors. Their content is the library's own business, so the arguments of the
 * prepare function are kept with a hash of what it wrote. A table of a fixed size: the oldest of a
 * bucket makes room.
 */
#include "observe/descs.h"

#include <stdlib.h>

#include "observe/errors.h"
#include "util/hash.h"

enum { BUCKET_BITS = 11, WAYS = 4, MAX_SIZES = 8, UNIT = 8, MAX_DESC = 1024 };

struct prepared {
    uint64_t hash; /* 0: free */
    struct ob_comm comm;
};

static struct {
    uint32_t lock;
    struct prepared *entries; /* WAYS for each bucket */
    uint32_t next;
    size_t sizes[MAX_SIZES]; /* of descriptors that were seen, 0: none */
} prepared_descs;
uint64_t ob_num_unknown_descs;

static uint64_t hash_desc(const void *desc, size_t size)
{
    uint64_t hash = ut_hash_word(UT_HASH_FIRST, size);
    const uint64_t *words = desc;

    for (size_t i = 0; i < size / UNIT; i++)
        hash = (hash ^ words[i]) * UT_HASH_FACTOR ^ hash >> 29;
    return hash | 1;
}

static struct prepared *bucket_of(uint64_t hash)
{
    return &prepared_descs.entries[ut_hash_index(hash, BUCKET_BITS) * WAYS];
}

static void note_size(size_t size)
{
    for (int i = 0; i < MAX_SIZES; i++) {
        if (prepared_descs.sizes[i] == size)
            return;
        if (prepared_descs.sizes[i] == 0) {
            prepared_descs.sizes[i] = size;
            return;
        }
    }
}

static void enter_desc(uint64_t hash, const struct ob_comm *comm)
{
    struct prepared *bucket = bucket_of(hash), *to = &bucket[prepared_descs.next++ % WAYS];

    for (int i = WAYS - 1; i >= 0; i--)
        if (bucket[i].hash == hash || bucket[i].hash == 0)
            to = &bucket[i];
    to->hash = hash;
    to->comm = *comm;
}

int ob_prepared(struct ob_comm *comm, int rc, const void *desc, const size_t *desc_size)
{
    size_t blocks = comm->num_blocks;

    if (rc != UTOFU_SUCCESS || blocks == 0)
        return ob_error(comm->function, rc, comm->caller);
    size_t size = *desc_size / blocks;
    if (size == 0 || size % UNIT || size > MAX_DESC)
        return rc;
    comm->num_blocks = 1;
    ob_lock(&prepared_descs.lock);
    if (!prepared_descs.entries)
        prepared_descs.entries =
            calloc((size_t)WAYS << BUCKET_BITS, sizeof(*prepared_descs.entries));
    for (size_t i = 0; prepared_descs.entries && i < blocks; i++) {
        note_size(size);
        enter_desc(hash_desc((const char *)desc + i * size, size), comm);
        comm->lcl_stadd += comm->stride;
        comm->rmt_stadd += comm->stride;
    }
    ob_unlock(&prepared_descs.lock);
    return rc;
}

static bool find_of_size(const void *desc, size_t size, struct ob_comm *comm)
{
    uint64_t hash = hash_desc(desc, size);
    const struct prepared *bucket = bucket_of(hash);

    for (int i = 0; i < WAYS; i++) {
        if (bucket[i].hash == hash) {
            *comm = bucket[i].comm;
            return true;
        }
    }
    return false;
}

size_t ob_desc_find(const void *desc, size_t size, struct ob_comm *comm)
{
    size_t found = 0;

    ob_lock(&prepared_descs.lock);
    for (int i = 0; prepared_descs.entries && i < MAX_SIZES && prepared_descs.sizes[i] && !found;
         i++) {
        if (prepared_descs.sizes[i] <= size && find_of_size(desc, prepared_descs.sizes[i], comm))
            found = prepared_descs.sizes[i];
    }
    ob_unlock(&prepared_descs.lock);
    return found;
}
