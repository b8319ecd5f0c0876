/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions: a table of this process, which its own operations and those of its peers are
 * checked against here. A key is never given to another region before 4095 others had its place. */
#ifndef FP_REGION_H
#define FP_REGION_H

#include "types.h"

int fp_reg(struct prov *base, unsigned int device, void *addr, size_t size, unsigned int access,
           struct prov_mr **mr);
void fp_dereg(struct prov *base, struct prov_mr *mr);
/* Once, before the others. */
void fp_regions_open(struct fp_prov *prov);
void fp_regions_free(struct fp_prov *prov);

/* May [addr, addr + length) be used so, by this key? `access` 0: read by this process. */
bool fp_allows(struct fp_prov *prov, uint32_t key, uint64_t addr, uint64_t length,
               unsigned int access);

/* The same, and the copy, during which the region cannot be deregistered: PROV_OK,
 * PROV_RMT_ACCESS: not allowed; PROV_RMT_FAULT: the memory is not there. */
enum prov_status fp_copy_in(struct fp_prov *prov, uint32_t key, uint64_t to, uint64_t whole,
                            const void *from, size_t offset, size_t size);
enum prov_status fp_copy_out(struct fp_prov *prov, uint32_t key, uint64_t from, uint64_t whole,
                             void *to, size_t offset, size_t size);

/* Lets peers of the endpoint read the region by the fabric's RMA, and tells where they find this
 * part of it: the fabric's key, and its address or offset. The region is registered with the fabric
 * the first time. False: it cannot be. */
bool fp_expose(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length, uint64_t *fabric_key,
               uint64_t *at);
/* The same for writes of the peers: tells of the whole region. */
bool fp_grant(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length,
              struct fp_key *answer);
/* The same for own operations of the endpoint, which name it by `desc`. */
bool fp_expose_own(struct fp_ep *ep, uint32_t key, uint64_t addr, uint64_t length, void **desc);
/* The endpoint is being closed. */
void fp_unexpose(struct fp_ep *ep);

/* Copies memory of the program that may not be there. */
bool fp_copy_own(struct fp_prov *prov, void *to, const void *from, size_t size);

#endif
