/* SPDX-License-Identifier: Apache-2.0 */
/* Staging memory, and the peers of a request. */
#ifndef PRDMA_STAGE_H
#define PRDMA_STAGE_H

#include "mpilayer.h"

bool pr_edge_has_data(const struct pr_edge *edge);
size_t pr_stage_self(struct pr_request *r, size_t size);
bool pr_stage_alloc(struct pr_request *r, size_t size);
void pr_xfer_add_peer(struct pr_xfer *x, int rank, utofu_vcq_id_t vcq, utofu_stadd_t scratch);

#endif
