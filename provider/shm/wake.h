/* SPDX-License-Identifier: Apache-2.0 */
/* What makes the background thread and the owners of endpoints look. */
#ifndef SP_WAKE_H
#define SP_WAKE_H

#include "prov_types.h"

/* Something happened that every endpoint must look at. With prov->lock held. */
void sp_attention(struct sp_prov *prov);
/* Makes the background thread look at which owners to wake. */
void sp_kick(struct sp_prov *prov);
/* Makes it look in a moment. */
void sp_timer(struct sp_prov *prov);

#endif
