/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of all handshakes, those of active.c and of answer.c. Run in progress(), with the
 * connection busy and prov->lock not held. */
#ifndef VP_HANDSHAKE_H
#define VP_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "attempts.h"
#include "verbs/conn_types.h"

/* Private data of an answer: the hello of the accepting side. */
struct vp_hello_rep {
    uint8_t magic[4]; /* vp_rep_magic */
    uint8_t size;     /* size of the hello, and the unit of the accepting side */
    uint8_t hello[PROV_HELLO_MAX];
    uint8_t mtu; /* enum ibv_mtu of the accepting side's port */
};

extern const uint8_t vp_rep_magic[4];

/* Waits for the peer, or until the deadline. */
void vp_handshake_wait(struct vp_conn *conn, enum vp_phase phase, uint64_t deadline);

/* The handshake has failed: down() follows, unless the failure is known already. */
void vp_handshake_fail(struct vp_conn *conn, enum prov_reason reason);

/* The handshake has succeeded: up() follows. */
void vp_handshake_complete(struct vp_conn *conn);

/* Peer or device is gone: posts `event` if the connection was up, else fails the handshake. */
void vp_handshake_lost(struct vp_conn *conn, unsigned int event);

/* Why no answer came. */
enum prov_reason vp_silence_reason(const struct vp_conn *conn);

/* Is it an error that passes when resources become free? */
bool vp_is_shortage(int rc);

/* No queue pair can be made: closes others of this process. False: there are none. */
bool vp_handshake_wait_for_qp(struct vp_conn *conn);

/* Concurrent reads and atomics: the setting, limited by the device. */
uint8_t vp_rd_atomic_limit(const struct vp_conn *conn, int device_limit);

/* Tries again later, or gives up if the handshake has taken too long. */
void vp_handshake_retry(struct vp_conn *conn, enum vp_attempt_result sign);

#endif
