/* SPDX-License-Identifier: Apache-2.0 */
/* Connections made by datagrams: one of the ways of way.h. udcm.c says how. */
#ifndef VP_UDCM_H
#define VP_UDCM_H

#include "cm_ops.h"

/* Called by the provider, before its ports are opened and after they are closed. 0 or -ENOMEM. */
int vp_udcm_open(struct vp_prov *prov);
/* The process ends: tells the processes that it communicated with, and waits a moment for the last
 * messages to leave the port. */
void vp_udcm_announce_exit(struct vp_prov *prov);
/* As vp_udcm_announce_exit(), and frees all calls. */
void vp_udcm_close(struct vp_prov *prov);

/* An InfiniBand port of this process has another LID. With prov->lock held. */
void vp_udcm_lid_changed(struct vp_prov *prov, struct vp_port *port, uint16_t lid);

/* Takes the next event; false: there is none. With prov->lock held. */
bool vp_udcm_next(struct vp_prov *prov, struct vp_cm_event *event);
/* Repeats messages that were not answered. Returns when it has to run again, ms; 0: nothing waits.
 * Called by progress(). */
uint64_t vp_udcm_timers(struct vp_prov *prov, uint64_t now);

#endif
