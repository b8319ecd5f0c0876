/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that begin or end within a page. */
#ifndef PRDMA_SPLIT_H
#define PRDMA_SPLIT_H

#include "mpilayer.h"

bool pr_edge_is_page_aligned(const struct pr_edge *edge);
void pr_split_edge(struct pr_edge *edge, size_t *size);
void pr_split_copy_ends(const struct pr_edge *edge, const char *stage);
bool pr_split_ends_fit(const struct pr_target *t, const struct pr_place *places);
bool pr_split_make_puts(struct pr_target *t, const struct pr_place *places);

#endif
