/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of one size for one endpoint, registered if the fabric requires it. */
#ifndef FP_POOL_H
#define FP_POOL_H

#include "types.h"

/* `buf_size`: size of the data in a buffer. */
void fp_pool_init(struct fp_pool *pool, struct fp_prov *prov, const struct fp_fids *fids,
                  size_t buf_size);
/* Frees the pool, whose buffers are unused: the endpoint is closed, but not its domain. */
void fp_pool_free(struct fp_pool *pool);

/* NULL: no memory, logged. */
struct fp_buf *fp_pool_get(struct fp_pool *pool, enum fp_buf_kind kind, void *owner);
void fp_pool_put(struct fp_buf *buf);

/* Posts a receive. False: the fabric does not accept it now; the buffer is put on `*unposted`. */
bool fp_post_receive(struct fp_buf *buf, struct fid_ep *ep, struct fp_buf **unposted);
/* Queues a used receive, which a later poll posts again. This poll returns first, since the program
 * waits for the message. */
static inline void fp_repost_later(struct fp_ep *ep, struct fp_buf *buf)
{
    buf->next = ep->unposted;
    ep->unposted = buf;
    ep->num_used++;
}

/*
 * Restores the order of messages. A fabric with FI_ORDER_SAS assigns receives to messages in the
 * order of sending, but may report completions in another order (comp_order FI_ORDER_NONE). So the
 * messages of a connection are numbered, and an early message stays in its receive buffer until it
 * can be executed. There are at most as many early messages as receives, because a message needs a
 * posted receive.
 */

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
