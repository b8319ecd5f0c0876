/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of messages. A fabric with FI_ORDER_SAS gives receives to messages in the order in
 * which these were sent, but need not report them in it (comp_order FI_ORDER_NONE). So the messages
 * of a connection have numbers. One that comes before its turn stays in its receive, which is
 * posted again when the message has been executed. There are never more of these than receives:
 * what an endpoint has not posted again, no message can come in.
 */
#ifndef FP_ORDER_H
#define FP_ORDER_H

#include "types.h"

/* A message of `size` bytes has come before its turn. False: it is not kept, as it came twice, or
 * is so far ahead that others must be lost. With the owner's lock, as all of these. */
bool fp_keep(struct fp_conn *conn, struct fp_buf *buf, size_t size);

/* Takes the message whose turn it is; NULL: it has not come. */
struct fp_buf *fp_kept_next(struct fp_conn *conn);

/* Those that have come are not wanted any more: their receives are posted again. */
void fp_kept_drop(struct fp_conn *conn);

/* To be called from time to time, at least a second after the last time. Has the next message been
 * missing for so long, while later ones are there, that it must be lost? */
bool fp_kept_waits_for_long(struct fp_conn *conn);

#endif
