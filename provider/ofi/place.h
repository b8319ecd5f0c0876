/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long puts, by the fabric's writes (RMA). All but the last line of the target is placed by the
 * fabric; the last line and the notice follow in a message, so they come behind it: where the
 * fabric keeps messages behind writes (FI_ORDER_SAW) at once, elsewhere when the writes have been
 * delivered (FI_DELIVERY_COMPLETE). The target checks and counts the operation when that message
 * comes.
 *
 * The fabric's key of a region is asked for when the first long put to it is posted, and kept with
 * the connection; that put, and those until the answer comes, are fetched (pull.h). The target
 * revokes the key when it deregisters the region. A write that the fabric refuses after that, or
 * because the memory is not there any more, breaks the connection; what it carried is repeated over
 * the next one, where it is fetched at first, and so refused by the target itself.
 */
#ifndef FP_PLACE_H
#define FP_PLACE_H

#include "types.h"

/* Puts of the connection may be placed in any order. */
bool fp_any_order(struct prov_conn *base);

/* May the fabric place this write? Asks the peer for the key where it is not known. */
bool fp_place_may(struct fp_conn *conn, const struct prov_xfer *x);

/* Gives the fabric the next parts of an operation of kind FP_PLACED. -EAGAIN: it does not take
 * them now; 1: all is on its way, and the message may follow; 0: when what is under way has been
 * delivered. */
int fp_place(struct fp_conn *conn, struct fp_op *op, uint32_t seq);

/* How many bytes of it the message carries. */
uint32_t fp_place_tail(const struct fp_op *op);

/* The fabric has delivered a part, or failed to. */
void fp_place_done(struct fp_buf *buf);
void fp_place_failed(struct fp_buf *buf, int error);

/* The peer asks for a key, and the answer. */
void fp_place_asked(struct fp_conn *conn, const struct fp_xfer *m, size_t size);
void fp_place_answered(struct fp_conn *conn, const struct fp_key *m, size_t size);

#endif
