/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of a round. */
#ifndef PRDMA_BLOCKS_H
#define PRDMA_BLOCKS_H

#include "layer.h"

unsigned int pr_put_descs(size_t bytes);
unsigned int pr_group_descs(const struct pr_group *group);
unsigned int pr_target_sps(const struct pr_xfer *x, const struct pr_target *target);
bool pr_xfer_prepare(struct pr_xfer *x);

#endif
