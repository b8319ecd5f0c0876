/* SPDX-License-Identifier: Apache-2.0 */
/* The slow path of a connection: the queue of operations that cannot be executed at once, and the
 * responses to the peer's reads. See op_queue.c. */
#ifndef SP_OP_QUEUE_H
#define SP_OP_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"
#include "provider.h"
#include "ring.h"
#include "sock.h"
#include "types.h"

/*
 * Functions for an existing queue (conn->op_queue is not NULL)
 */

/* True if an operation is queued whose completion was not reported yet. */
bool sp_op_queue_has_ops(const struct sp_conn *conn);
/* True if a sent read waits for its data. */
bool sp_op_queue_has_reads(const struct sp_conn *conn);
/* True if a write or read is outstanding that the peer's CPU executes. */
bool sp_op_queue_waits_for_peer(const struct sp_conn *conn);
/* Returns 0 if an operation may be posted; -EAGAIN: earlier ones wait, or the queue is full. */
int sp_op_queue_check_room(struct sp_conn *conn);
/* Queues an executed operation, whose completion is reported after those of earlier ones. Call only
 * if sp_op_queue_check_room() returns 0. */
void sp_op_queue_push_complete(struct sp_conn *conn, uint64_t cookie);
/* Sends operations and read data, and reports executed operations, as far as possible. Returns the
 * number of callbacks. */
int sp_op_queue_progress(struct sp_conn *conn);

/*
 * Functions that create the queue if necessary
 */

/* Queues the notice of a write, after the data are written and the ring was full. */
void sp_op_queue_push_notice(struct sp_conn *conn, const struct prov_xfer *xfer);
/* Post a write or a read through the rings. 0: done() follows; PROV_SRC_FREE: the same, and the
 * source of the write may be overwritten; -EAGAIN: nothing was done, as the ring or the queue is
 * full or earlier operations wait; -EIO: no memory for the queue. */
int sp_op_queue_write(struct sp_conn *conn, const struct prov_xfer *xfer);
int sp_op_queue_read(struct sp_conn *conn, const struct prov_xfer *xfer);

/*
 * Functions for any connection
 */

/* True if there is nothing to progress: no queue, or one without operations and responses. */
bool sp_op_queue_is_idle(const struct sp_conn *conn);
/* Reports all outstanding operations of a connection that is down. Returns the number of
 * callbacks. */
int sp_op_queue_flush(struct sp_conn *conn);
/* Handles a slot with a chunk of an operation. The connection is up; if it is down afterwards, the
 * caller must call sp_conn_report_failure(). The same holds for sp_op_queue_progress(). */
int sp_op_queue_handle_slot(struct sp_conn *conn, const struct sp_slot *slot,
                            const uint8_t *payload);
/* Records the status of the operation that an ERROR of the peer names; sp_op_queue_flush() reports
 * it. */
void sp_op_queue_handle_error(struct sp_conn *conn, const struct sp_slot *slot);
/* Frees the queue, if any, with its operations: none of them is reported. */
void sp_op_queue_free(struct sp_conn *conn);

/* No slot could be claimed: rings the doorbell, as the consumer may be blocked although the ring is
 * full. Returns -EAGAIN. */
int sp_handle_full_ring(struct sp_conn *conn);

/* Rings the doorbell for a published slot if the consumer is armed for it. `armed`: result of
 * sp_ring_load_armed() after the publication. */
static inline void sp_send_doorbell_if_armed(struct sp_conn *conn, uint64_t pos, bool solicited,
                                             uint32_t armed)
{
    if (__builtin_expect(armed, 0) &&
        (solicited || armed == PROV_ARM_ALL || sp_ring_is_half_full(conn->ring, pos)))
        sp_send_doorbell(conn->peer, conn->ring);
}

/* Publishes a claimed slot, and rings the doorbell if the consumer is armed for it. */
static inline void sp_publish_slot(struct sp_conn *conn, struct sp_slot *slot, uint64_t pos,
                                   bool solicited)
{
    sp_ring_publish(conn->ring, slot, pos, conn->peer->id_in_peer_rings);
    sp_send_doorbell_if_armed(conn, pos, solicited, sp_ring_load_armed(conn->ring));
}

#endif
