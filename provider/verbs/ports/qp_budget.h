/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places: the queue pairs that a process may have on a device. qp_budget.c says who gets one, and
 * who gives one up. _locked: with prov->lock held.
 */
#ifndef VP_QP_BUDGET_H
#define VP_QP_BUDGET_H

#include <stdbool.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* `attr` of the device has to be set. */
void vp_budget_init(const struct vp_prov *prov, struct vp_device *dev);

/* Takes a place for a handshake that begins. False: the connection waits for a place, and is added
 * to prov->queue or prov->accepts again when it has one. */
bool vp_budget_acquire_locked(struct vp_conn *conn);
/* The device could not make a queue pair: the connection waits for another one to be closed. False:
 * there is no other. */
bool vp_budget_shrink(struct vp_conn *conn);
/* The connection is up. */
void vp_budget_mark_up(struct vp_conn *conn);
/* The place will be free soon. */
void vp_budget_mark_ending_locked(struct vp_conn *conn);
void vp_budget_mark_ending(struct vp_conn *conn);
/* The connection has no queue pair any more. */
void vp_budget_release_locked(struct vp_conn *conn);

/* Has this side posted anything since the last check? */
bool vp_budget_check_use_locked(struct vp_conn *conn);
/* The connection was asked for its place (VP_EV_EVICT): may it be closed now? */
enum vp_budget_check_evict { VP_EVICT_NO, VP_EVICT_ASK, VP_EVICT_FORCE };
enum vp_budget_check_evict vp_budget_check_evict(struct vp_conn *conn);
/* The peer or this side still uses the connection. */
void vp_budget_mark_in_use(struct vp_conn *conn);

/* Does another connection wait for a place on the device? */
bool vp_budget_has_waiters_locked(const struct vp_conn *conn);
/* Nobody waits for a place, there are free ones, and this connection need not give up its own. */
bool vp_budget_has_spare(struct vp_conn *conn);

/* Called by progress(). */
void vp_budget_run(struct vp_prov *prov, uint64_t now);
/* A peer's request that has waited too long for a place, removed from the list; NULL: none yet, and
 * progress() runs again when there is one. Only the first request of the list is checked: if it may
 * wait longer, so may those behind it. */
struct vp_conn *vp_budget_take_overdue_locked(struct vp_prov *prov, uint64_t now,
                                              uint64_t (*patience_ms)(const struct vp_conn *conn));

#endif
