/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: how they come up and end. */
#ifndef FP_CONN_H
#define FP_CONN_H

#include "types.h"

int fp_connect(struct prov_ep *base, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
               struct prov_conn **conn);
int fp_accept(struct prov_conn *base, const void *hello, size_t hello_size, void *ctx);
void fp_reject(struct prov_conn *base);
void fp_conn_close(struct prov_conn *base);

/* The connection of this name; NULL: there is none (any more). */
struct fp_conn *fp_conn_find(struct fp_ep *ep, uint32_t name);

/* A note for the endpoint. Returns the number of callbacks, as all of these do. */
int fp_conn_take_note(struct fp_ep *ep, struct fp_peer *peer, const struct fp_note *note);
/* No answer has come for long: the question is repeated. */
void fp_conn_ask_again(struct fp_conn *conn);
/* FP_START has come. */
int fp_conn_started(struct fp_conn *conn);
/* The peer may have ended. */
int fp_conn_look(struct fp_conn *conn);
/* Goes down if it has to, by now. */
int fp_conn_settle(struct fp_conn *conn);
/* So many of the operations have been executed there. */
void fp_conn_acked(struct fp_conn *conn, uint32_t executed);
/* The peer has refused operation `n`: the connection goes down when what was before it has ended.
 * False: there is no such operation. */
bool fp_conn_failed(struct fp_conn *conn, uint32_t n, uint8_t status);
/* Reports operations that have ended, in order. */
int fp_conn_report(struct fp_conn *conn);

/* Ends it without a callback: everything was executed, or nothing more will be. */
void fp_conn_end(struct fp_conn *conn);
/* One that has ended, and of which the fabric holds nothing. */
void fp_conn_free(struct fp_conn *conn);
/* Frees all such. */
void fp_conns_reap(struct fp_ep *ep);

static inline struct fp_op *fp_op_at(struct fp_conn *conn, uint32_t n)
{
    return &conn->ops[n & (FP_OPS - 1)];
}

#endif
