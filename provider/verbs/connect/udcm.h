/* SPDX-License-Identifier: Apache-2.0 */
/* Connections made by datagrams: a way of way.h. udcm.c says how. */
#ifndef VP_UDCM_H
#define VP_UDCM_H

#include "way.h"

/* For the provider, before and after its ports. 0 or -ENOMEM. */
int vp_udcm_open(struct vp_prov *prov);
/* The process ends: those that it has had to do with are told, and what was sent last gets a moment
 * to leave. */
void vp_udcm_leave(struct vp_prov *prov);
/* The same, and everything that was begun is forgotten. */
void vp_udcm_close(struct vp_prov *prov);

/* The next event, if there is one. With prov->lock held. */
bool vp_udcm_next(struct vp_prov *prov, struct vp_event *event);
/* Repeats what was not answered. Returns when it wants to run again, ms; 0: nothing waits. By
 * progress(). */
uint64_t vp_udcm_timers(struct vp_prov *prov, uint64_t now);

#endif
