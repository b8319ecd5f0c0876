/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library names no MPI library that it needs: the program brings its own. Otherwise a program
 * of another MPI would have two MPI libraries in one process, which neither survives. So every
 * symbol of MPI is weak, and symbols that the program's MPI lacks are never called. The linker
 * rejects symbols that are missing here.
 */
#ifndef PRDMA_WEAK_H
#define PRDMA_WEAK_H

#pragma weak PMPI_Allreduce
#pragma weak PMPI_Cancel
#pragma weak PMPI_Cart_shift
#pragma weak PMPI_Cartdim_get
#pragma weak PMPI_Comm_call_errhandler
#pragma weak PMPI_Comm_create_keyval
#pragma weak PMPI_Comm_free
#pragma weak PMPI_Comm_get_attr
#pragma weak PMPI_Comm_get_errhandler
#pragma weak PMPI_Comm_group
#pragma weak PMPI_Comm_rank
#pragma weak PMPI_Comm_set_attr
#pragma weak PMPI_Comm_set_errhandler
#pragma weak PMPI_Comm_size
#pragma weak PMPI_Comm_split
#pragma weak PMPI_Comm_split_type
#pragma weak PMPI_Dist_graph_neighbors
#pragma weak PMPI_Dist_graph_neighbors_count
#pragma weak PMPI_Errhandler_free
#pragma weak PMPI_Error_class
#pragma weak PMPI_Finalize
#pragma weak PMPI_Get_library_version
#pragma weak PMPI_Graph_neighbors
#pragma weak PMPI_Graph_neighbors_count
#pragma weak PMPI_Group_free
#pragma weak PMPI_Group_translate_ranks
#pragma weak PMPI_Info_get
#pragma weak PMPI_Init
#pragma weak PMPI_Init_thread
#pragma weak PMPI_Iprobe
#pragma weak PMPI_Irecv
#pragma weak PMPI_Isend
#pragma weak PMPI_Lookup_name
#pragma weak PMPI_Pack
#pragma weak PMPI_Publish_name
#pragma weak PMPI_Query_thread
#pragma weak PMPI_Request_free
#pragma weak PMPI_Request_get_status
#pragma weak PMPI_Start
#pragma weak PMPI_Startall
#pragma weak PMPI_Status_set_cancelled
#pragma weak PMPI_Status_set_elements
#pragma weak PMPI_Test
#pragma weak PMPI_Testall
#pragma weak PMPI_Testany
#pragma weak PMPI_Testsome
#pragma weak PMPI_Topo_test
#pragma weak PMPI_Type_dup
#pragma weak PMPI_Type_free
#pragma weak PMPI_Type_get_envelope
#pragma weak PMPI_Type_get_extent
#pragma weak PMPI_Type_get_true_extent
#pragma weak PMPI_Type_size_x
#pragma weak PMPI_Unpack
#pragma weak PMPI_Wait
#pragma weak PMPI_Waitall
#pragma weak PMPI_Waitany
#pragma weak PMPI_Waitsome

#ifdef OPEN_MPI
#    pragma weak MPI_F_STATUSES_IGNORE
#    pragma weak MPI_F_STATUS_IGNORE
#    pragma weak OMPI_C_MPI_COMM_NULL_COPY_FN
#    pragma weak PMPI_Comm_f2c
#    pragma weak PMPI_Info_f2c
#    pragma weak PMPI_Neighbor_alltoallw
#    pragma weak PMPI_Request_c2f
#    pragma weak PMPI_Request_f2c
#    pragma weak PMPI_Status_c2f
#    pragma weak PMPI_Type_f2c
#    pragma weak mpi_fortran_bottom_
#    pragma weak ompi_mpi_byte
#    pragma weak ompi_mpi_comm_null
#    pragma weak ompi_mpi_comm_self
#    pragma weak ompi_mpi_comm_world
#    pragma weak ompi_mpi_errors_return
#    pragma weak ompi_mpi_info_null
#    pragma weak ompi_mpi_int
#    pragma weak ompi_mpi_op_bor
#    pragma weak ompi_mpi_op_min
#    pragma weak ompi_request_null
#else
#    pragma weak MPI_UNWEIGHTED
#endif

#if PR_MPIX
#    pragma weak PMPIX_Neighbor_allgather_init
#    pragma weak PMPIX_Neighbor_allgatherv_init
#    pragma weak PMPIX_Neighbor_alltoall_init
#    pragma weak PMPIX_Neighbor_alltoallv_init
#    pragma weak PMPIX_Neighbor_alltoallw_init
#else
#    pragma weak PMPI_Neighbor_allgather_init
#    pragma weak PMPI_Neighbor_allgatherv_init
#    pragma weak PMPI_Neighbor_alltoall_init
#    pragma weak PMPI_Neighbor_alltoallv_init
#    pragma weak PMPI_Neighbor_alltoallw_init
#endif
#if MPI_VERSION >= 4
#    pragma weak PMPI_Neighbor_allgather_init_c
#    pragma weak PMPI_Neighbor_allgatherv_init_c
#    pragma weak PMPI_Neighbor_alltoall_init_c
#    pragma weak PMPI_Neighbor_alltoallv_init_c
#    pragma weak PMPI_Neighbor_alltoallw_init_c
#endif

#endif
