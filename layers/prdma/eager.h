/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of short blocks, without RTRs. */
#ifndef PRDMA_EAGER_H
#define PRDMA_EAGER_H

#include "layer.h"

void pr_eager_start(struct pr_xfer *x);
bool pr_eager_poll(struct pr_xfer *x);
char *pr_eager_slot(const struct pr_xfer *x, char *even);

#endif
