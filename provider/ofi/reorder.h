/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of messages. A fabric with FI_ORDER_SAS assigns receives to messages in the order of
 * sending, but may report them in another order (comp_order FI_ORDER_NONE). So the messages of a
 * connection are numbered. An early message stays in its receive buffer, which is posted again
 * after the message was executed. There are at most as many early messages as receives, as a
 * message needs a posted receive.
 */
#ifndef FP_REORDER_H
#define FP_REORDER_H

#include "types.h"

/* Keeps a message of `size` bytes that is early. False: it was received twice, or is so far ahead
 * that others must be lost. With the owner's lock, as all functions here. */
bool fp_reorder_insert(struct fp_conn *conn, struct fp_buf *buf, size_t size);

/* Takes the kept message that is next; NULL: it has not arrived. */
struct fp_buf *fp_reorder_next(struct fp_conn *conn);

/* Drops the kept messages: their receives are posted again. */
void fp_reorder_clear(struct fp_conn *conn);

/* Called from time to time, at intervals of at least a second. Has the next message been missing
 * for so long, while later ones are kept, that it must be lost? */
bool fp_reorder_is_stalled(struct fp_conn *conn);

#endif
