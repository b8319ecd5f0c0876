! SPDX-License-Identifier: Apache-2.0
! A ring of processes in Fortran: each round every process gets its neighbours' numbers.
program halo
    use mpi
    implicit none
    integer, parameter :: n = 3000, rounds = 20
    integer :: ierr, rank, procs, comm, request, other, i, round
    integer :: counts(2), types(2), requests(2), status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)
    integer(kind=MPI_ADDRESS_KIND) :: displs(2)
    integer, asynchronous :: from(n, 2), to(n, 2), gathered(2)
    logical :: flag

    call MPI_Init(ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, procs, ierr)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [procs], [.true.], .false., comm, ierr)
    call MPI_Comm_rank(comm, rank, ierr)
    counts = n
    types = MPI_INTEGER
    displs = [0, 4*n]
    call take_w(from, counts, displs, types, to, comm, request)
    call take_gather(rank, gathered, comm, other)
    types = MPI_DATATYPE_NULL ! nothing looks at them any more
    do round = 1, rounds
        from(:, 1) = rank*1000 + round
        from(:, 2) = -rank*1000 - round
        to = 0
        requests = [request, other]
        call MPI_Startall(2, requests, ierr)
        select case (mod(round, 3))
        case (0)
            flag = .false.
            do i = 1, 100000000
                call MPI_Request_get_status(request, flag, status, ierr)
                if (flag) exit
            end do
            if (.not. flag) call wrong('status')
            call MPI_Wait(request, status, ierr)
            call MPI_Wait(other, MPI_STATUS_IGNORE, ierr)
        case (1)
            call MPI_Waitall(2, requests, statuses, ierr)
        case default
            call MPI_Waitany(2, requests, i, status, ierr)
            if (i < 1 .or. i > 2) call wrong('index')
            call MPI_Wait(requests(3 - i), MPI_STATUS_IGNORE, ierr)
            call MPI_Testall(2, requests, flag, MPI_STATUSES_IGNORE, ierr)
            if (.not. flag) call wrong('flag')
        end select
        ! with more than two processes both pairings of edges are the same
        if (any(to(:, 1) /= -modulo(rank - 1, procs)*1000 - round)) call wrong('first')
        if (any(to(:, 2) /= modulo(rank + 1, procs)*1000 + round)) call wrong('second')
        if (gathered(1) /= modulo(rank - 1, procs)) call wrong('gathered')
    end do
    call MPI_Request_free(request, ierr)
    call MPI_Request_free(other, ierr)
    if (request /= MPI_REQUEST_NULL) call wrong('request')
    if (rank == 0) print *, rounds, ' rounds of ', procs, ' processes'
    call MPI_Finalize(ierr)

contains
    subroutine wrong(what)
        character(len=*), intent(in) :: what

        print *, 'rank ', rank, ': not so: ', what
        call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    end subroutine
end program

subroutine take_w(from, counts, displs, types, to, comm, request)
    implicit none
    include 'mpif.h' ! the module mpi has these functions in some MPI libraries, in others it has not
    integer :: from(*), to(*), counts(2), types(2), comm, request, ierr
    integer(kind=MPI_ADDRESS_KIND) :: displs(2)
#ifdef MPIX
    external :: mpix_neighbor_alltoallw_init

    call mpix_neighbor_alltoallw_init(from, counts, displs, types, to, counts, displs, types, comm, &
                                      MPI_INFO_NULL, request, ierr)
#else
    external :: mpi_neighbor_alltoallw_init

    call mpi_neighbor_alltoallw_init(from, counts, displs, types, to, counts, displs, types, comm, &
                                     MPI_INFO_NULL, request, ierr)
#endif
end subroutine

subroutine take_gather(rank, gathered, comm, request)
    implicit none
    include 'mpif.h' ! the module mpi has these functions in some MPI libraries, in others it has not
    integer :: rank, gathered(2), comm, request, ierr
#ifdef MPIX
    external :: mpix_neighbor_allgather_init

    call mpix_neighbor_allgather_init(rank, 1, MPI_INTEGER, gathered, 1, MPI_INTEGER, comm, &
                                      MPI_INFO_NULL, request, ierr)
#else
    external :: mpi_neighbor_allgather_init

    call mpi_neighbor_allgather_init(rank, 1, MPI_INTEGER, gathered, 1, MPI_INTEGER, comm, &
                                     MPI_INFO_NULL, request, ierr)
#endif
end subroutine
