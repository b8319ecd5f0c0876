/* SPDX-License-Identifier: Apache-2.0 */
/* Handles completions of puts in parts: see rails.c. */
#ifndef UT_ENGINE_RAILS_H
#define UT_ENGINE_RAILS_H

#include "engine/parts.h"

/* Posts the waiting slots of the link, and the notices that are due. */
void ut_rails_continue(struct ut_link *link);

/* A request with UT_COOKIE_PART has ended. by_rail: on another connection than the link's own. */
void ut_rails_done(struct ut_link *link, uint32_t number, enum prov_status status, bool by_rail);

/* The callbacks for the endpoints of rails. */
extern const struct prov_callbacks ut_rails_callbacks;

#endif
