/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests whether the host of a silent peer refuses connections to the peer's port. Then the process
 * has ended: its fabric listens at the port until the end, whatever the program does. libfabric's
 * own connections do not report this. For fabrics over TCP, whose names are socket addresses.
 */
#ifndef FP_REFUSED_H
#define FP_REFUSED_H

#include "types.h"

/* Called at intervals while the peer is silent. Does not wait: one call sends a request, and a
 * later one takes the reply. True: the peer's process has ended. */
bool fp_peer_port_is_refused(struct fp_peer *peer);

/* Drops the probe: the peer is not silent any more. */
void fp_peer_drop_port_probe(struct fp_peer *peer);

#endif
