/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that their owner gave up: destroyed when no step of a handshake runs with them.
 * _locked: with prov->lock held.
 */
#ifndef VP_REAP_H
#define VP_REAP_H

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* The owner does not want it any more: it is destroyed as soon as no step runs. */
void vp_cm_abandon_locked(struct vp_conn *conn);
/* Its handshake is not in flight any more: another one may begin. */
void vp_handshake_uncount_locked(struct vp_conn *conn);
/* Destroys what was abandoned: all, or of one endpoint. By progress() or ep_close(). */
void vp_cm_reap(struct vp_prov *prov, struct vp_ep *ep);

#endif
