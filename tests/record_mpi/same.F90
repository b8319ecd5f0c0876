! SPDX-License-Identifier: Apache-2.0
! The calls of same.c in the same order, with mpi_f08 (-DF08) or mpif.h. 4 ranks.
#ifdef F08
#define COMM type(MPI_Comm)
#define MESSAGE type(MPI_Message)
#define REQUEST type(MPI_Request)
#define WINDOW type(MPI_Win)
#define STATUS(NAME, SIZE) type(MPI_Status) :: NAME(SIZE)
#define FIRST(NAME) NAME(1)
#else
#define COMM integer
#define MESSAGE integer
#define REQUEST integer
#define WINDOW integer
#define STATUS(NAME, SIZE) integer :: NAME(MPI_STATUS_SIZE, SIZE)
#define FIRST(NAME) NAME(:, 1)
#endif
program same
#ifdef F08
  use mpi_f08
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  integer :: rank, next, prev, ierr
  double precision :: outgoing(8), incoming(8)
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
  next = mod(rank + 1, 4)
  prev = mod(rank + 3, 4)
  outgoing = 0
  if (utofu_query_my_coords(coords) /= 0) call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  call finish_requests()
  call point_to_point()
  call collectives()
  call communicators()
  call MPI_Finalize(ierr)

contains

  subroutine finish_requests()
    REQUEST :: requests(2)
    STATUS(statuses, 2)
    integer :: num, indices(2), turn, from
    logical :: flag

    do turn = 1, 8
      from = merge(prev, MPI_ANY_SOURCE, mod(turn, 2) == 1)
      call MPI_Irecv(incoming, 8, MPI_DOUBLE_PRECISION, from, turn, MPI_COMM_WORLD, requests(2), ierr)
      call MPI_Isend(outgoing, turn, MPI_DOUBLE_PRECISION, next, turn, MPI_COMM_WORLD, requests(1), ierr)
      call MPI_Wait(requests(1), FIRST(statuses), ierr)
      flag = .false.
      num = 0
      select case (turn)
      case (1)
        call MPI_Wait(requests(2), MPI_STATUS_IGNORE, ierr)
      case (2)
        call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
      case (3)
        call MPI_Waitany(2, requests, num, MPI_STATUS_IGNORE, ierr)
      case (4)
        call MPI_Waitsome(2, requests, num, indices, MPI_STATUSES_IGNORE, ierr)
      case (5)
        do while (.not. flag)
          call MPI_Test(requests(2), flag, MPI_STATUS_IGNORE, ierr)
        end do
      case (6)
        do while (.not. flag)
          call MPI_Testall(2, requests, flag, statuses, ierr)
        end do
      case (7)
        do while (.not. flag)
          call MPI_Testany(2, requests, num, flag, FIRST(statuses), ierr)
        end do
      case default
        do while (num == 0)
          call MPI_Testsome(2, requests, num, indices, statuses, ierr)
        end do
      end select
    end do
  end subroutine finish_requests

  subroutine point_to_point()
    REQUEST :: requests(2)
    MESSAGE :: message
    STATUS(statuses, 1)
    logical :: flag

    if (rank == 0) call MPI_Send(outgoing, 5, MPI_DOUBLE_PRECISION, 1, 9, MPI_COMM_WORLD, ierr)
    if (rank == 1) call MPI_Recv(incoming, 8, MPI_DOUBLE_PRECISION, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(outgoing, 3, MPI_DOUBLE_PRECISION, next, 10, incoming, 8, MPI_DOUBLE_PRECISION, prev, 10, &
      MPI_COMM_WORLD, FIRST(statuses), ierr)
    if (rank == 0) then
      call MPI_Send(outgoing, 1, MPI_DOUBLE_PRECISION, 1, 11, MPI_COMM_WORLD, ierr)
      call MPI_Send(outgoing, 1, MPI_DOUBLE_PRECISION, 1, 12, MPI_COMM_WORLD, ierr)
      call MPI_Send(outgoing, 1, MPI_DOUBLE_PRECISION, 1, 13, MPI_COMM_WORLD, ierr)
    else if (rank == 1) then
      call MPI_Probe(MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
      call MPI_Recv(incoming, 8, MPI_DOUBLE_PRECISION, 0, 11, MPI_COMM_WORLD, FIRST(statuses), ierr)
      flag = .false.
      do while (.not. flag)
        call MPI_Iprobe(0, 12, MPI_COMM_WORLD, flag, FIRST(statuses), ierr)
      end do
      call MPI_Recv(incoming, 8, MPI_DOUBLE_PRECISION, 0, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
      call MPI_Mprobe(0, 13, MPI_COMM_WORLD, message, MPI_STATUS_IGNORE, ierr)
      call MPI_Mrecv(incoming, 8, MPI_DOUBLE_PRECISION, message, MPI_STATUS_IGNORE, ierr)
    end if
    call MPI_Send_init(outgoing, 2, MPI_DOUBLE_PRECISION, next, 14, MPI_COMM_WORLD, requests(1), ierr)
    call MPI_Recv_init(incoming, 2, MPI_DOUBLE_PRECISION, prev, 14, MPI_COMM_WORLD, requests(2), ierr)
    call MPI_Startall(2, requests, ierr)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
    call MPI_Start(requests(1), ierr)
    call MPI_Start(requests(2), ierr)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
    call MPI_Request_free(requests(1), ierr)
    call MPI_Request_free(requests(2), ierr)
  end subroutine point_to_point

  subroutine collectives()
    REQUEST :: request
    integer :: counts(4) = [1, 2, 3, 2], displs(4) = [0, 1, 3, 6]

    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    call MPI_Bcast(outgoing, 3, MPI_DOUBLE_PRECISION, 1, MPI_COMM_WORLD, ierr)
    call MPI_Reduce(outgoing, incoming, 4, MPI_DOUBLE_PRECISION, MPI_SUM, 2, MPI_COMM_WORLD, ierr)
    call MPI_Allreduce(outgoing, incoming, 5, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    call MPI_Gather(outgoing, 2, MPI_DOUBLE_PRECISION, incoming, 2, MPI_DOUBLE_PRECISION, 3, MPI_COMM_WORLD, ierr)
    call MPI_Gatherv(outgoing, counts(rank + 1), MPI_DOUBLE_PRECISION, incoming, counts, displs, &
      MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr)
    call MPI_Scatter(outgoing, 2, MPI_DOUBLE_PRECISION, incoming, 2, MPI_DOUBLE_PRECISION, 1, MPI_COMM_WORLD, ierr)
    call MPI_Allgather(outgoing, 2, MPI_DOUBLE_PRECISION, incoming, 2, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierr)
    call MPI_Allgatherv(outgoing, counts(rank + 1), MPI_DOUBLE_PRECISION, incoming, counts, displs, &
      MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierr)
    call MPI_Alltoall(outgoing, 2, MPI_DOUBLE_PRECISION, incoming, 2, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierr)
    call MPI_Reduce_scatter(outgoing, incoming, counts, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    call MPI_Scan(outgoing, incoming, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    call MPI_Exscan(outgoing, incoming, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    call MPI_Ibarrier(MPI_COMM_WORLD, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call MPI_Iallreduce(outgoing, incoming, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  end subroutine collectives

  subroutine communicators()
    COMM :: half, copy, ring
    WINDOW :: win
    integer :: dims(1) = 4
    logical :: periodic(1) = .true.

    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), 0, half, ierr)
    call MPI_Barrier(half, ierr)
    call MPI_Comm_dup(half, copy, ierr)
    call MPI_Allreduce(outgoing, incoming, 1, MPI_DOUBLE_PRECISION, MPI_SUM, copy, ierr)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periodic, .false., ring, ierr)
    call MPI_Neighbor_allgather(outgoing, 1, MPI_DOUBLE_PRECISION, incoming, 1, MPI_DOUBLE_PRECISION, ring, ierr)
    call MPI_Comm_free(ring, ierr)
    call MPI_Comm_free(copy, ierr)
    call MPI_Comm_free(half, ierr)
    call MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, half, ierr)
    call MPI_Barrier(half, ierr)
    call MPI_Win_create(incoming, 64_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
    call MPI_Win_fence(0, win, ierr)
    call MPI_Put(outgoing, 1, MPI_DOUBLE_PRECISION, next, 0_MPI_ADDRESS_KIND, 1, MPI_DOUBLE_PRECISION, win, ierr)
    call MPI_Win_fence(0, win, ierr)
    call MPI_Win_free(win, ierr)
    call MPI_Comm_free(half, ierr)
  end subroutine communicators
end program same
