/* SPDX-License-Identifier: Apache-2.0 */
/* Registration of memory with the fabric, in the mode that the fabric requires. */
#ifndef FP_FABRIC_MR_H
#define FP_FABRIC_MR_H

#include "types.h"

/* Registers [addr, addr + size) in the endpoint's domain, for `access` (FI_SEND,
 * FI_REMOTE_WRITE...), and for this endpoint if the fabric binds regions to endpoints. 0, or
 * libfabric's negative code. For any thread. */
int fp_fabric_mr_reg(struct fp_prov *prov, const struct fp_fids *fids, const void *addr,
                     size_t size, uint64_t access, struct fid_mr **mr);
void fp_fabric_mr_close(struct fid_mr *mr);

#endif
