/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process may have so many queue pairs on a device: places. places.c says who gets one, and who
 * gives one up. _locked: with prov->lock held.
 */
#ifndef VP_PLACES_H
#define VP_PLACES_H

#include <stdbool.h>

#include "verbs/conn_types.h"
#include "verbs/ep_types.h"

/* `attr` of the device is known. */
void vp_places_init(const struct vp_prov *prov, struct vp_device *dev);

/* For the queue pair of a handshake that begins. False: it waits until there is one, and is then in
 * prov->queue or prov->accepts again. */
bool vp_place_take_locked(struct vp_conn *conn);
/* The device would not make a queue pair: the connection waits for one of the others to be closed.
 * False: there is no other. */
bool vp_place_short(struct vp_conn *conn);
/* It is up. */
void vp_place_open(struct vp_conn *conn);
/* Its place will be free soon. */
void vp_place_ends_locked(struct vp_conn *conn);
void vp_place_ends(struct vp_conn *conn);
/* It has no queue pair any more. */
void vp_place_free_locked(struct vp_conn *conn);

/* Has this side posted anything since the last look? */
bool vp_place_look_locked(struct vp_conn *conn);
/* It was asked for its place (VP_EV_PLACE): may it be closed now? */
enum vp_place_plea { VP_PLEA_NONE, VP_PLEA_ASK, VP_PLEA_MUST };
enum vp_place_plea vp_place_plea(struct vp_conn *conn);
/* The peer, or this side, goes on using it. */
void vp_place_kept(struct vp_conn *conn);

/* Nobody waits for a place, there are more, and it is not to give up its own. */
bool vp_place_is_spare(struct vp_conn *conn);

/* By progress(). */
void vp_places_run(struct vp_prov *prov, uint64_t now);
/* A peer's request that has waited for a place for longer than it may, not in a list any more;
 * NULL: none yet, and progress() runs again when there is one. The first of them speaks for all:
 * where it may wait for longer than those behind it, they do too. */
struct vp_conn *vp_place_overdue_locked(struct vp_prov *prov, uint64_t now,
                                        uint64_t (*patience_ms)(const struct vp_conn *conn));

#endif
