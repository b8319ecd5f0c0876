/* SPDX-License-Identifier: Apache-2.0 */
/* Peers' handshakes: this side answers. The steps run in progress(), as those of shake.h. */
#ifndef VP_ANSWER_H
#define VP_ANSWER_H

#include "verbs/conn_types.h"
#include "way.h"

/* A request has come: it is told to the core, or refused. */
void vp_answer_request(struct vp_prov *prov, const struct vp_event *event);
/* The core has accepted. */
void vp_answer(struct vp_conn *conn);
/* The peer is told that this process lives, and asks again. */
void vp_answer_busy(struct vp_conn *conn);

void vp_count_stranger(struct vp_prov *prov);
/*
 * Probes, and requests without our key, may come from anybody and are answered at a limited rate.
 * Those beyond it stay in the event channel for a moment: the kernel queues as many requests as the
 * listener's backlog and drops the others, which whoever asked repeats after some four seconds; a
 * probe among them has no answer until then. So a flood costs this process little, and delays its
 * own handshakes by less than a second where the backlog is not full.
 */
void vp_count_refusal(struct vp_prov *prov);
/* Goes on with what was left in the channel for a while. */
void vp_cm_listen_again(struct vp_prov *prov, uint64_t now);

#endif
