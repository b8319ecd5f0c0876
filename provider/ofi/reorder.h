/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores the order of messages. A fabric with FI_ORDER_SAS assigns receives to messages in the
 * order of sending, but may report completions in another order (comp_order FI_ORDER_NONE). So the
 * messages of a connection are numbered, and an early message stays in its receive buffer until it
 * can be executed. There are at most as many early messages as receives, because a message needs a
 * posted receive.
 */
#ifndef FP_REORDER_H
#define FP_REORDER_H

#include "types.h"

/* Stores an early message of `size` bytes. False: a duplicate, or so far ahead that messages must
 * be lost. Called with the owner's lock, as all functions here. */
bool fp_reorder_insert(struct fp_conn *conn, struct fp_buf *buf, size_t size);

/* Takes the next message in order. NULL: it has not arrived. */
struct fp_buf *fp_reorder_next(struct fp_conn *conn);

/* Drops all early messages; their receives are posted again. */
void fp_reorder_clear(struct fp_conn *conn);

/* Called at intervals of at least a second. True if the next message has been missing for so long,
 * while later ones have arrived, that it must be lost. */
bool fp_reorder_is_stalled(struct fp_conn *conn);

#endif
