/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds: start, completion, and checks of peers while a call waits. */
#ifndef PRDMA_ROUNDS_H
#define PRDMA_ROUNDS_H

#include "layer.h"

void pr_xfer_start(struct pr_xfer *x);
bool pr_xfer_poll(struct pr_xfer *x);
void pr_xfer_check_peers(struct pr_xfer *x);

/*
 * Rounds of short blocks (eager), without RTRs
 */

void pr_eager_start(struct pr_xfer *x);
bool pr_eager_poll(struct pr_xfer *x);
char *pr_eager_slot(const struct pr_xfer *x, char *even);

#endif
