/* SPDX-License-Identifier: Apache-2.0 */
/* Posts operations of the core, and sends them in pieces. */
#ifndef FP_POST_H
#define FP_POST_H

#include "types.h"

int fp_write(struct prov_conn *base, const struct prov_xfer *x);
int fp_read(struct prov_conn *base, const struct prov_xfer *x);
int fp_send_message(struct prov_conn *base, const void *data, size_t size, unsigned int flags,
                    uint64_t cookie);
void *fp_direct(struct prov_conn *base, uint64_t rmt, uint32_t length, uint32_t rkey);

/* Sends as much as possible of the posted operations. */
void fp_send_ops(struct fp_conn *conn);

#endif
