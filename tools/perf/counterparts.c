/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of utofu-perf --peers: the corresponding calls and programs of other libraries. */
#include "perf.h"

#include <stdio.h>
#include <string.h>

/* Operations with counterparts in other libraries, and these. */
static const struct counterpart {
    const char *operation, *what;
} counterparts[] = {
    {"put-lat", "MPI_Send and MPI_Recv; ucp_am_lat; ib_send_lat"},
    {"put-local-lat", "MPI_Put and MPI_Win_flush"},
    {"put-mem-lat", "ucp_put_lat; ib_write_lat"},
    {"put-bw", "MPI_Puts, one MPI_Win_flush; ucp_put_bw; ib_write_bw"},
    {"put-rate", "the same"},
    {"get-lat", "MPI_Get and MPI_Win_flush; ucp_get; ib_read_lat"},
    {"armw-lat", "MPI_Fetch_and_op and MPI_Win_flush; ucp_fadd; ib_atomic_lat"},
    {"barrier", "MPI_Barrier"},
    {"reduce-uint64", "MPI_Allreduce with MPI_SUM"},
    {"reduce-double", "MPI_Allreduce with MPI_SUM"},
};

bool perf_has_peers(const char *operation)
{
    for (size_t i = 0; i < sizeof(counterparts) / sizeof(counterparts[0]); i++)
        if (strcmp(counterparts[i].operation, operation) == 0)
            return true;
    return false;
}

void perf_print_counterparts(void)
{
    for (size_t i = 0; i < sizeof(counterparts) / sizeof(counterparts[0]); i++)
        printf("  %-16s %s\n", counterparts[i].operation, counterparts[i].what);
}
