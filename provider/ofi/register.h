/* SPDX-License-Identifier: Apache-2.0 */
/* Registration with the fabric, in the mode that it asks for. */
#ifndef FP_REGISTER_H
#define FP_REGISTER_H

#include "types.h"

/* Registers [addr, addr + size) in the endpoint's domain, for `access` (FI_SEND,
 * FI_REMOTE_WRITE...); where the fabric binds regions to endpoints, for this one. 0, or libfabric's
 * negative code. By any thread. */
int fp_register(struct fp_prov *prov, const struct fp_fids *fids, const void *addr, size_t size,
                uint64_t access, struct fid_mr **mr);
void fp_unregister(struct fid_mr *mr);

#endif
