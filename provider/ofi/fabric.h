/* SPDX-License-Identifier: Apache-2.0 */
/* Selects a fabric of libfabric, and opens its endpoints. */
#ifndef FP_FABRIC_H
#define FP_FABRIC_H

#include "types.h"

/* Returns the first usable fabric of this host. NULL: none; `why` (of size FP_WHY) gets the reason.
 * */
struct fi_info *fp_fabric_choose(const struct fp_lib *lib, char why[FP_WHY]);

/* True if this host has a usable fabric. `text` gets the name of the fabric, or why there is none.
 * For tools. */
bool fp_fabric_probe(char text[FP_WHY]);

/* Returns the maximum size of messages that arrive in the order of sending. The receiver fetches
 * larger messages of ofi_rxm, and later messages overtake them. */
size_t fp_fabric_ordered_size(const struct fp_lib *lib, const struct fi_info *info);

/* Returns a hash of the properties that two processes must have in common. */
uint32_t fp_fabric_hash(const struct fp_lib *lib, const struct fi_info *info);

/* Opens an endpoint with its own completion queue and address vector, and with its own domain if
 * the fabric polls all sockets of a domain at once. cq_fd: -1 if the fabric has no descriptor to
 * sleep on. 0 or -errno after an error line. */
int fp_fids_open(struct fp_prov *prov, struct fp_fids *fids);
/* Any of the fids may be NULL. fp_fids_close_ep() closes only the endpoint, so that the fabric
 * stops using memory; then the registrations are closed, and fp_fids_close() closes the rest. */
void fp_fids_close_ep(struct fp_fids *fids);
void fp_fids_close(struct fp_prov *prov, struct fp_fids *fids);

/* True if cq_fd will signal the next completion. False: a completion is there already. */
bool fp_fids_trywait(struct fp_prov *prov, struct fp_fids *fids);

/* Gets the endpoint's name, which peers insert into their address vectors. */
int fp_ep_name(struct fid_ep *ep, uint8_t name[FP_NAME_MAX], uint8_t *size);

/*
 * Registration of memory with the fabric, in the mode that the fabric requires.
 */

/* Registers [addr, addr + size) in the endpoint's domain, for `access` (FI_SEND,
 * FI_REMOTE_WRITE...), and for this endpoint if the fabric binds regions to endpoints. 0, or
 * libfabric's negative code. For any thread. */
int fp_fabric_mr_reg(struct fp_prov *prov, const struct fp_fids *fids, const void *addr,
                     size_t size, uint64_t access, struct fid_mr **mr);
void fp_fabric_mr_close(struct fid_mr *mr);

#endif
