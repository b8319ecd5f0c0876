/* SPDX-License-Identifier: Apache-2.0 */
/* The control endpoint of the process exchanges control messages with other processes: connection
 * management and keepalive. */
#ifndef FP_CONTROL_H
#define FP_CONTROL_H

#include "types.h"

/* Opens the control endpoint, and fills in the process's address. Returns 0, or -errno after
 * logging. */
int fp_control_open(struct fp_prov *prov);
void fp_control_close(struct fp_prov *prov);

/* Queues a control message, fills in the address of this process, and sends queued messages.
 * Messages that the fabric does not accept now, or fails to deliver, are repeated until the peer is
 * given up. For any thread, without the locks of types.h. */
void fp_control_send(struct fp_peer *peer, const struct fp_ctrl_msg *msg);

/* Frees the messages of a queue. */
void fp_ctrl_queue_free(struct fp_ctrl_queue *queue);

/* Processes completions. True: no completions are left, and the descriptor signals new ones. */
bool fp_control_progress(struct fp_prov *prov);

/* Polls the control endpoint once, for threads that poll an endpoint: without a background thread
 * progress() is called rarely, and a handshake takes many calls. False: nothing was received. */
bool fp_control_poll_once(struct fp_prov *prov);

/* True for the address of a process on the same fabric, with valid fields. */
bool fp_address_is_valid(const struct fp_prov *prov, const struct fp_address *address);

/*
 * Keepalive: pings peers to detect whether they are alive.
 */

/* Pings a peer. Returns the number of the ping for fp_peer_has_ponged(). For any thread. */
uint32_t fp_peer_ping(struct fp_peer *peer);

/* Pings peers that have been silent for a while, and gives up peers that do not reply. Returns the
 * milliseconds until the next call is due; -1: no peers. For progress(). */
int fp_keepalive_run(struct fp_prov *prov);

#endif
