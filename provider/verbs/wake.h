/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wake-ups of the background thread and of owners: kicks, watched descriptors, deadlines, and
 * events for the next poll of an endpoint's owner. _locked: the caller holds prov->lock.
 */
#ifndef VP_WAKE_H
#define VP_WAKE_H

#include <stdint.h>

#include "conn_types.h"
#include "ep_types.h"
#include "prov_types.h"

enum { VP_WATCH_KICK = 1, VP_WATCH_CM, VP_WATCH_UD, VP_WATCH_COMP = 0x100, VP_WATCH_ASYNC = 0x200 };

/* Makes progress() handle `what` when the descriptor is readable. Returns 0, or -EIO after
 * logging. */
int vp_watch(struct vp_prov *prov, int fd, unsigned int what);
/* Makes progress() run soon. */
void vp_kick(struct vp_prov *prov);
/* Makes progress() run again by this time (ut_clock_ms()). */
void vp_deadline_locked(struct vp_prov *prov, uint64_t deadline);
/* Makes this or the next progress() wake the owner of the endpoint. */
void vp_wake_locked(struct vp_ep *ep);
/* Makes progress() wake the owner of the endpoint at this time. Takes prov->lock. */
void vp_ep_wake_later(struct vp_ep *ep, uint64_t when);
/* Posts a VP_EV_* event: the owner of the connection handles it in its next poll. */
void vp_post_event_locked(struct vp_conn *conn, unsigned int event);

#endif
