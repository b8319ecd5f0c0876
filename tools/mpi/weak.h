/* SPDX-License-Identifier: Apache-2.0 */
/* What the library itself calls of MPI: weak, as the functions behind the wrappers. */
#ifndef MR_WEAK_H
#define MR_WEAK_H

#pragma weak PMPI_Cart_shift
#pragma weak PMPI_Cartdim_get
#pragma weak PMPI_Comm_group
#pragma weak PMPI_Comm_rank
#pragma weak PMPI_Comm_size
#pragma weak PMPI_Comm_test_inter
#pragma weak PMPI_Dist_graph_neighbors
#pragma weak PMPI_Dist_graph_neighbors_count
#pragma weak PMPI_Finalize
#pragma weak PMPI_Get_library_version
#pragma weak PMPI_Graph_neighbors
#pragma weak PMPI_Graph_neighbors_count
#pragma weak PMPI_Group_free
#pragma weak PMPI_Group_translate_ranks
#pragma weak PMPI_Init
#pragma weak PMPI_Init_thread
#pragma weak PMPI_Request_free
#pragma weak PMPI_Start
#pragma weak PMPI_Startall
#pragma weak PMPI_Test
#pragma weak PMPI_Test_cancelled
#pragma weak PMPI_Testall
#pragma weak PMPI_Testany
#pragma weak PMPI_Testsome
#pragma weak PMPI_Topo_test
#pragma weak PMPI_Type_size
#pragma weak PMPI_Wait
#pragma weak PMPI_Waitall
#pragma weak PMPI_Waitany
#pragma weak PMPI_Waitsome

#ifdef OPEN_MPI
#    pragma weak MPI_F_STATUSES_IGNORE
#    pragma weak MPI_F_STATUS_IGNORE
#    pragma weak PMPI_Comm_f2c
#    pragma weak PMPI_Request_f2c
#    pragma weak PMPI_Status_f2c
#    pragma weak PMPI_Type_f2c
#    pragma weak ompi_mpi_comm_null
#    pragma weak ompi_mpi_datatype_null
#    pragma weak ompi_mpi_comm_self
#    pragma weak ompi_mpi_comm_world
#    pragma weak ompi_request_null
#else
#    pragma weak MPI_F08_STATUSES_IGNORE
#    pragma weak MPI_F08_STATUS_IGNORE
#    pragma weak MPI_UNWEIGHTED
#    pragma weak PMPI_Status_f082c
#endif

#endif
