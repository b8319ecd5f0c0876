/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of a round. */
#ifndef PRDMA_BLOCKS_H
#define PRDMA_BLOCKS_H

#include "layer.h"
#include "mpilayer.h"

unsigned int pr_put_descs(size_t bytes);
unsigned int pr_group_descs(const struct pr_group *group);
unsigned int pr_target_sps(const struct pr_xfer *x, const struct pr_target *target);
bool pr_xfer_prepare(struct pr_xfer *x);

/*
 * Blocks that begin or end within a page
 */

bool pr_edge_is_page_aligned(const struct pr_edge *edge);
void pr_split_edge(struct pr_edge *edge, size_t *size);
void pr_split_copy_ends(const struct pr_edge *edge, const char *stage);
bool pr_split_ends_fit(const struct pr_target *t, const struct pr_place *places);
bool pr_split_make_puts(struct pr_target *t, const struct pr_place *places);

#endif
