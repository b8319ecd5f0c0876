/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake between two processes, and the bell: sock.c says how. */
#ifndef SP_SOCK_H
#define SP_SOCK_H

#include "layout.h"
#include "peer_types.h"
#include "prov_types.h"

int sp_listen(struct sp_prov *prov);
/* Begins to connect; the state says how far it came. With prov->lock held. */
void sp_greet(struct sp_peer *peer);
/* Something to read, or a hang-up. With prov->lock held. */
void sp_receive(struct sp_peer *peer);
void sp_accept_all(struct sp_prov *prov);
/* Tries again what is due; returns milliseconds until something else is, or -1. */
int sp_retry(struct sp_prov *prov);
void sp_tell(struct sp_peer *peer, enum sp_dgram_type type);

/* Wakes the owner of the peer's endpoint, which said that it sleeps. */
void sp_ring_bell(struct sp_peer *peer, struct sp_ring *ring);

#endif
