/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: establishing and ending them. */
#ifndef FP_CONN_H
#define FP_CONN_H

#include "types.h"

int fp_connect(struct prov_ep *base, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
               struct prov_conn **conn);
int fp_accept(struct prov_conn *base, const void *hello, size_t hello_size, void *ctx);
void fp_reject(struct prov_conn *base);
void fp_conn_close(struct prov_conn *base);

/* Returns the connection with this id; NULL: none. */
struct fp_conn *fp_conn_find(struct fp_ep *ep, uint32_t id);

/* Handles a control message for the endpoint. Like all functions here, returns the number of
 * callbacks. */
int fp_conn_handle_ctrl(struct fp_ep *ep, struct fp_peer *peer, const struct fp_ctrl_msg *msg);
/* Repeats the message of the handshake to which the peer has not replied for long. */
void fp_conn_repeat_handshake(struct fp_conn *conn);
/* Handles FP_START. */
int fp_conn_handle_start(struct fp_conn *conn);
/* Checks whether the peer of the connection is still alive. */
int fp_conn_check_peer(struct fp_conn *conn);
/* Takes the connection down if it has to end and nothing delays the end any more. */
int fp_conn_check_down(struct fp_conn *conn);
/* Handles an acknowledgement: the peer has executed `executed` operations. */
void fp_conn_handle_ack(struct fp_conn *conn, uint32_t executed);
/* Handles the refusal of operation `n`. The connection goes down when all earlier operations have
 * completed. False: there is no such operation. */
bool fp_conn_handle_refusal(struct fp_conn *conn, uint32_t n, uint8_t status);
/* Reports completed operations to the core, in order. */
int fp_conn_report_done(struct fp_conn *conn);

/* Ends the connection without a callback. */
void fp_conn_finish(struct fp_conn *conn);
/* Frees an ended connection that the fabric no longer uses. */
void fp_conn_free(struct fp_conn *conn);
/* Frees all such connections. */
void fp_conns_reap(struct fp_ep *ep);

/* Takes the connection down without a call of the fabric, because the program has closed the
 * descriptors of the fabric. */
int fp_conn_down_without_fabric(struct fp_conn *conn);
/* As fp_conn_close(), without a call of the fabric. The memory is not freed. */
void fp_conn_close_without_fabric(struct fp_conn *conn);

static inline struct fp_op *fp_op_at(struct fp_conn *conn, uint32_t n)
{
    return &conn->ops[n & (FP_OPS - 1)];
}

#endif
