/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes of peers: this side answers. The steps run in progress(), as those of shake.h. */
#ifndef VP_PASSIVE_H
#define VP_PASSIVE_H

#include "verbs/conn_types.h"
#include "cm_ops.h"

/* Reports a peer's request to the core, or refuses it. */
void vp_passive_handle_request(struct vp_prov *prov, const struct vp_cm_event *event);
/* Answers the peer after the core has accepted. */
void vp_passive_send_reply(struct vp_conn *conn);
/* Refuses for now: the peer knows that this process lives, and asks again. */
void vp_passive_reject_busy(struct vp_conn *conn);

void vp_passive_count_wrong_key(struct vp_prov *prov);
/*
 * Answers to probes, and to requests without this process's key, are limited in rate, since anybody
 * may send them. Requests above the rate stay in the event channel for a while: the kernel queues
 * as many as the listener's backlog and drops the others, which their origins repeat after some
 * four seconds. A flood thus costs this process little, and delays its own handshakes by less than
 * a second unless the backlog is full.
 */
void vp_passive_limit_rate(struct vp_prov *prov);
/* Reads the event channel again after such a pause. */
void vp_passive_resume_reading(struct vp_prov *prov, uint64_t now);

#endif
