/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake between two processes, and the bell: sock.c describes the protocol. */
#ifndef SP_SOCK_H
#define SP_SOCK_H

#include "layout.h"
#include "types.h"

int sp_listen(struct sp_prov *prov);
/* Connects and sends the HELLO; peer->state has the progress. With prov->lock held. */
void sp_peer_connect(struct sp_peer *peer);
/* The socket is readable, or was hung up. With prov->lock held. */
void sp_receive(struct sp_peer *peer);
void sp_accept_all(struct sp_prov *prov);
/* Repeats due attempts to connect and to listen; returns milliseconds until the next, or -1. */
int sp_retry(struct sp_prov *prov);
/* Sends a datagram without content, which is lost if the socket is full. */
void sp_send_notification(struct sp_peer *peer, enum sp_dgram_type type);
/* Sends those that the kernel had no memory for. With prov->lock held; called by the timer. */
void sp_send_pending_notifications(struct sp_prov *prov);
/* The program has closed the provider's descriptors: no peer can be woken, nor tells that its
 * process has ended. All are lost. With the lock held. */
void sp_disconnect_all(struct sp_prov *prov);

/* Wakes the owner of the peer's endpoint, if the endpoint is armed. */
void sp_ring_doorbell(struct sp_peer *peer, struct sp_ring *ring);

#endif
