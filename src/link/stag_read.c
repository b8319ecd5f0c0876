/* SPDX-License-Identifier: Apache-2.0 */
/* Reads entries of the peer's STag table, and translates remote STADDs with them. */
#include <errno.h>
#include <string.h>

#include "link/link.h"

/* Gives the link an entry of the VCQ's scratch memory. False: all are in use. */
static bool alloc_scratch(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    if (link->scratch)
        return true;
    if (vcq->num_scratch_free == 0)
        return false;
    link->scratch = vcq->scratch_free[--vcq->num_scratch_free] + 1;
    return true;
}

static void free_scratch(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    vcq->scratch_free[vcq->num_scratch_free++] = link->scratch - 1;
    link->scratch = 0;
}

/* Returns the scratch memory that alloc_scratch() has given to the link. */
static uint8_t *scratch_of(struct ut_link *link)
{
    return link->vcq->scratch + (size_t)(link->scratch - 1) * UT_SCRATCH_SIZE;
}

/* Ends the read of an entry, and frees its scratch memory. */
static void end_read(struct ut_link *link)
{
    link->reading = UT_STAG_NONE;
    free_scratch(link);
}

/* Posts the read of an STag entry. If the address of the entry's chunk is unknown, posts the read
 * of the chunk's directory entry instead. Returns the result of prov_ops.read(). */
static int post_read(struct ut_link *link)
{
    uint32_t index = link->reading;
    const struct ut_cached_chunk *chunk = ut_stag_cache_find_chunk(&link->stag_cache, index);
    struct prov_xfer x = {
        .lcl = scratch_of(link),
        .lkey = ut_region_lkey(link->vcq->scratch_region, link->provider),
        .flags = PROV_SIGNAL,
        .cookie = ut_cookie(UT_COOKIE_READ, 0),
    };

    link->reading_dir = chunk == NULL || chunk->addr == 0;
    if (link->reading_dir) {
        x.rmt = link->dir_addr + index / UT_STAG_CHUNK * sizeof(struct ut_stag_dir_entry);
        x.rkey = link->dir_rkey;
        x.length = sizeof(struct ut_stag_dir_entry);
    } else {
        x.rmt = chunk->addr + index % UT_STAG_CHUNK * sizeof(struct ut_stag_entry);
        x.rkey = chunk->rkey;
        x.length = sizeof(struct ut_stag_entry);
    }
    return link->ops->read(link->conn, &x);
}

/* Marks the cached entry as not registered. */
static void invalidate_stag(struct ut_link *link, uint32_t index)
{
    struct ut_cached_stag *stag = ut_stag_cache_find(&link->stag_cache, index);

    link->last_stag.size = 0;
    if (stag)
        stag->flags_and_generation = 0;
}

/* Stores the result of the read in the cache. False: another read must follow. Without memory the
 * STag counts as not registered. */
static bool store_read(struct ut_link *link)
{
    uint32_t index = link->reading;

    invalidate_stag(link, index);
    if (link->reading_dir) {
        struct ut_cached_chunk *chunk = ut_stag_cache_find_or_add_chunk(&link->stag_cache, index);
        struct ut_stag_dir_entry dir;
        if (!chunk)
            return true;
        memcpy(&dir, scratch_of(link), sizeof(dir));
        chunk->addr = dir.addr;
        chunk->rkey = dir.rkey;
        return dir.addr == 0; /* no STag of the chunk was ever registered */
    }
    struct ut_stag_entry e;
    memcpy(&e, scratch_of(link), sizeof(e));
    if (e.check != ut_stag_entry_check(&e))
        return false; /* torn read: the peer is writing the entry */
    struct ut_cached_stag *stag = ut_stag_cache_find_or_add(&link->stag_cache, index);
    if (stag)
        *stag = (struct ut_cached_stag){
            .base = e.base, .size = e.size, .rkey = e.rkey, .flags_and_generation = e.info};
    return true;
}

/* Posts reads until the STag entry is cached, or known to be inaccessible (true); or until a read
 * is outstanding or cannot be posted (false). */
static bool read_until_cached(struct ut_link *link)
{
    for (;;) {
        int rc = post_read(link);
        if (rc >= 0 && (rc & PROV_COMPLETE)) {
            if (store_read(link)) {
                end_read(link);
                return true;
            }
            continue;
        }
        if (rc == -EACCES || rc == -EFAULT) {
            /* access error: the peer has freed the VCQ with its table */
            ut_stag_cache_invalidate_chunk(&link->stag_cache, link->reading);
            end_read(link);
            return true;
        }
        if (rc < 0) {
            end_read(link);
            if (rc == -EAGAIN)
                ut_link_schedule(link);
        }
        return false;
    }
}

/* Goes on reading the entry. Posts the communications that wait for it if it is cached now. */
static void read_on_then_post(struct ut_link *link)
{
    if (read_until_cached(link))
        link->vcq->link_ops->post_waiting(link);
}

void ut_link_read_done(struct ut_link *link, enum prov_status status)
{
    if (link->reading == UT_STAG_NONE)
        return;
    if (status != PROV_OK) {
        end_read(link);
        return; /* ut_link_on_down() follows; the new connection reads the entry again */
    }
    if (!store_read(link)) {
        read_on_then_post(link);
        return;
    }
    uint32_t index = link->reading;
    end_read(link);
    if (link->to_post != UT_NO_SLOT) {
        struct ut_slot *slot = &link->vcq->toq[link->to_post];
        /* The entry may have been read for an earlier ARMW, which the target's CPU has executed
         * meanwhile: then to_post needs another entry. */
        if (ut_link_stag_index(link, slot->desc.rmt_stadd) == index)
            slot->stag_reread = true;
    }
    link->vcq->link_ops->post_waiting(link);
}

void ut_link_invalidate_stag(struct ut_link *link, utofu_stadd_t stadd)
{
    invalidate_stag(link, ut_link_stag_index(link, stadd));
}

/* Returns 0 with the address; or UTOFU_ERR_MRQ_RMT_*. */
static int check_access(const struct ut_cached_stag *e, uint32_t index, utofu_stadd_t stadd,
                        uint64_t length, bool write, uint64_t *addr)
{
    if (!(e->flags_and_generation & UT_STAG_VALID) ||
        e->flags_and_generation >> UT_STAG_GENERATION_SHIFT != ut_stadd_generation(stadd))
        return UTOFU_ERR_MRQ_RMT_STADD;
    uint64_t at = ut_stadd_offset(stadd) - ut_stadd_offset_of_base(index, e->base);
    if (at >= e->size && (at > e->size || length > 0))
        return UTOFU_ERR_MRQ_RMT_STADD;
    if (length > e->size - at)
        return UTOFU_ERR_MRQ_RMT_LENGTH;
    if (write && !(e->flags_and_generation & UT_STAG_WRITABLE))
        return UTOFU_ERR_MRQ_RMT_MEMORY;
    *addr = e->base + at;
    return 0;
}

bool ut_link_stadd_is_cached(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                             uint64_t length, uint64_t *addr)
{
    const struct ut_link *link = ut_link_lookup(vcq, ut_vcq_id_key(rmt_vcq_id));
    uint32_t index = link ? ut_link_stag_index(link, stadd) : UT_STAG_NONE;

    if (index == UT_STAG_NONE || index < UT_NUM_RESERVED_STAGS)
        return false;
    const struct ut_cached_stag *e = ut_stag_cache_find(&link->stag_cache, index);
    return e && check_access(e, index, stadd, length, false, addr) == 0;
}

bool ut_link_get_cached_entry(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                              uint64_t *entry_addr, struct ut_cached_stag *cached)
{
    struct ut_link *link = ut_link_lookup(vcq, ut_vcq_id_key(rmt_vcq_id));
    uint32_t index = link ? ut_link_stag_index(link, stadd) : UT_STAG_NONE;

    if (index == UT_STAG_NONE || link->state != UT_LINK_UP)
        return false;
    const struct ut_cached_chunk *chunk = ut_stag_cache_find_chunk(&link->stag_cache, index);
    const struct ut_cached_stag *e = ut_stag_cache_find(&link->stag_cache, index);
    if (!chunk || chunk->addr == 0 || !e)
        return false;
    *entry_addr = chunk->addr + index % UT_STAG_CHUNK * sizeof(struct ut_stag_entry);
    *cached = *e;
    return true;
}

struct ut_failure ut_link_error_cause(const struct ut_link *link, utofu_stadd_t stadd,
                                      uint64_t length, bool write)
{
    uint32_t index = ut_link_stag_index(link, stadd);
    const struct ut_cached_stag *e = ut_stag_cache_find(&link->stag_cache, index);

    if (!e || !(e->flags_and_generation & UT_STAG_VALID) ||
        e->flags_and_generation >> UT_STAG_GENERATION_SHIFT != ut_stadd_generation(stadd))
        return (struct ut_failure){.cause = UT_CAUSE_NO_STAG};
    return ut_region_failure_cause(ut_stadd_offset_of_base(index, e->base), e->size,
                                   e->flags_and_generation & UT_STAG_WRITABLE, stadd, length,
                                   write);
}

/* True if the entry is read before each use. A peer may register other memory under an STag that
 * its program has chosen: then the provider refuses the cached key, and the communication is posted
 * again. With the shuffle mode this may be behind later ones, even one with STRONG_ORDER. */
static bool is_read_each_time(const struct ut_link *link, uint32_t index)
{
    return link->vcq->shuffled && index < UT_NUM_RESERVED_STAGS;
}

/* Caches the STag for ut_link_find_last_stag(). `addr` is the address of `stadd`. */
static void set_last_stag(struct ut_link *link, const struct ut_cached_stag *e, utofu_stadd_t stadd,
                          uint64_t addr)
{
    if (!(e->flags_and_generation & UT_STAG_WRITABLE))
        return;
    link->last_stag = (struct ut_stadd_range){
        .first = stadd - (addr - e->base), .size = e->size, .delta = addr - stadd};
    link->last_stag_rkey = e->rkey;
}

int ut_link_find_memory_slow(struct ut_link *link, utofu_stadd_t stadd, uint64_t length, bool write,
                             bool no_reread, uint64_t *addr, uint32_t *rkey)
{
    uint32_t index = ut_link_stag_index(link, stadd);

    if (index == UT_STAG_NONE)
        return UTOFU_ERR_MRQ_RMT_STADD;
    for (;;) {
        const struct ut_cached_stag *e = ut_stag_cache_find(&link->stag_cache, index);
        int rc = UTOFU_ERR_MRQ_RMT_STADD;
        if (e) {
            rc = check_access(e, index, stadd, length, write, addr);
            *rkey = e->rkey;
            if (rc == 0 && !is_read_each_time(link, index))
                set_last_stag(link, e, stadd, *addr);
        }
        /* the cached entry may be outdated: a process can register an STag at any time */
        if (no_reread || (rc == 0 && !is_read_each_time(link, index)))
            return rc;
        if (link->reading != UT_STAG_NONE)
            return UTOFU_ERR_NOT_COMPLETED;
        if (!alloc_scratch(link)) {
            ut_link_schedule(link);
            return UTOFU_ERR_NOT_COMPLETED;
        }
        link->reading = index;
        if (!read_until_cached(link))
            return UTOFU_ERR_NOT_COMPLETED;
        no_reread = true;
    }
}

bool ut_link_recheck_entry(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd)
{
    struct ut_link *link = ut_link_lookup(vcq, ut_vcq_id_key(rmt_vcq_id));

    if (!link || link->state != UT_LINK_UP || link->reading != UT_STAG_NONE)
        return false;
    uint32_t index = ut_link_stag_index(link, stadd);
    const struct ut_cached_stag *e = ut_stag_cache_find(&link->stag_cache, index);
    if (!e || !alloc_scratch(link))
        return false;
    const struct ut_cached_stag before = *e;
    link->reading = index;
    if (!read_until_cached(link))
        return false; /* also if the read completes later: ut_link_read_done() */
    e = ut_stag_cache_find(&link->stag_cache, index);
    return e && e->base == before.base && e->size == before.size &&
           e->flags_and_generation == before.flags_and_generation;
}
