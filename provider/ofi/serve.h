/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of peers: operations, which are executed here, and answers to this side's operations. */
#ifndef FP_SERVE_H
#define FP_SERVE_H

#include "types.h"

/* Processes a message of `size` bytes in a receive, which is posted again. Returns the number of
 * callbacks. */
int fp_serve(struct fp_ep *ep, struct fp_buf *buf, size_t size);

/* The fabric has completed a read of a long transfer. Returns the number of callbacks. */
int fp_serve_pulled(struct fp_buf *buf);

/* Sends more data for the peer's reads. */
void fp_serve_reads(struct fp_conn *conn);

#endif
