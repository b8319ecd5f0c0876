/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles as arguments by value. Those of MPICH are int, those of Open MPI pointers. The library
 * for MPICH may be in front of a program of Open MPI 5, whose handles it must pass on whole: so its
 * functions take words, whose lower half is a handle of MPICH. On the ABIs of 64-bit Linux an int
 * takes the register, or the place on the stack, of a word. (Programs of Open MPI 4 call MPIX_
 * functions, which the library for MPICH does not have.)
 */
#ifndef PRDMA_HANDLES_H
#define PRDMA_HANDLES_H

#include "mpilayer.h"

#ifdef OPEN_MPI
typedef MPI_Comm pr_comm_arg;
typedef MPI_Datatype pr_type_arg;
typedef MPI_Info pr_info_arg;
typedef MPI_Request pr_request_arg;

/* a function that is no extension in any version */
#    define PR_PLAIN_CALL(name) MPI_##name
#    define PR_PLAIN_NEXT(name) PMPI_##name
#else
#    include <stdint.h>

typedef intptr_t pr_comm_arg, pr_type_arg, pr_info_arg, pr_request_arg;
_Static_assert(sizeof(MPI_Comm) <= sizeof(intptr_t), "a handle is the lower half of a word");

#    undef PR_CALL
#    undef PR_NEXT
#    define PR_CALL(name) pr_call_##name
#    define PR_NEXT(name) pr_next_##name
#    define PR_PLAIN_CALL PR_CALL
#    define PR_PLAIN_NEXT PR_NEXT

/* pr_call_NAME() is MPI_NAME(), and pr_next_NAME() is PMPI_NAME(), with words for handles. */
#    define PR_DECLARE(name, ...)                                                                  \
        __attribute__((visibility("default"))) int pr_call_##name(__VA_ARGS__) __asm__(            \
            "MPI_" #name);                                                                         \
        __attribute__((weak, visibility("default"))) int pr_next_##name(__VA_ARGS__) __asm__(      \
            "PMPI_" #name)

PR_DECLARE(Neighbor_alltoallw_init, const void *, const int *, const MPI_Aint *,
           const MPI_Datatype *, void *, const int *, const MPI_Aint *, const MPI_Datatype *,
           pr_comm_arg, pr_info_arg, MPI_Request *);
PR_DECLARE(Neighbor_alltoallv_init, const void *, const int *, const int *, pr_type_arg, void *,
           const int *, const int *, pr_type_arg, pr_comm_arg, pr_info_arg, MPI_Request *);
PR_DECLARE(Neighbor_alltoall_init, const void *, int, pr_type_arg, void *, int, pr_type_arg,
           pr_comm_arg, pr_info_arg, MPI_Request *);
PR_DECLARE(Neighbor_allgather_init, const void *, int, pr_type_arg, void *, int, pr_type_arg,
           pr_comm_arg, pr_info_arg, MPI_Request *);
PR_DECLARE(Neighbor_allgatherv_init, const void *, int, pr_type_arg, void *, const int *,
           const int *, pr_type_arg, pr_comm_arg, pr_info_arg, MPI_Request *);
PR_DECLARE(Request_get_status, pr_request_arg, int *, MPI_Status *);
#    if MPI_VERSION >= 4
PR_DECLARE(Neighbor_alltoallw_init_c, const void *, const MPI_Count *, const MPI_Aint *,
           const MPI_Datatype *, void *, const MPI_Count *, const MPI_Aint *, const MPI_Datatype *,
           pr_comm_arg, pr_info_arg, MPI_Request *);
PR_DECLARE(Neighbor_alltoallv_init_c, const void *, const MPI_Count *, const MPI_Aint *,
           pr_type_arg, void *, const MPI_Count *, const MPI_Aint *, pr_type_arg, pr_comm_arg,
           pr_info_arg, MPI_Request *);
PR_DECLARE(Neighbor_alltoall_init_c, const void *, MPI_Count, pr_type_arg, void *, MPI_Count,
           pr_type_arg, pr_comm_arg, pr_info_arg, MPI_Request *);
PR_DECLARE(Neighbor_allgather_init_c, const void *, MPI_Count, pr_type_arg, void *, MPI_Count,
           pr_type_arg, pr_comm_arg, pr_info_arg, MPI_Request *);
PR_DECLARE(Neighbor_allgatherv_init_c, const void *, MPI_Count, pr_type_arg, void *,
           const MPI_Count *, const MPI_Aint *, pr_type_arg, pr_comm_arg, pr_info_arg,
           MPI_Request *);
#    endif
#endif

#endif
