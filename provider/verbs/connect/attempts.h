/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Congestion control for connects: the duration of an attempt, the pause before the next one, the
 * deadline of the last one, and the number in flight. Only computes; the callers act.
 */
#ifndef VP_ATTEMPTS_H
#define VP_ATTEMPTS_H

#include <stdint.h>

#include "verbs/conn_types.h"

/* Initial and minimum number of concurrent first attempts. All processes of a host share its
 * connection manager, so the number grows only with each fast success. */
enum { VP_FIRST_WINDOW = 2, VP_MIN_WINDOW = 2 };

/* What an attempt has shown about the peer. */
enum vp_attempt_result {
    VP_ATTEMPT_PEER_ALIVE,  /* the peer is alive */
    VP_ATTEMPT_NO_ANSWER,   /* the peer did not answer */
    VP_ATTEMPT_UNRESOLVED,  /* address or route were not resolved, for example because very many
                               processes resolve theirs */
    VP_ATTEMPT_NO_RESOURCE, /* no request was sent: this process lacks a resource that may become
                               free */
};

/* Returns the duration of an attempt (1, 2...): doubles with each attempt, up to half the peer
 * timeout. After a lost packet another attempt helps, since the kernel repeats the packet only
 * every 4.3 s. For an overloaded peer, short attempts only add load. */
unsigned int vp_attempt_ms(const struct vp_prov *prov, unsigned int attempt);

/* Returns the number with which the attempts of a connection start: higher where handshakes take
 * long, since short attempts would fail. */
uint8_t vp_first_attempt_number_locked(const struct vp_prov *prov);

/* Adapts the number of concurrent first attempts to their success, and the recent duration of a
 * handshake: increases at once, decreases slowly. */
void vp_adapt_window_locked(struct vp_prov *prov, uint64_t started);

/* Returns the time after which no further attempt starts. */
uint64_t vp_last_attempt_deadline(const struct vp_conn *conn, enum vp_attempt_result result);

/* Returns the end of the current attempt. */
uint64_t vp_attempt_deadline(const struct vp_conn *conn, uint64_t now);

/* Returns the pause before the next attempt: doubles each time, so that rejected peers leave time
 * for others. */
uint64_t vp_attempt_pause_ms(const struct vp_conn *conn, enum vp_attempt_result result);

/* Returns how long a peer's request may wait in this process. If more peers send requests than this
 * process can handle in time, each reply would arrive after its origin has given up the attempt. A
 * cheap reject tells the origin that this process is alive. */
uint64_t vp_request_deadline_ms(const struct vp_conn *conn);

#endif
