/* SPDX-License-Identifier: Apache-2.0 */
/* What the layer keeps for a communicator. */
#ifndef PRDMA_COMM_H
#define PRDMA_COMM_H

#include "mpilayer.h"

struct pr_comm *pr_comm_get(MPI_Comm comm);
void pr_comm_release(struct pr_comm *c);

#endif
