/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fortran functions that do not call those of C: the wrappers have the names that compilers and
 * modules use for them, and call the PMPI form of the same function. With Open MPI these are all;
 * mpi_f08 calls ompi_wait_f, or PMPI where an argument is LOGICAL (mpi_test_f08_). With MPICH they
 * are the procedures of mpi_f08 without a buffer (mpi_wait_f08_); those with a buffer, and all of
 * mpif.h and mpi, call the functions of C.
 */
#ifndef MR_FORTRAN_H
#define MR_FORTRAN_H

#include "mr.h"

#ifdef OPEN_MPI

/* Defines the wrapper of a function with all of its names, but that of mpi_f08 itself. */
#    define MR_FORTRAN_BUFFER(lower, upper, mixed, parameters)                                     \
        MR_EXPORT void mpi_##lower##_ parameters __attribute__((alias("mr_f_" #lower)));           \
        MR_EXPORT void mpi_##lower##__ parameters __attribute__((alias("mr_f_" #lower)));          \
        MR_EXPORT void mpi_##lower parameters __attribute__((alias("mr_f_" #lower)));              \
        MR_EXPORT void MPI_##upper parameters __attribute__((alias("mr_f_" #lower)));              \
        MR_EXPORT void MPI_##mixed##_f parameters __attribute__((alias("mr_f_" #lower)));          \
        MR_EXPORT void MPI_##mixed##_f08 parameters __attribute__((alias("mr_f_" #lower)));        \
        MR_EXPORT void ompi_##lower##_f parameters __attribute__((alias("mr_f_" #lower)));         \
        extern void pmpi_##lower##_ parameters __attribute__((weak));                              \
        void mr_f_##lower parameters;                                                              \
        void mr_f_##lower parameters
/* Of a function without a buffer: its arguments are the same in mpi_f08. */
#    define MR_FORTRAN(lower, upper, mixed, parameters)                                            \
        MR_EXPORT void mpi_##lower##_f08_ parameters __attribute__((alias("mr_f_" #lower)));       \
        MR_FORTRAN_BUFFER(lower, upper, mixed, parameters)
#    define MR_PMPI(lower) pmpi_##lower##_

extern int mpi_fortran_in_place_ __attribute__((weak));

static inline bool mr_is_in_place(const void *buf)
{
    return buf && buf == (const void *)&mpi_fortran_in_place_;
}

static inline bool mr_is_ignored(const void *status)
{
    return &MPI_F_STATUS_IGNORE && status == (const void *)MPI_F_STATUS_IGNORE;
}

static inline bool mr_are_ignored(const void *statuses)
{
    return &MPI_F_STATUSES_IGNORE && statuses == (const void *)MPI_F_STATUSES_IGNORE;
}

static inline void mr_status_f2c(const void *status, MPI_Status *result)
{
    PMPI_Status_f2c(status, result);
}

#elif defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000

#    define MR_FORTRAN(lower, upper, mixed, parameters)                                            \
        extern void pmpir_##lower##_f08_ parameters __attribute__((weak));                         \
        MR_EXPORT void mpi_##lower##_f08_ parameters;                                              \
        MR_EXPORT void mpi_##lower##_f08_ parameters
#    define MR_PMPI(lower) pmpir_##lower##_f08_

static inline bool mr_is_ignored(const void *status)
{
    return &MPI_F08_STATUS_IGNORE && status == (const void *)MPI_F08_STATUS_IGNORE;
}

static inline bool mr_are_ignored(const void *statuses)
{
    return &MPI_F08_STATUSES_IGNORE && statuses == (const void *)MPI_F08_STATUSES_IGNORE;
}

static inline void mr_status_f2c(const void *status, MPI_Status *result)
{
    PMPI_Status_f082c(status, result);
}

#endif

enum { MR_STATUS_INTS = (sizeof(MPI_Status) + sizeof(MPI_Fint) - 1) / sizeof(MPI_Fint) };

#endif
