/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an MPI library in this process is doing, without knowing which one it is: MPI_Initialized
 * and MPI_Finalized take nothing but an int *, in every MPI.
 */
#ifndef UT_JOB_JOB_MPI_H
#define UT_JOB_JOB_MPI_H

enum ut_job_mpi {
    UT_JOB_MPI_NONE,   /* no MPI library is loaded */
    UT_JOB_MPI_BEFORE, /* before MPI_Init */
    UT_JOB_MPI_ACTIVE,
    UT_JOB_MPI_OVER, /* after MPI_Finalize */
};

enum ut_job_mpi ut_job_mpi_state(void);

#endif
