/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of a request with method eager. */
#ifndef PRDMA_LANES_H
#define PRDMA_LANES_H

#include "mpilayer.h"

bool pr_lanes_usable(const struct pr_request *r);
bool pr_lanes_create(struct pr_request *r);
void pr_lanes_connect(struct pr_request *r, MPI_Request *requests);

/*
 * Staging memory of lanes
 */

bool pr_edge_has_data(const struct pr_edge *edge);
size_t pr_stage_self(struct pr_request *r, size_t size);
bool pr_stage_alloc(struct pr_request *r, size_t size);
void pr_xfer_add_peer(struct pr_xfer *x, int rank, utofu_vcq_id_t vcq, utofu_stadd_t scratch);

#endif
