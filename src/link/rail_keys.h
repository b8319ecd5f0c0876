/* SPDX-License-Identifier: Apache-2.0 */
/* Memory keys for further ports (rails) of other devices: see rails.h. */
#ifndef UT_LINK_RAIL_KEYS_H
#define UT_LINK_RAIL_KEYS_H

#include "link/rails.h"

/* Handles a message UT_MSG_RAIL_KEYS: a request for keys, or the reply. */
void ut_rails_on_keys(struct ut_link *link, const struct ut_msg_rail_keys *m);
/* Returns the rails that have the memory keys for a put of `length` bytes; bit n: rail n + 1, whose
 * keys are in keys[n]. Requests missing keys from the peer. `own`: keys for the link's own
 * connection. `from`: the local STag, `to`: the remote STADD. */
unsigned int ut_rails_find_keys(struct ut_link *link, const struct ut_stag_local *from,
                                utofu_stadd_t to, uint32_t length, struct prov_mr own,
                                struct prov_mr keys[UT_MAX_RAILS]);
/* A rail rejected a part: the next long put requests the keys of the STag again. */
void ut_rails_invalidate_keys(struct ut_link *link, utofu_stadd_t to);

#endif
