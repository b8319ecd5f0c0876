/* SPDX-License-Identifier: Apache-2.0 */
/* Translates remote STADDs with the peer's STag table, whose entries are read when needed. */
#ifndef UT_LINK_STAG_READ_H
#define UT_LINK_STAG_READ_H

#include "link/link.h"

/* Finds the remote memory of [stadd, stadd + length). Returns 0; UTOFU_ERR_MRQ_RMT_*; or
 * UTOFU_ERR_NOT_COMPLETED while the entry of the STag is being read: link_ops->post_waiting()
 * follows. `no_reread`: the entry was just read for this communication, an error is final. */
int ut_link_find_memory_slow(struct ut_link *link, utofu_stadd_t stadd, uint64_t length, bool write,
                             bool no_reread, uint64_t *addr, uint32_t *rkey);

/* True if the cached part of the peer's STag table contains [stadd, stadd + length): sets `addr`.
 * Always false for reserved STags, whose STADDs do not change with a new registration. Reads
 * nothing from the peer and creates no link. */
bool ut_link_stadd_is_cached(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                             uint64_t length, uint64_t *addr);

/* Gets the address of the STADD's STag entry in the peer's memory, and the cached contents. False:
 * the entry is not cached, or the link is down. */
bool ut_link_get_cached_entry(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd,
                              uint64_t *entry_addr, struct ut_cached_stag *cached);

/* Reads the STADD's STag entry again. True: it is unchanged. False if it changed, or if the read
 * does not complete at once, as over a network: the VCQ may have been freed and created again with
 * the same id. */
bool ut_link_recheck_entry(struct ut_vcq *vcq, utofu_vcq_id_t rmt_vcq_id, utofu_stadd_t stadd);

/* Returns the cause of an error of ut_link_find_memory_slow(), according to the cached entry. */
struct ut_failure ut_link_error_cause(const struct ut_link *link, utofu_stadd_t stadd,
                                      uint64_t length, bool write);

/* Fast path of ut_link_find_memory_slow() for the writable STag used last. False: the STADD belongs
 * to another STag. */
static inline bool ut_link_find_last_stag(const struct ut_link *link, utofu_stadd_t stadd,
                                          uint64_t length, uint64_t *addr, uint32_t *rkey)
{
    *rkey = link->last_stag_rkey;
    return ut_stadd_range_find(&link->last_stag, stadd, length, addr);
}

/* ut_link_find_memory_slow() with its fast path before it. */
static inline int ut_link_find_memory(struct ut_link *link, utofu_stadd_t stadd, uint64_t length,
                                      bool write, bool no_reread, uint64_t *addr, uint32_t *rkey)
{
    if (__builtin_expect(ut_link_find_last_stag(link, stadd, length, addr, rkey), 1))
        return 0;
    return ut_link_find_memory_slow(link, stadd, length, write, no_reread, addr, rkey);
}

/* Invalidates the cached entry of the STag: the next use reads the entry again. */
void ut_link_invalidate_stag(struct ut_link *link, utofu_stadd_t stadd);

/* The outstanding read of an entry has completed; no effect without one. PROV_OK: stores the entry
 * and posts the communications that wait for it. Otherwise drops the read. */
void ut_link_read_done(struct ut_link *link, enum prov_status status);

#endif
