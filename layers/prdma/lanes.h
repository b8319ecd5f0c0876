/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of a request with method eager. */
#ifndef PRDMA_LANES_H
#define PRDMA_LANES_H

#include "mpilayer.h"

bool pr_lanes_usable(const struct pr_request *r);
bool pr_lanes_create(struct pr_request *r);
void pr_lanes_connect(struct pr_request *r, MPI_Request *requests);

#endif
