/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out whether a peer whose connection broke is alive: see probe.c. */
#ifndef VP_PROBE_H
#define VP_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/conn_types.h"
#include "verbs/prov_types.h"

struct vp_probe {
    struct vp_cm_id id;
    struct vp_conn *conn; /* NULL: the connection does not need the verdict any more */
    struct vp_list link;
    uint64_t deadline; /* ms: end of this attempt; 0: not started */
    unsigned int attempts;
    bool done;
};

/* Starts a probe, which ends with VP_EV_VERDICT. */
void vp_probe_start(struct vp_conn *conn);
struct vp_cm_event;
void vp_probe_event(struct vp_prov *prov, struct vp_probe *probe, const struct vp_cm_event *event);
/* Tells that the connection does not need the verdict any more. The caller holds prov->lock. */
void vp_probe_forget_locked(struct vp_prov *prov, struct vp_conn *conn);
/* Starts, gives up and destroys due probes; UINT64_MAX: destroys all. Called by progress(). */
void vp_probe_run(struct vp_prov *prov, uint64_t now);

#endif
