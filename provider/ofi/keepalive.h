/* SPDX-License-Identifier: Apache-2.0 */
/* Keepalive: pings peers to detect whether they are alive. */
#ifndef FP_KEEPALIVE_H
#define FP_KEEPALIVE_H

#include "types.h"

/* Pings a peer. Returns the number of the ping, see fp_peer_has_ponged(). For any thread. */
uint32_t fp_peer_ping(struct fp_peer *peer);

/* Pings peers that have been silent for a while, and gives up peers that do not reply. Returns the
 * milliseconds until the next call is due; -1: no peers. For progress(). */
int fp_keepalive_run(struct fp_prov *prov);

#endif
