/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that own handshakes (ask.c) and peers' (answer.c) share. In progress(), with the
 * connection busy and prov->lock not held. */
#ifndef VP_SHAKE_H
#define VP_SHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "attempts.h"
#include "verbs/conn_types.h"

/* The accepting side's private data: its hello. */
struct vp_hello_rep {
    uint8_t magic[4]; /* vp_rep_magic */
    uint8_t size;     /* of the hello, and the unit of the accepting side */
    uint8_t hello[PROV_HELLO_MAX];
};

extern const uint8_t vp_rep_magic[4];

/* The connection waits for the peer, or for the deadline. */
void vp_shake_wait(struct vp_conn *conn, enum vp_phase phase, uint64_t deadline);

/* The handshake has failed: down() follows, unless it is known already. */
void vp_shake_over(struct vp_conn *conn, enum prov_reason reason);

/* It has succeeded: up() follows. */
void vp_shake_up(struct vp_conn *conn);

/* The peer or the device is gone: `event` if it was up, else the handshake has failed. */
void vp_shake_lost(struct vp_conn *conn, unsigned int event);

/* No answer came: why? */
enum prov_reason vp_silence(const struct vp_conn *conn);

/* Is it an error that passes, as resources become free? */
bool vp_is_shortage(int rc);

/* No queue pair can be made: others of this process are closed for it. False: there are none. */
bool vp_waits_for_qp(struct vp_conn *conn);

/* Reads and atomics at once: what is set, and what the device can do. */
uint8_t vp_rd_limit(const struct vp_conn *conn, int device_limit);

/* Tries again later, unless it has taken too long. */
void vp_shake_again(struct vp_conn *conn, enum vp_sign sign);

#endif
