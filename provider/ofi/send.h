/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the messages of a connection. */
#ifndef FP_SEND_H
#define FP_SEND_H

#include "types.h"

/* Sends or queues a message: a header (of head_size bytes, beginning with struct fp_head, whose
 * `to` and `ack` are filled in), and data, which are copied. 0; -ENOMEM: not sent. */
int fp_send(struct fp_conn *conn, void *head, size_t head_size, const void *data, size_t size);

/* Sends queued messages, as far as the fabric accepts them. */
void fp_send_queued(struct fp_conn *conn);
void fp_send_drop_queued(struct fp_conn *conn);

/* Handles the completion of a message. */
void fp_send_completed(struct fp_buf *buf);

/* True if another message of an operation may be queued. */
static inline bool fp_send_has_room(const struct fp_conn *conn)
{
    return conn->num_queued < FP_QUEUED && conn->num_sending < FP_SENDING;
}

/* Makes the next poll of the endpoint send what the connection has to send. */
void fp_mark_busy(struct fp_conn *conn);
/* Lets this poll send an acknowledgement to the peer. */
void fp_ack_now(struct fp_conn *conn);
/* The same, also if nothing was executed since the last one. */
void fp_ack_again(struct fp_conn *conn);
/* Lets the next empty poll send an acknowledgement, unless another message has carried it. */
void fp_ack_later(struct fp_conn *conn);
void fp_ack_all_now(struct fp_ep *ep);
void fp_send_acks(struct fp_ep *ep);

/* Refuses this operation of the peer and all later ones. */
void fp_refuse_op(struct fp_conn *conn, uint32_t seq, enum prov_status status);
static inline bool fp_is_op_refused(const struct fp_conn *conn, uint32_t seq)
{
    return conn->lcl_refusal != PROV_OK && (int32_t)(seq - conn->lcl_refused_seq) >= 0;
}

/* Breaks a connection that may have lost messages. The connection goes down when a ping has shown
 * whether the peer is alive. */
void fp_conn_break(struct fp_conn *conn, const char *why);

#endif
