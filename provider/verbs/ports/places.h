/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places: the queue pairs that a process may have on a device. places.c says who gets one, and who
 * gives one up. _locked: with prov->lock held.
 */
#ifndef VP_PLACES_H
#define VP_PLACES_H

#include <stdbool.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* `attr` of the device has to be set. */
void vp_places_init(const struct vp_prov *prov, struct vp_device *dev);

/* Takes a place for a handshake that begins. False: the connection waits for a place, and is added
 * to prov->queue or prov->accepts again when it has one. */
bool vp_place_take_locked(struct vp_conn *conn);
/* The device could not make a queue pair: the connection waits for another one to be closed. False:
 * there is no other. */
bool vp_place_short(struct vp_conn *conn);
/* The connection is up. */
void vp_place_open(struct vp_conn *conn);
/* The place will be free soon. */
void vp_place_ends_locked(struct vp_conn *conn);
void vp_place_ends(struct vp_conn *conn);
/* The connection has no queue pair any more. */
void vp_place_free_locked(struct vp_conn *conn);

/* Has this side posted anything since the last check? */
bool vp_place_look_locked(struct vp_conn *conn);
/* The connection was asked for its place (VP_EV_PLACE): may it be closed now? */
enum vp_place_plea { VP_PLEA_NONE, VP_PLEA_ASK, VP_PLEA_MUST };
enum vp_place_plea vp_place_plea(struct vp_conn *conn);
/* The peer or this side still uses the connection. */
void vp_place_kept(struct vp_conn *conn);

/* Does another connection wait for a place on the device? */
bool vp_place_is_wanted_locked(const struct vp_conn *conn);
/* Nobody waits for a place, there are free ones, and this connection need not give up its own. */
bool vp_place_is_spare(struct vp_conn *conn);

/* Called by progress(). */
void vp_places_run(struct vp_prov *prov, uint64_t now);
/* A peer's request that has waited too long for a place, removed from the list; NULL: none yet, and
 * progress() runs again when there is one. Only the first request of the list is checked: if it may
 * wait longer, so may those behind it. */
struct vp_conn *vp_place_overdue_locked(struct vp_prov *prov, uint64_t now,
                                        uint64_t (*patience_ms)(const struct vp_conn *conn));

#endif
