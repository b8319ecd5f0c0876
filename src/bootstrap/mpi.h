/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of an MPI library in this process, for all MPI implementations: MPI_Initialized and
 * MPI_Finalized take just an int * in each of them.
 */
#ifndef UT_BOOTSTRAP_MPI_H
#define UT_BOOTSTRAP_MPI_H

#include <stdbool.h>

enum ut_job_mpi {
    UT_JOB_MPI_NONE,   /* no MPI library is loaded */
    UT_JOB_MPI_BEFORE, /* before MPI_Init */
    UT_JOB_MPI_ACTIVE,
    UT_JOB_MPI_OVER, /* after MPI_Finalize */
};

enum ut_job_mpi ut_job_mpi_state(void);

/* Does MPI_Init fail from now on, as PMIx is in use? That of Open MPI 5 does: ompi_rte_init() of
 * its ompi/runtime/ompi_rte.c then learns no rank from PMIx_Init, and says "local rank: Not found".
 */
bool ut_job_mpi_fails_after_pmix(void);

#endif
