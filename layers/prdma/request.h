/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of this process, found by the handle of MPI. */
#ifndef PRDMA_REQUEST_H
#define PRDMA_REQUEST_H

#include "mpilayer.h"

void pr_lock(void);
void pr_unlock(void);
struct pr_request *pr_request_find(MPI_Request handle);
bool pr_request_reserve(void); /* before pr_request_add(); false: no memory */
void pr_request_add(struct pr_request *r);
void pr_requests_print_stats(void); /* PRDMA_STATS, at the end of MPI */
int pr_request_start(struct pr_request *r);
bool pr_request_test(struct pr_request *r);
bool pr_request_test_and_probe(struct pr_request *r);
void pr_request_wait(struct pr_request *r);
int pr_request_result(struct pr_request *r);
void pr_empty_status(MPI_Status *status);
int pr_request_raise(struct pr_request *r, int code);
void pr_request_release(struct pr_request *r);
void pr_request_destroy(struct pr_request *r);

#endif
