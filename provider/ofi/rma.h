/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long transfers by RMA reads of the fabric (rendezvous). The receiver of the data reads them from
 * its peer into its own buffers, and copies them from there. So the fabric only has to guarantee
 * that the data of a completed read are in memory: the program sees data in the order of copying,
 * and the target checks and counts operations as with data in messages. The origin offers the data
 * of a write; the target offers the data of a read.
 */
#ifndef FP_RMA_H
#define FP_RMA_H

#include "types.h"

/* Fills in an offer of this range of a region of this process. False: the range is too short, or
 * cannot be registered. */
bool fp_rma_read_make_offer(const struct fp_conn *conn, uint32_t key, uint64_t addr,
                            uint32_t length, struct fp_offer *offer);

/* Adds a transfer of data that the peer offers: to offer->x.rmt, with the key offer->x.rkey. False:
 * no memory, or too many transfers. */
bool fp_rma_read_add(struct fp_conn *conn, const struct fp_offer *offer, bool is_read);

/* Posts as many RMA reads as possible. */
void fp_rma_read_post(struct fp_conn *conn);

/* Handle an RMA read that has completed or failed. Copies arrived data in order. */
void fp_rma_read_completed(struct fp_buf *buf);
void fp_rma_read_failed(struct fp_buf *buf, int error);

/* Takes the first transfer, if it has finished. */
bool fp_rma_read_take_finished(struct fp_conn *conn, struct fp_rma_read *ended);

/* Drops all transfers of a connection that goes down; data that still arrive are ignored. */
void fp_rma_read_drop_all(struct fp_conn *conn);

/*
 * Long puts by RMA writes of the fabric. The fabric writes all but the last cache line of the
 * target. The last line and the notice follow in a message: at once if the fabric orders messages
 * after writes (FI_ORDER_SAW), otherwise after the delivery of the writes (FI_DELIVERY_COMPLETE).
 * The target checks and counts the operation when the message arrives.
 *
 * First the origin requests the fabric's key (rkey) for a range of the region. The target refuses
 * the request if the range is not permitted, or not mapped; then the operation is sent in messages,
 * which the target refuses as usual. If the fabric pins registered memory (FI_MR_ALLOCATED), the
 * origin caches the key for later puts to the region. Otherwise each put requests a key, because a
 * software fabric could store to memory that the program has unmapped since, and the process would
 * get a signal.
 *
 * The target revokes the key when it deregisters the region. An operation that the fabric then
 * refuses breaks the connection, and the core repeats it over the next connection, with a new
 * request.
 */

/* True if the bytes of a put may arrive in any order. */
bool fp_any_order(struct prov_conn *base);

/* True if the write can use RMA. Gets the fabric's descriptor of the source. */
bool fp_rma_write_possible(struct fp_conn *conn, const struct prov_xfer *x, void **desc);

/* Continues an operation of kind FP_RMA_WRITE, the next one to be sent. 1: all writes are posted,
 * and the message may follow; -EAGAIN: later; -ENOKEY: the peer refuses the key; -EFAULT: the
 * source is no longer mapped. */
int fp_rma_write_continue(struct fp_conn *conn, struct fp_op *op);

/* Repeats the request for a key after a long time without a reply. */
void fp_rma_write_repeat_key_request(struct fp_conn *conn);

/* Handle an RMA write that has completed or failed. */
void fp_rma_write_completed(struct fp_buf *buf);
void fp_rma_write_failed(struct fp_buf *buf, int error);

/* Handle the peer's request for a key, and the peer's reply to a request. */
void fp_rma_write_key_requested(struct fp_conn *conn, const struct fp_xfer *m, size_t size);
void fp_rma_write_key_received(struct fp_conn *conn, const struct fp_rkey_reply *m, size_t size);

#endif
