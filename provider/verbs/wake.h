/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes the background thread and owners run: kicks, watched descriptors, deadlines, and
 * events for the next poll of an endpoint's owner. _locked: with prov->lock held.
 */
#ifndef VP_WAKE_H
#define VP_WAKE_H

#include <stdint.h>

#include "conn_types.h"
#include "ep_types.h"
#include "prov_types.h"

enum { VP_WATCH_KICK = 1, VP_WATCH_CM, VP_WATCH_UD, VP_WATCH_COMP = 0x100, VP_WATCH_ASYNC = 0x200 };

/* progress() gets `what` when the descriptor is readable. 0, or -EIO after logging. */
int vp_watch(struct vp_prov *prov, int fd, unsigned int what);
/* Makes progress() run soon. */
void vp_kick(struct vp_prov *prov);
/* progress() runs again at this time (ut_clock_ms()) at the latest. */
void vp_deadline_locked(struct vp_prov *prov, uint64_t deadline);
/* Wakes the owner of the endpoint in this progress(), or in the next one. */
void vp_wake_locked(struct vp_ep *ep);
/* Wakes the owner of the endpoint at this time; takes prov->lock. */
void vp_ep_wake_later(struct vp_ep *ep, uint64_t when);
/* VP_EV_*: the owner of the connection handles the event in its next poll. */
void vp_post_event_locked(struct vp_conn *conn, unsigned int event);

#endif
