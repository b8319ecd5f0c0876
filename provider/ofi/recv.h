/* SPDX-License-Identifier: Apache-2.0 */
/* Receives messages of peers: operations, which are executed here, and replies to operations of
 * this side. */
#ifndef FP_RECV_H
#define FP_RECV_H

#include "types.h"

/* Handles a message of `size` bytes in a receive, which is posted again later. Returns the number
 * of callbacks. */
int fp_recv_message(struct fp_ep *ep, struct fp_buf *buf, size_t size);

/* Handles a completed RMA read of a long transfer. Returns the number of callbacks. */
int fp_recv_rma_read_data(struct fp_buf *buf);

/* Sends more data for the reads of the peer. */
void fp_recv_continue_reads(struct fp_conn *conn);

#endif
