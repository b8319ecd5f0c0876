/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: request, accept, reject, close. conn.c describes the protocol. struct prov_ops
 * (provider.h) defines what connect(), accept(), reject() and conn_close() do. */
#ifndef SP_CONN_H
#define SP_CONN_H

#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "provider.h"
#include "types.h"

int sp_connect(struct prov_ep *ep, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *private_data, size_t private_data_size, void *ctx,
               struct prov_conn **conn);
int sp_accept(struct prov_conn *conn, const void *private_data, size_t private_data_size,
              void *ctx);
void sp_reject(struct prov_conn *conn);
void sp_conn_close(struct prov_conn *conn);
/* Frees the connection with its operation queue and its mapped windows. */
void sp_conn_free(struct sp_conn *conn);
/* Returns the connection of this endpoint with this id; NULL: it no longer exists. */
struct sp_conn *sp_conn_by_id(struct sp_ep *ep, uint32_t conn_id);
/* Handles a slot with a control message. Returns the number of callbacks; -1: try again later. */
int sp_conn_handle_control(struct sp_ep *ep, const struct sp_slot *slot, uint32_t producer_id);
/* Sends conn->ctl. If the peer's ring is full, conn->ctl stays set and the next poll sends it.
 * Otherwise the function frees a closed connection, during a poll at the end of the poll. */
void sp_conn_send_control(struct sp_conn *conn);
/* Called after a peer came up, died or closed an endpoint: sends the request of a waiting
 * connection, or takes the connection down. Returns the number of callbacks. */
int sp_conn_check_peer(struct sp_conn *conn);
/* Calls up() or down() if due; returns the number of callbacks. */
int sp_conn_report(struct sp_conn *conn);
/* Called after an operation of the peer failed here: sends ERROR to the peer and calls down().
 * Returns the number of callbacks. */
int sp_conn_report_failure(struct sp_conn *conn);

#endif
