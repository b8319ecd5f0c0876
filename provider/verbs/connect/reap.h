/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of connections: peers are told, and connections that their owner has closed are destroyed
 * while no step of a handshake uses them.
 * _locked: with prov->lock held.
 */
#ifndef VP_REAP_H
#define VP_REAP_H

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* The owner has closed the connection: destroys it as soon as no step runs. */
void vp_cm_abandon_locked(struct vp_conn *conn);
/* progress() disconnects from the peer. The queue pair, in the error state, is destroyed later. */
void vp_conn_schedule_disconnect_locked(struct vp_conn *conn);
/* A step that had marked the connection busy has ended. */
void vp_conn_not_busy(struct vp_conn *conn);
/* The handshake is no longer in flight: another one may begin. */
void vp_handshake_not_in_flight_locked(struct vp_conn *conn);
/* Disconnects from peers, and destroys abandoned connections: all, or those of one endpoint. Called
 * by progress() or ep_close(). */
void vp_cm_reap(struct vp_prov *prov, struct vp_ep *ep);

#endif
