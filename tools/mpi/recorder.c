/* SPDX-License-Identifier: Apache-2.0 */
/* The recording that calls are reported to. */
#include "mr.h"

const struct ut_record_mpi *mr_to;
__thread int mr_depth __attribute__((tls_model("initial-exec")));
bool mr_begun;

MR_EXPORT ut_record_mpi_attach utofu_record_mpi_attach;

/* libtofucom or libutofu-observe has opened a recording. */
MR_EXPORT bool utofu_record_mpi_attach(const struct ut_record_mpi *to)
{
    if (mr_to || to->api != UT_RECORD_MPI_API)
        return false;
    mr_to = to;
    return true;
}
