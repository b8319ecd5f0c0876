/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long transfers, by the fabric's reads (RMA). The receiver of the data fetches them from its peer
 * into its own buffers, and copies them from there. So the only requirement on the fabric is that
 * the data of a completed read are in memory: a program sees the data in the order of copying, and
 * the target checks and counts operations in the same way as with data in messages. The origin
 * offers the data of a write, and the target those of a read.
 */
#ifndef FP_RMA_READ_H
#define FP_RMA_READ_H

#include "types.h"

/* May the peer fetch this range of a region of this process, and is it long enough? Fills in the
 * offer. */
bool fp_rma_read_make_offer(const struct fp_conn *conn, uint32_t key, uint64_t addr,
                            uint32_t length, struct fp_offer *offer);

/* Fetches the data that the peer offers: to offer->x.rmt, with the key offer->x.rkey. False: no
 * memory, or too many transfers. */
bool fp_rma_read_add(struct fp_conn *conn, const struct fp_offer *offer, bool is_read);

/* Posts as many reads to the fabric as possible. */
void fp_rma_read_post(struct fp_conn *conn);

/* The fabric has completed a read, or failed to. Copies the data that have arrived, in order. */
void fp_rma_read_completed(struct fp_buf *buf);
void fp_rma_read_failed(struct fp_buf *buf, int error);

/* Takes the first transfer, if it has ended. */
bool fp_rma_read_take_finished(struct fp_conn *conn, struct fp_rma_read *ended);

/* The connection is down: data that still arrive are ignored. */
void fp_rma_read_drop_all(struct fp_conn *conn);

#endif
