/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of handshakes: see cm.c. */
#ifndef VP_CM_H
#define VP_CM_H

#include <stdint.h>

#include "verbs/prov_types.h"

/* Called by progress(). */
void vp_cm_run_events(struct vp_prov *prov);
void vp_cm_run_queue(struct vp_prov *prov);
void vp_cm_run_timers(struct vp_prov *prov, uint64_t now);
void vp_cm_reject_overdue(struct vp_prov *prov, uint64_t now);

#endif
