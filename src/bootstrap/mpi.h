/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the MPI library in this process, for all MPI implementations: in each of them
 * MPI_Initialized and MPI_Finalized take just an int *.
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

/* True if MPI_Init will fail because PMIx is in use. With Open MPI 5 it does: ompi_rte_init() in
 * ompi/runtime/ompi_rte.c gets no rank from PMIx_Init, and reports "local rank: Not found". */
bool ut_job_mpi_fails_after_pmix(void);

#endif
