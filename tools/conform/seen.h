/* SPDX-License-Identifier: Apache-2.0 */
/* What a process saw in a case, and what all saw. */
#ifndef CONFORM_SEEN_H
#define CONFORM_SEEN_H

#include "frame.h"

/* Adds what one process saw to what all saw; its texts get the rank in front, unless that is
 * negative */
void cf_seen_add(struct cf_seen *all, const struct cf_seen *one, int rank);
/* "holds", "fails", "seen" or "not tried" */
const char *cf_seen_outcome(const struct cf_case *it, const struct cf_seen *all);

#endif
