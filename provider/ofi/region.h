/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions: the process's table, against which its own operations and those of its peers are
 * checked. A key is reused for another region only after 4095 others in its place. */
#ifndef FP_REGION_H
#define FP_REGION_H

#include "types.h"

int fp_reg(struct prov *base, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **mr);
void fp_dereg(struct prov *base, struct prov_mr *mr);
/* Called once, before the others. */
void fp_regions_open(struct fp_prov *prov);
void fp_regions_free(struct fp_prov *prov);

/* May [addr, addr + length) be accessed with this key? `access` 0: read by this process. */
bool fp_region_allows(struct fp_prov *prov, uint32_t key, uint64_t addr, uint64_t length,
                      unsigned int access);

/* Checks and copies, with the region protected against deregistration: PROV_OK; PROV_RMT_ACCESS:
 * not allowed; PROV_RMT_FAULT: the memory is unmapped. */
enum prov_status fp_region_copy_in(struct fp_prov *prov, uint32_t key, uint64_t to, uint64_t whole,
                                   const void *from, size_t offset, size_t size);
enum prov_status fp_region_copy_out(struct fp_prov *prov, uint32_t key, uint64_t from,
                                    uint64_t whole, void *to, size_t offset, size_t size);

/* Lets peers of the endpoint read the region by the fabric's RMA, and returns the fabric's key and
 * the address or offset of this range. The region is registered with the fabric the first time.
 * False: registration failed. */
bool fp_region_expose(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length,
                      uint64_t *fabric_key, uint64_t *at);
/* As fp_region_expose(), for writes of the peers, and for the whole region. */
bool fp_region_grant_rkey(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length,
                          struct fp_rkey_reply *answer);
/* As fp_region_expose(), for the endpoint's own operations, which use `desc`. */
bool fp_region_expose_local(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length,
                            void **desc);
/* The endpoint is being closed. */
void fp_region_unexpose(struct fp_ep *ep);

/* Is memory of the program mapped, and are its ends readable, or writable? For any thread. */
bool fp_memory_is_mapped(const struct fp_prov *prov, const void *addr, size_t size, bool write);

/* Copies memory of the program that may be unmapped. */
bool fp_copy_local(struct fp_prov *prov, void *to, const void *from, size_t size);

#endif
