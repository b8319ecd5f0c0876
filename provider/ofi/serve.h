/* SPDX-License-Identifier: Apache-2.0 */
/* What peers send: their operations, executed here, and answers to ours. */
#ifndef FP_SERVE_H
#define FP_SERVE_H

#include "types.h"

/* A message of `size` bytes has come in a receive, which is posted again. Returns the number of
 * callbacks. */
int fp_serve(struct fp_ep *ep, struct fp_buf *buf, size_t size);

/* The fabric has fetched something of a long transfer. Returns the number of callbacks. */
int fp_serve_pulled(struct fp_buf *buf);

/* Sends on what the peer reads. */
void fp_serve_reads(struct fp_conn *conn);

#endif
