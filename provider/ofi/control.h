/* SPDX-License-Identifier: Apache-2.0 */
/* The control endpoint of the process: notes between processes. */
#ifndef FP_CONTROL_H
#define FP_CONTROL_H

#include "types.h"

/* Fills in the process's address. 0 or -errno after an error line. */
int fp_control_open(struct fp_prov *prov);
void fp_control_close(struct fp_prov *prov);

/* Queues a note, and sends what can be sent; this process's address is filled in. What the fabric
 * does not take now, or fails to deliver, is repeated as long as the peer is not given up. Any
 * thread, without the locks of types.h. */
void fp_control_send(struct fp_peer *peer, const struct fp_note *note);

/* Takes what has come. True: nothing more is there, and the descriptor tells of what comes. */
bool fp_control_progress(struct fp_prov *prov);

/* A little of that, by who polls an endpoint: without a background thread progress() is called
 * rarely, and handshakes take many of its calls. */
void fp_control_help(struct fp_prov *prov);

/* Does this come from a process of the same fabric, and may its parts be used? */
bool fp_address_is_good(const struct fp_prov *prov, const struct fp_address *address);

#endif
