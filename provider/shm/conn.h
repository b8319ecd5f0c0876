/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: requesting, answering, closing. conn.c describes the protocol. */
#ifndef SP_CONN_H
#define SP_CONN_H

#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "provider.h"
#include "types.h"

int sp_connect(struct prov_ep *ep, const void *addr, size_t addr_size, unsigned int peer_tni,
               uint64_t peer_id, const void *hello, size_t hello_size, void *ctx,
               struct prov_conn **conn);
int sp_accept(struct prov_conn *conn, const void *hello, size_t hello_size, void *ctx);
void sp_reject(struct prov_conn *conn);
void sp_conn_close(struct prov_conn *conn);
/* Frees the connection and its queue and windows. */
void sp_conn_free(struct sp_conn *conn);
struct sp_conn *sp_conn_by_name(struct sp_ep *ep, uint32_t name);
/* Processes a slot with connection control; returns the number of callbacks, or -1: not yet. */
int sp_conn_handle_control(struct sp_ep *ep, const struct sp_slot *slot, uint32_t claimer);
/* Sends conn->ctl, which is kept if the peer's ring is full. */
void sp_conn_send_control(struct sp_conn *conn);
/* After a peer came up or died, or closed an endpoint: requests the connection that waited for it,
 * or takes it down. Returns the number of callbacks. */
int sp_conn_check_peer(struct sp_conn *conn);
/* Calls up() or down() if due; returns the number of callbacks. */
int sp_conn_report(struct sp_conn *conn);
/* After an operation of the peer failed here: tells the peer, and calls down(). */
int sp_conn_report_failure(struct sp_conn *conn);

#endif
