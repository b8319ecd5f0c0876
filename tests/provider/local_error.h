/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request with a bad local key ends with: PROV_LCL_ACCESS. rdma_rxe of Linux 6.12 puts the
 * queue pair into the error state before the completion of the request is made, so that its status
 * is that of a flushed one (rxe_requester() of drivers/infiniband/sw/rxe/rxe_req.c calls
 * rxe_qp_error(), and flush_send_wqe() of rxe_comp.c completes it); Linux 6.1 does not.
 */
#ifndef UT_TEST_LOCAL_ERROR_H
#define UT_TEST_LOCAL_ERROR_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "provider.h"

static inline bool rxe_flushes_local_errors(void)
{
    struct utsname host;
    int major = 0, minor = 0;

    if (access("/sys/module/rdma_rxe", F_OK) != 0 || uname(&host) != 0)
        return false;
    return sscanf(host.release, "%d.%d", &major, &minor) == 2 && major * 100 + minor > 601;
}

static inline bool is_local_error(enum prov_status status)
{
    return status == PROV_LCL_ACCESS || (status == PROV_FLUSHED && rxe_flushes_local_errors());
}

#endif
