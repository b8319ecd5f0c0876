/* SPDX-License-Identifier: Apache-2.0 */
/* Steps common to active and passive handshakes. They run in progress(), with the connection busy
 * and without prov->lock. */
#ifndef VP_HANDSHAKE_H
#define VP_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "attempts.h"
#include "verbs/conn_types.h"

/* Private data of a reply. */
struct vp_hello_rep {
    uint8_t magic[4]; /* vp_rep_magic */
    uint8_t size;     /* size of the hello, and order unit of the accepting side */
    uint8_t hello[PROV_PRIVATE_DATA_MAX];
    uint8_t mtu; /* enum ibv_mtu of the accepting side's port */
};

extern const uint8_t vp_rep_magic[4];

/* Waits for the peer until the deadline. */
void vp_handshake_wait(struct vp_conn *conn, enum vp_phase phase, uint64_t deadline);

/* Ends the handshake with a failure: down() follows, unless the failure is already known. */
void vp_handshake_fail(struct vp_conn *conn, enum prov_reason reason);

/* Ends the handshake with success: up() follows. */
void vp_handshake_complete(struct vp_conn *conn);

/* Handles the loss of the peer or device: posts `event` if the connection was up, otherwise fails
 * the handshake. */
void vp_handshake_lost(struct vp_conn *conn, unsigned int event);

/* Returns the reason for a missing reply. */
enum prov_reason vp_silence_reason(const struct vp_conn *conn);

/* True for an error that passes when resources become free. */
bool vp_is_shortage(int rc);

/* Waits for a queue pair when none can be created: closes other connections of this process. False:
 * there are no others. */
bool vp_handshake_wait_for_qp(struct vp_conn *conn);

/* Returns the number of concurrent reads and atomics: the setting, limited by the device. */
uint8_t vp_rd_atomic_limit(const struct vp_conn *conn, int device_limit);

/* Retries later, or gives up if the handshake has taken too long. */
void vp_handshake_retry(struct vp_conn *conn, enum vp_attempt_result result);

#endif
