/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long transfers by RMA reads of the fabric (rendezvous). The receiver of the data reads them from
 * its peer into its own buffers, and copies them from there. So the fabric only has to guarantee
 * that the data of a completed read are in memory: the program sees data in the order of copying,
 * and the target checks and counts operations as with data in messages. The origin offers the data
 * of a write; the target offers the data of a read.
 */
#ifndef FP_RMA_READ_H
#define FP_RMA_READ_H

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

#endif
