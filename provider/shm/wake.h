/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes the background thread, and through it the owners of endpoints. */
#ifndef SP_WAKE_H
#define SP_WAKE_H

#include "prov_types.h"

/* Makes every endpoint look at its peers: one died or came up, or an endpoint was closed. With
 * prov->lock held. */
void sp_attention(struct sp_prov *prov);
/* Makes progress() run: it wakes the owners of endpoints whose ring says so (`rung`). */
void sp_kick(struct sp_prov *prov);
/* Makes it run in a millisecond, and wake the owners of endpoints that are `blocked`. */
void sp_timer(struct sp_prov *prov);

#endif
