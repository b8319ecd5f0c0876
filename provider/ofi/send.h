/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a connection, on their way to the fabric. */
#ifndef FP_SEND_H
#define FP_SEND_H

#include "types.h"

/* Sends a message, or queues it: a head (of head_size bytes, beginning with struct fp_head, whose
 * `to` and `ack` are filled in), and data, which are copied. 0; -ENOMEM: not sent. */
int fp_send(struct fp_conn *conn, void *head, size_t head_size, const void *data, size_t size);

/* Offers the fabric what is queued. */
void fp_send_queued(struct fp_conn *conn);
void fp_send_drop_queued(struct fp_conn *conn);

/* The fabric is done with a message. */
void fp_sent(struct fp_buf *buf);

/* May another message of an operation be queued? */
static inline bool fp_send_has_room(const struct fp_conn *conn)
{
    return conn->num_queued < FP_QUEUED && conn->num_sending < FP_SENDING;
}

/* The connection is looked at by the next poll of its endpoint. */
void fp_mark_busy(struct fp_conn *conn);
/* The peer is told by this poll what has been executed; */
void fp_mark_due(struct fp_conn *conn);
/* by the next one that finds nothing, if no message to it says so before. */
void fp_mark_owing(struct fp_conn *conn);
void fp_owing_are_due(struct fp_ep *ep);
void fp_send_acks(struct fp_ep *ep);

/* This operation of the peer is not executed, and nothing that the peer has posted behind it. */
void fp_refuse(struct fp_conn *conn, uint32_t seq, enum prov_status status);
static inline bool fp_is_refused(const struct fp_conn *conn, uint32_t seq)
{
    return conn->refusal != PROV_OK && (int32_t)(seq - conn->refused) >= 0;
}

/* Messages were lost, or may have been: the connection goes down when it is known whether its peer
 * lives. */
void fp_break(struct fp_conn *conn, const char *why);

#endif
