/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attempts to connect: how long each may take, how long the pause before the next one is, when
 * there is none any more, and how many are in flight. Numbers alone; cm.c says what is done.
 */
#ifndef VP_ATTEMPTS_H
#define VP_ATTEMPTS_H

#include <stdint.h>

#include "verbs/conn_types.h"

/* First attempts in flight at first: more with each that is quick, as all processes of a host share
 * its connection manager; and at least, where handshakes take long. */
enum { VP_FIRST_WINDOW = 2, VP_LEAST_WINDOW = 2 };

/* What the last attempt has shown of the peer. */
enum vp_sign {
    VP_SIGN_ALIVE,      /* it lives */
    VP_SIGN_NONE,       /* nothing */
    VP_SIGN_UNRESOLVED, /* its address, or a route to it, is not known, as where very many processes
                         * resolve theirs at once */
    VP_SIGN_SHORT,      /* it was not even asked, as this process lacks something that it may have
                         * later */
};

/* How long the peer has to answer an attempt (1, 2...): each time twice as long, up to half of what
 * it may be silent. Where a packet was lost, another attempt helps, and the kernel repeats it every
 * 4.3 s; where so many ask that nobody is answered in time, attempts that end early are work for
 * nothing, of which there would be more and more. */
unsigned int vp_attempt_ms(const struct vp_prov *prov, unsigned int attempt);

/* Which attempt the first one of a connection counts as: where handshakes take long, those that
 * take less time would fail. */
uint8_t vp_attempt_first_locked(const struct vp_prov *prov);

/* Against storms of requests: limits the first attempts in flight to as many as succeed well within
 * their time, and remembers how long they take: at once where it is more, slowly where it is less.
 */
void vp_adapt_window_locked(struct vp_prov *prov, uint64_t started);

/* When an attempt that has failed like this is not followed by another one. */
uint64_t vp_attempts_end(const struct vp_conn *conn, enum vp_sign sign);

/* The last attempt ends when the peer has been silent for long enough. */
uint64_t vp_attempt_end(const struct vp_conn *conn, uint64_t now);

/* The pause before the next attempt: each time twice as long, so that those whom a crowded peer has
 * refused leave it time for the others. */
uint64_t vp_attempt_pause_ms(const struct vp_conn *conn, enum vp_sign sign);

/* How long a peer's request may wait here. Where more ask than can be answered in time, each would
 * be answered too late: the origin has given up this attempt, or is about to. A refusal takes
 * little, and tells it that this process lives. */
uint64_t vp_patience_ms(const struct vp_conn *conn);

#endif
