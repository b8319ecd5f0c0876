/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of connections: disconnects peers, and destroys connections that their owner has closed
 * while no step of a handshake uses them.
 * _locked: the caller holds prov->lock.
 */
#ifndef VP_REAP_H
#define VP_REAP_H

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* Destroys a connection that its owner has closed, as soon as no step of its handshake runs. */
void vp_cm_abandon_locked(struct vp_conn *conn);
/* Makes progress() disconnect from the peer. The queue pair, in the error state, is destroyed
 * later. */
void vp_conn_schedule_disconnect_locked(struct vp_conn *conn);
/* Ends a step that had marked the connection busy. */
void vp_conn_not_busy(struct vp_conn *conn);
/* Marks the handshake as no longer in flight, so that another one may start. */
void vp_handshake_not_in_flight_locked(struct vp_conn *conn);
/* Disconnects peers and destroys abandoned connections of one endpoint, or of all (NULL). Called by
 * progress() or ep_close(). */
void vp_cm_reap(struct vp_prov *prov, struct vp_ep *ep);

#endif
