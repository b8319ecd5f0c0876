/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of peers: operations, which are executed here, and answers to this side's operations. */
#ifndef FP_RECV_H
#define FP_RECV_H

#include "types.h"

/* Processes a message of `size` bytes in a receive, which is posted again. Returns the number of
 * callbacks. */
int fp_recv_message(struct fp_ep *ep, struct fp_buf *buf, size_t size);

/* The fabric has completed a read of a long transfer. Returns the number of callbacks. */
int fp_recv_rma_read_data(struct fp_buf *buf);

/* Sends more data for the peer's reads. */
void fp_recv_continue_reads(struct fp_conn *conn);

#endif
