/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long puts, by the fabric's writes (RMA). The fabric writes all but the last line of the target.
 * The last line and the notice follow in a message: at once if the fabric orders messages after
 * writes (FI_ORDER_SAW), otherwise when the writes are delivered (FI_DELIVERY_COMPLETE). The target
 * checks and counts the operation when the message arrives.
 *
 * First the origin requests the fabric's key for a range of the region; the target refuses the
 * request for a range without permission, or for unmapped memory. Then the operation is sent in
 * messages, which the target refuses as others. If the fabric pins registered memory
 * (FI_MR_ALLOCATED), the key is kept for later puts to the region. Otherwise a fabric in software
 * could store to memory that the program has unmapped since, and the process would get a signal, so
 * each put requests the key.
 *
 * The target revokes the key when it deregisters the region. An operation that the fabric then
 * refuses breaks the connection, and is repeated over the next one, with a new request.
 */
#ifndef FP_RMA_WRITE_H
#define FP_RMA_WRITE_H

#include "types.h"

/* May puts of the connection be placed in any order? */
bool fp_any_order(struct prov_conn *base);

/* May the fabric place this write? Gets the fabric's descriptor of the source. */
bool fp_rma_write_possible(struct fp_conn *conn, const struct prov_xfer *x, void **desc);

/* Continues an operation of kind FP_RMA_WRITE, the next one to be sent. 1: all writes are posted,
 * and the message may follow; -EAGAIN: later; -ENOKEY: the peer refuses the key; -EFAULT: the
 * source is no longer mapped. */
int fp_rma_write_continue(struct fp_conn *conn, struct fp_op *op);

/* Repeats the request for a key after a long time without an answer. */
void fp_rma_write_repeat_key_request(struct fp_conn *conn);

/* The fabric has delivered a part of a write, or failed to. */
void fp_rma_write_completed(struct fp_buf *buf);
void fp_rma_write_failed(struct fp_buf *buf, int error);

/* The peer's request for a key, and the peer's answer. */
void fp_rma_write_key_requested(struct fp_conn *conn, const struct fp_xfer *m, size_t size);
void fp_rma_write_key_received(struct fp_conn *conn, const struct fp_rkey_reply *m, size_t size);

#endif
