/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long puts, by the fabric's writes (RMA). All but the last line of the target is placed by the
 * fabric; the last line and the notice follow in a message, so they come behind it: where the
 * fabric keeps messages behind writes (FI_ORDER_SAW) at once, elsewhere when the writes have been
 * delivered (FI_DELIVERY_COMPLETE). The target checks and counts the operation when that message
 * comes.
 *
 * Before, the origin asks for the fabric's key, with the region and the range, and the target
 * refuses what it does not allow, and memory that is not there. Then the operation goes in
 * messages, which the target refuses as others. Where the fabric pins what is registered
 * (FI_MR_ALLOCATED), the key serves for later puts to the region; elsewhere a fabric in software
 * would store to memory that the program has unmapped since, and the process would get a signal, so
 * each put asks.
 *
 * The target revokes the key when it deregisters the region. What the fabric refuses then breaks
 * the connection, and is repeated over the next one, where it asks again.
 */
#ifndef FP_PLACE_H
#define FP_PLACE_H

#include "types.h"

/* Puts of the connection may be placed in any order. */
bool fp_any_order(struct prov_conn *base);

/* May the fabric place this write, as far as is known? Finds its name of the source. */
bool fp_place_may(struct fp_conn *conn, const struct prov_xfer *x, void **desc);

/* Goes on with an operation of kind FP_PLACED, the next one to be sent. 1: all is on its way, and
 * the message may follow; -EAGAIN: later; -ENOKEY: the peer gives no key; -EFAULT: its memory is
 * not there any more. */
int fp_place(struct fp_conn *conn, struct fp_op *op);

/* No key has come for long: the question is repeated. */
void fp_place_ask_again(struct fp_conn *conn);

/* The fabric has delivered a part, or failed to. */
void fp_place_done(struct fp_buf *buf);
void fp_place_failed(struct fp_buf *buf, int error);

/* The peer asks for a key, and the answer. */
void fp_place_asked(struct fp_conn *conn, const struct fp_xfer *m, size_t size);
void fp_place_answered(struct fp_conn *conn, const struct fp_key *m, size_t size);

#endif
