/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of an MPI library in this process, for all MPI implementations: MPI_Initialized and
 * MPI_Finalized take just an int * in each of them.
 */
#ifndef UT_BOOTSTRAP_MPI_H
#define UT_BOOTSTRAP_MPI_H

enum ut_job_mpi {
    UT_JOB_MPI_NONE,   /* no MPI library is loaded */
    UT_JOB_MPI_BEFORE, /* before MPI_Init */
    UT_JOB_MPI_ACTIVE,
    UT_JOB_MPI_OVER, /* after MPI_Finalize */
};

enum ut_job_mpi ut_job_mpi_state(void);

#endif
