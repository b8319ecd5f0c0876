/* SPDX-License-Identifier: Apache-2.0 */
/* Asking peers whether they live. */
#ifndef FP_LIFE_H
#define FP_LIFE_H

#include "types.h"

/* Asks; returns the number of the question, see fp_peer_has_answered(). Any thread. */
uint32_t fp_peer_ask(struct fp_peer *peer);

/* Asks those that have been silent for a while, and gives up those that do not answer. Returns
 * milliseconds until it is due again, -1: there is nobody to look at. Of progress(). */
int fp_peers_look(struct fp_prov *prov);

#endif
