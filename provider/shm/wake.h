/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes the background thread, and through it the owners of endpoints. */
#ifndef SP_WAKE_H
#define SP_WAKE_H

#include "prov_types.h"

/* Makes every endpoint check its peers: one died or came up, or an endpoint was closed. With
 * prov->lock held. */
void sp_request_peer_checks(struct sp_prov *prov);
/* Makes progress() run, which wakes the owners of endpoints whose ring has `rung`. */
void sp_kick(struct sp_prov *prov);
/* Makes progress() run in a millisecond, and wake the owners of `blocked` endpoints. */
void sp_start_timer(struct sp_prov *prov);

#endif
