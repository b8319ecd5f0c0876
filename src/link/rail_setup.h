/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which links have further ports (rails): see rails.h. */
#ifndef UT_LINK_RAIL_SETUP_H
#define UT_LINK_RAIL_SETUP_H

#include "link/rails.h"

/* Called when the link's connection is up: allows rails if this process may have them. */
void ut_rails_enable(struct ut_link *link);
/* Frees the table of the peer's memory keys: the peer has recreated its VCQ. */
void ut_rails_drop_keys(struct ut_link *link);
/* Closes and frees the rails of a link that is destroyed. */
void ut_rails_close(struct ut_link *link);

#endif
