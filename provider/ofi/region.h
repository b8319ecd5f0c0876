/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions: the table against which operations of this process and of its peers are checked.
 * A key is reused only after 4095 other regions have used its entry. */
#ifndef FP_REGION_H
#define FP_REGION_H

#include "types.h"

int fp_reg(struct prov *base, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **mr);
void fp_dereg(struct prov *base, struct prov_mr *mr);
/* Called once, before the other functions. */
void fp_regions_open(struct fp_prov *prov);
void fp_regions_free(struct fp_prov *prov);

/* True if the key permits access to [addr, addr + length). `access` 0: read by this process. */
bool fp_region_allows(struct fp_prov *prov, uint32_t key, uint64_t addr, uint64_t length,
                      unsigned int access);

/* Copy in or out after a check of the key, while the region cannot be deregistered. PROV_OK;
 * PROV_RMT_ACCESS: not permitted; PROV_RMT_FAULT: the memory is unmapped. */
enum prov_status fp_region_copy_in(struct fp_prov *prov, uint32_t key, uint64_t to, uint64_t whole,
                                   const void *from, size_t offset, size_t size);
enum prov_status fp_region_copy_out(struct fp_prov *prov, uint32_t key, uint64_t from,
                                    uint64_t whole, void *to, size_t offset, size_t size);

/* Registers the region with the fabric, if necessary, so that peers of the endpoint can read it
 * with RMA. Returns the key of the fabric, and the address or offset of this range. False:
 * registration failed. */
bool fp_region_register(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length,
                        uint64_t *fabric_key, uint64_t *at);
/* As fp_region_register(), for RMA writes of the peers, and for the whole region. */
bool fp_region_grant_rkey(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length,
                          struct fp_rkey_reply *answer);
/* As fp_region_register(), for RMA of this endpoint, which needs `desc`. */
bool fp_region_register_local(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length,
                              void **desc);
/* Drops the registrations of an endpoint that is being closed. */
void fp_region_unregister(struct fp_ep *ep);

/* True if memory of the program is mapped, and its first and last bytes are readable, or writable.
 * For any thread. */
bool fp_memory_is_mapped(const struct fp_prov *prov, const void *addr, size_t size, bool write);

/* Copies memory of the program that may be unmapped. */
bool fp_copy_local(struct fp_prov *prov, void *to, const void *from, size_t size);

#endif
