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

/* The connection with this name; NULL: none. */
struct fp_conn *fp_conn_find(struct fp_ep *ep, uint32_t name);

/* Processes a note for the endpoint. Like all functions here, returns the number of callbacks. */
int fp_conn_handle_ctrl(struct fp_ep *ep, struct fp_peer *peer, const struct fp_ctrl_msg *msg);
/* Repeats the request after a long time without an answer. */
void fp_conn_repeat_request(struct fp_conn *conn);
/* FP_START has arrived. */
int fp_conn_handle_start(struct fp_conn *conn);
/* Checks a connection whose peer may have ended. */
int fp_conn_check_peer(struct fp_conn *conn);
/* Calls down() if the connection has to end and nothing delays it any more. */
int fp_conn_check_down(struct fp_conn *conn);
/* The peer has executed `executed` operations. */
void fp_conn_handle_ack(struct fp_conn *conn, uint32_t executed);
/* The peer has refused operation `n`: the connection goes down when all earlier operations have
 * ended. False: no such operation. */
bool fp_conn_handle_refusal(struct fp_conn *conn, uint32_t n, uint8_t status);
/* Reports operations that have ended, in order. */
int fp_conn_report_done(struct fp_conn *conn);

/* Ends the connection without a callback: all operations were executed, or no more will be. */
void fp_conn_finish(struct fp_conn *conn);
/* Frees an ended connection that the fabric no longer uses. */
void fp_conn_free(struct fp_conn *conn);
/* Frees all such connections. */
void fp_conns_reap(struct fp_ep *ep);

/* The program has closed the fabric's descriptors: reports down, without a call of the fabric. */
int fp_conn_down_without_fabric(struct fp_conn *conn);
/* As fp_conn_close(), without a call of the fabric. The memory stays. */
void fp_conn_close_without_fabric(struct fp_conn *conn);

static inline struct fp_op *fp_op_at(struct fp_conn *conn, uint32_t n)
{
    return &conn->ops[n & (FP_OPS - 1)];
}

#endif
