/* SPDX-License-Identifier: Apache-2.0 */
/* Connection manager operations (cm_ops.h) by datagrams: see udcm.c. */
#ifndef VP_UDCM_H
#define VP_UDCM_H

#include "cm_ops.h"

/* Called by the provider before its ports are opened, and after they are closed. Returns 0 or
 * -ENOMEM. */
int vp_udcm_open(struct vp_prov *prov);
/* Tells the processes with which this process has communicated that it exits, and waits a moment
 * for these messages to leave the port. */
void vp_udcm_announce_exit(struct vp_prov *prov);
/* As vp_udcm_announce_exit(); also frees all connections. */
void vp_udcm_close(struct vp_prov *prov);

/* An InfiniBand port of this process has another LID. The caller holds prov->lock. */
void vp_udcm_lid_changed(struct vp_prov *prov, struct vp_port *port, uint16_t lid);

/* Takes the next event; false: no event. The caller holds prov->lock. */
bool vp_udcm_next(struct vp_prov *prov, struct vp_cm_event *event);
/* Retransmits messages without a reply. Returns the time (ms) of the next call; 0: nothing to
 * retransmit. Called by progress(). */
uint64_t vp_udcm_timers(struct vp_prov *prov, uint64_t now);

#endif
