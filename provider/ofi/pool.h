/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of one size for one endpoint, registered where the fabric wants that. */
#ifndef FP_POOL_H
#define FP_POOL_H

#include "types.h"

/* `item`: bytes that a buffer holds. */
void fp_pool_init(struct fp_pool *pool, struct fp_prov *prov, const struct fp_fids *fids,
                  size_t item);
/* Every buffer of it is unused: the endpoint is closed, but not its domain. */
void fp_pool_free(struct fp_pool *pool);

/* NULL: no memory, logged. */
struct fp_buf *fp_pool_get(struct fp_pool *pool, enum fp_buf_kind kind, void *owner);
void fp_pool_put(struct fp_buf *buf);

/* Posts a receive. False: the fabric takes none now, and the buffer is put before `*unposted`. */
bool fp_receive(struct fp_buf *buf, struct fid_ep *ep, struct fp_buf **unposted);

#endif
