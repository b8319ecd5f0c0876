/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fortran with Open MPI, whose Fortran functions call PMPI: the wrappers have the names that
 * compilers and modules use for them, and call the PMPI form of the same function. (The Fortran
 * functions of MPICH call those of C.)
 */
#ifndef MR_FORTRAN_H
#define MR_FORTRAN_H

#include "mr.h"

#ifdef OPEN_MPI

/* Defines function `lower` with all of its names. mpi_f08 calls the one with the "o". */
#    define MR_FORTRAN(lower, upper, mixed, parameters)                                            \
        MR_EXPORT void lower##_ parameters __attribute__((alias("mr_f_" #lower)));                 \
        MR_EXPORT void lower##__ parameters __attribute__((alias("mr_f_" #lower)));                \
        MR_EXPORT void lower parameters __attribute__((alias("mr_f_" #lower)));                    \
        MR_EXPORT void upper parameters __attribute__((alias("mr_f_" #lower)));                    \
        MR_EXPORT void mixed##_f parameters __attribute__((alias("mr_f_" #lower)));                \
        MR_EXPORT void mixed##_f08 parameters __attribute__((alias("mr_f_" #lower)));              \
        MR_EXPORT void o##lower##_f parameters __attribute__((alias("mr_f_" #lower)));             \
        extern void p##lower##_ parameters __attribute__((weak));                                  \
        void mr_f_##lower parameters;                                                              \
        void mr_f_##lower parameters

enum { MR_STATUS_INTS = (sizeof(MPI_Status) + sizeof(MPI_Fint) - 1) / sizeof(MPI_Fint) };

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

#endif

#endif
