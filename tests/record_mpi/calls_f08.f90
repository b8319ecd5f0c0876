! SPDX-License-Identifier: Apache-2.0
! Calls of MPI from Fortran, of which test_record_mpi.py knows what is recorded; with one call of uTofu. 4 ranks.
program calls
  use mpi_f08
  implicit none
  integer :: rank, nprocs, before, behind
  double precision :: outgoing(100), incoming(100), sums(2)
  type(MPI_Request) :: requests(2)
  type(MPI_Comm) :: half
  integer :: ierr
  interface
    function utofu_query_my_coords(coords) bind(c)
      use iso_c_binding, only: c_int, c_int8_t
      integer(c_int8_t) :: coords(*)
      integer(c_int) :: utofu_query_my_coords
    end function utofu_query_my_coords
  end interface
  integer(kind=selected_int_kind(2)) :: coords(6)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nprocs, ierr)
  if (utofu_query_my_coords(coords) /= 0) call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  behind = mod(rank + 1, nprocs)
  before = mod(rank + nprocs - 1, nprocs)
  outgoing = rank
  sums = rank
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (rank == 0) call MPI_Send(outgoing, 5, MPI_DOUBLE_PRECISION, 1, 1, MPI_COMM_WORLD, ierr)
  if (rank == 1) call MPI_Recv(incoming, 5, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call MPI_Isend(outgoing, 100, MPI_DOUBLE_PRECISION, behind, 2, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Irecv(incoming, 100, MPI_DOUBLE_PRECISION, before, 2, MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  if (rank == 0) then
    call MPI_Irecv(incoming, 1, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, requests(1), ierr)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
  else if (rank == 2) then
    call MPI_Send(outgoing, 1, MPI_DOUBLE_PRECISION, 0, 7, MPI_COMM_WORLD, ierr)
  end if
  call MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Gather(MPI_IN_PLACE, 1, MPI_DOUBLE_PRECISION, incoming, 1, MPI_DOUBLE_PRECISION, 0, MPI_COMM_SELF, ierr)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), 0, half, ierr)
  call MPI_Barrier(half, ierr)
  call MPI_Comm_free(half, ierr)
  call MPI_Finalize(ierr)
end program calls
