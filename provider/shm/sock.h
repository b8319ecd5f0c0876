/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake between two processes, and the doorbell: sock.c describes the protocol. */
#ifndef SP_SOCK_H
#define SP_SOCK_H

#include "layout.h"
#include "types.h"

int sp_listen(struct sp_prov *prov);
/* Connects and sends HELLO; peer->state has the progress. Call with prov->lock held. */
void sp_peer_connect(struct sp_peer *peer);
/* Handles a socket that is readable or hung up. Call with prov->lock held. */
void sp_receive(struct sp_peer *peer);
void sp_accept_sockets(struct sp_prov *prov);
/* Retries due attempts to connect and to listen. Returns milliseconds until the next one, or -1. */
int sp_retry(struct sp_prov *prov);
/* Sends a datagram without content, which is dropped if the socket is full. */
void sp_send_notification(struct sp_peer *peer, enum sp_dgram_type type);
/* Sends notifications again for which the kernel had no memory. Call with prov->lock held; the
 * timer calls this. */
void sp_send_pending_notifications(struct sp_prov *prov);
/* Called after the program has closed the provider's descriptors: marks all peers dead, as none can
 * be woken and no death would be noticed. Call with prov->lock held. */
void sp_disconnect_all(struct sp_prov *prov);

/* Rings the doorbell: wakes the owner of the peer's endpoint if it is armed. */
void sp_send_doorbell(struct sp_peer *peer, struct sp_ring *ring);

#endif
