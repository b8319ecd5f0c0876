/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budget of queue pairs of this process on a device: which connection gets one, and which one has
 * to suspend. See qp_budget.c. _locked: the caller holds prov->lock.
 */
#ifndef VP_QP_BUDGET_H
#define VP_QP_BUDGET_H

#include <stdbool.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* The device's `attr` must be set. */
void vp_budget_init(const struct vp_prov *prov, struct vp_device *dev);

/* Gets a queue pair for a handshake. False: the connection waits, and is added to prov->queue or
 * prov->accepts again when it gets one. */
bool vp_budget_acquire_locked(struct vp_conn *conn);
/* Handles a device without another queue pair: the connection waits until another one is closed.
 * False: there is no other connection. */
bool vp_budget_shrink(struct vp_conn *conn);
/* Tells that the connection is up. */
void vp_budget_mark_up(struct vp_conn *conn);
/* Tells that the queue pair will be free soon. */
void vp_budget_mark_ending_locked(struct vp_conn *conn);
void vp_budget_mark_ending(struct vp_conn *conn);
/* Tells that the connection has no queue pair any more. */
void vp_budget_release_locked(struct vp_conn *conn);

/* Returns whether this side has posted anything since the last check. */
bool vp_budget_check_use_locked(struct vp_conn *conn);
/* Handles VP_EV_EVICT, the request to suspend a connection: NO: the connection stays up, since it
 * is in use; REQUEST: asks the peer, too; FORCE: the connection must suspend. */
enum vp_budget_check_evict { VP_EVICT_NO, VP_EVICT_REQUEST, VP_EVICT_FORCE };
enum vp_budget_check_evict vp_budget_check_evict(struct vp_conn *conn);
/* Tells that this side or the peer still uses the connection. */
void vp_budget_mark_in_use(struct vp_conn *conn);

/* True if another connection waits for a queue pair of the device. */
bool vp_budget_has_waiters_locked(const struct vp_conn *conn);
/* True if queue pairs are free, no connection waits for one, and this connection need not give up
 * its own. */
bool vp_budget_has_spare(struct vp_conn *conn);

/* Called by progress(). */
void vp_budget_run(struct vp_prov *prov, uint64_t now);
/* Returns a peer's request that has waited too long, and removes it from the list. NULL: none;
 * progress() runs again when there is one. Checks only the first request of the list: the later
 * ones have waited less. */
struct vp_conn *vp_budget_take_overdue_locked(struct vp_prov *prov, uint64_t now,
                                              uint64_t (*timeout_ms)(const struct vp_conn *conn));

#endif
