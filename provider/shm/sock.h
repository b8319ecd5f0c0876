/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake between two processes, and the doorbell: sock.c describes the protocol. */
#ifndef SP_SOCK_H
#define SP_SOCK_H

#include "layout.h"
#include "types.h"

/* Listens for connections of other processes. Returns 0 or, after an error line, a negative
 * errno. */
int sp_listen(struct sp_prov *prov);
/* Connects and sends HELLO; peer->state has the progress. Call with prov->lock held. */
void sp_peer_connect(struct sp_peer *peer);
/* Handles a socket that is readable or hung up. Call with prov->lock held. */
void sp_receive(struct sp_peer *peer);
/* Accepts the connections of processes that wait at the listening socket. Call with prov->lock
 * held. */
void sp_accept_sockets(struct sp_prov *prov);
/* Makes the attempts to connect and to listen that are due. Returns milliseconds until the next
 * one; -1: none is planned. Call with prov->lock held. */
int sp_retry(struct sp_prov *prov);
/* Sends a notification: a datagram without content, which is dropped if the socket is full. (A
 * notice is something else: see SP_KIND_NOTICE.) */
void sp_send_notification(struct sp_peer *peer, enum sp_dgram_type type);
/* Sends notifications again for which the kernel had no memory. Call with prov->lock held; the
 * timer calls this. */
void sp_send_pending_notifications(struct sp_prov *prov);
/* Called after the program has closed the provider's descriptors: marks all peers dead, as none can
 * be woken and no death would be noticed. Call with prov->lock held. */
void sp_disconnect_all(struct sp_prov *prov);

/* Rings the doorbell of this ring of the peer: wakes the owner of the endpoint if it is armed. */
void sp_send_doorbell(struct sp_peer *peer, struct sp_ring *ring);

#endif
