/* SPDX-License-Identifier: Apache-2.0 */
/* Passive handshakes, which a peer starts. The steps run in progress(), as those of handshake.h. */
#ifndef VP_PASSIVE_H
#define VP_PASSIVE_H

#include "verbs/conn_types.h"
#include "cm_ops.h"

/* Reports a peer's request to the core, or rejects it. */
void vp_passive_handle_request(struct vp_prov *prov, const struct vp_cm_event *event);
/* Sends the reply after the core has accepted. */
void vp_passive_send_reply(struct vp_conn *conn);
/* Rejects for now: the peer learns that this process is alive, and sends its request again. */
void vp_passive_reject_busy(struct vp_conn *conn);

void vp_passive_count_wrong_key(struct vp_prov *prov);
/*
 * Limits the rate of replies to probes and to requests with a wrong key, since any process may send
 * them. Requests above the rate stay in the event channel for a while. The kernel queues as many as
 * the listener's backlog and drops the others, whose origins repeat them after about four seconds.
 * So an attack costs this process little, and delays its own handshakes by less than a second
 * unless the backlog is full.
 */
void vp_passive_limit_rate(struct vp_prov *prov);
/* Resumes reading the event channel after a pause of the rate limit. */
void vp_passive_resume_reading(struct vp_prov *prov, uint64_t now);

#endif
