/* SPDX-License-Identifier: Apache-2.0 */
/* Creates a request together with all processes of the communicator. */
#ifndef PRDMA_SETUP_H
#define PRDMA_SETUP_H

#include "mpilayer.h"

int pr_request_take_over(const char *call, MPI_Comm comm, MPI_Info info, const struct pr_side *send,
                         const struct pr_side *recv, int rc, MPI_Request *request);

#endif
