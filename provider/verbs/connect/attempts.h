/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Congestion control for connects: the length of an attempt, the pause before the next one, the end
 * of the attempts, and how many are in flight. Only computes; cm.c acts.
 */
#ifndef VP_ATTEMPTS_H
#define VP_ATTEMPTS_H

#include <stdint.h>

#include "verbs/conn_types.h"

/* Initial and smallest number of concurrent first attempts. It grows with each fast success, since
 * all processes of a host share its connection manager. */
enum { VP_FIRST_WINDOW = 2, VP_MIN_WINDOW = 2 };

/* What the last attempt has shown of the peer. */
enum vp_attempt_result {
    VP_ATTEMPT_PEER_ALIVE,  /* the peer lives */
    VP_ATTEMPT_NO_ANSWER,   /* no sign of life */
    VP_ATTEMPT_UNRESOLVED,  /* the address or the route of the peer was not resolved, as when very
                            many  processes resolve theirs at once */
    VP_ATTEMPT_NO_RESOURCE, /* the peer was not asked: this process lacks a resource that it may get
                               later */
};

/* Time for the peer to answer an attempt (1, 2...): doubled with each attempt, up to half the peer
 * timeout. If a packet was lost, another attempt helps, and the kernel repeats the packet only
 * every 4.3 s. If the peer is overloaded, short attempts only add load. */
unsigned int vp_attempt_ms(const struct vp_prov *prov, unsigned int attempt);

/* Number that the first attempt of a connection counts as: where handshakes take long, short
 * attempts would fail. */
uint8_t vp_first_attempt_number_locked(const struct vp_prov *prov);

/* Adapts the number of concurrent first attempts to how many succeed well within their time, and
 * the recent duration of a handshake: at once if it has grown, slowly if it has shrunk. */
void vp_adapt_window_locked(struct vp_prov *prov, uint64_t started);

/* The time after which a failed attempt is not followed by another one. */
uint64_t vp_last_attempt_deadline(const struct vp_conn *conn, enum vp_attempt_result sign);

/* When the last attempt ends, since the peer was silent for too long. */
uint64_t vp_attempt_deadline(const struct vp_conn *conn, uint64_t now);

/* The pause before the next attempt: doubled each time, so that peers that were refused leave time
 * for others. */
uint64_t vp_attempt_pause_ms(const struct vp_conn *conn, enum vp_attempt_result sign);

/* How long a peer's request may wait here. If more peers ask than can be answered in time, each
 * answer would come after its origin has given up the attempt. A cheap refusal tells the origin
 * that this process lives. */
uint64_t vp_request_deadline_ms(const struct vp_conn *conn);

#endif
