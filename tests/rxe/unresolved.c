/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded: the first UNRESOLVED addresses that librdmacm resolves for this process are reported
 * as errors, and the next as many routes, as if the network's tables were full.
 */
#include <dlfcn.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

static int addresses, routes; /* already reported as errors */

__attribute__((visibility("default"))) int rdma_get_cm_event(struct rdma_event_channel *channel,
                                                             struct rdma_cm_event **event)
{
    static int (*next)(struct rdma_event_channel *, struct rdma_cm_event **);
    const char *wanted = getenv("UNRESOLVED");
    int limit = wanted ? atoi(wanted) : 0;

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "rdma_get_cm_event");
    int rc = next(channel, event);
    if (rc != 0)
        return rc;
    if ((*event)->event == RDMA_CM_EVENT_ADDR_RESOLVED && addresses < limit) {
        addresses++;
        (*event)->event = RDMA_CM_EVENT_ADDR_ERROR;
        (*event)->status = -ETIMEDOUT;
    } else if ((*event)->event == RDMA_CM_EVENT_ROUTE_RESOLVED && routes < limit) {
        routes++;
        (*event)->event = RDMA_CM_EVENT_ROUTE_ERROR;
        (*event)->status = -ETIMEDOUT;
    }
    return 0;
}

__attribute__((destructor)) static void count(void)
{
    if (routes > 0)
        fprintf(stderr, "unresolved: %d addresses, %d routes\n", addresses, routes);
}
