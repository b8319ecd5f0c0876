/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of connections: the peer hears of it, and those that their owner gave up are destroyed
 * when no step of a handshake runs with them.
 * _locked: with prov->lock held.
 */
#ifndef VP_REAP_H
#define VP_REAP_H

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* The owner does not want it any more: it is destroyed as soon as no step runs. */
void vp_cm_abandon_locked(struct vp_conn *conn);
/* Its queue pair is in error, and it is destroyed later: the peer hears of the end by progress().
 */
void vp_conn_part_locked(struct vp_conn *conn);
/* A step that had marked the connection as busy is over. */
void vp_conn_not_busy(struct vp_conn *conn);
/* Its handshake is not in flight any more: another one may begin. */
void vp_handshake_uncount_locked(struct vp_conn *conn);
/* Tells peers of ends, and destroys what was abandoned: all, or of one endpoint. By progress() or
 * ep_close(). */
void vp_cm_reap(struct vp_prov *prov, struct vp_ep *ep);

#endif
