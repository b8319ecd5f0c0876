! SPDX-License-Identifier: Apache-2.0
! Two processes of four OpenMP threads: each thread has a VCQ of its own and puts its part of an array
! to the thread with the same number in the other process.
!
!     gfortran -fopenmp -o threads_fortran $(pkg-config --variable=fortran utofu) meeting.f90 threads_fortran.f90 meet.c $(pkg-config --cflags --libs utofu)
!     utofurun -n 2 ./threads_fortran
!     mpirun -n 2 ./threads_fortran
program threads_fortran
  use, intrinsic :: iso_c_binding
  use utofu
  use meeting
  implicit none
  integer, parameter :: threads = 4, numbers = 1000
  integer(utofu_flags_kind), parameter :: no_flags = 0
  integer(c_size_t), parameter :: bytes = 8 * numbers
  real(c_double), target :: mine(numbers, threads), theirs(numbers, threads)
  integer(utofu_vcq_hdl_kind) :: meeting_vcq, vcqs(threads)
  integer(utofu_vcq_id_kind) :: ids(max_processes), peers(threads)
  integer(utofu_stadd_kind) :: from(threads), to(threads), places(threads)
  integer :: t

  call need_processes(2, 2)
  meeting_vcq = open_vcq()
  call meet(meeting_vcq, ids)
  theirs = 0
  !$omp parallel do num_threads(threads) schedule(static, 1)
  do t = 1, threads
    mine(:, t) = 10 * my_rank() + t
    call check(utofu_create_vcq(int(t - 1, utofu_tni_id_kind), no_flags, vcqs(t)), 'utofu_create_vcq')
    call check(utofu_reg_mem(vcqs(t), c_loc(mine(1, t)), bytes, no_flags, from(t)), 'utofu_reg_mem')
    call check(utofu_reg_mem(vcqs(t), c_loc(theirs(1, t)), bytes, no_flags, to(t)), 'utofu_reg_mem')
  end do
  call tell

  !$omp parallel do num_threads(threads) schedule(static, 1)
  do t = 1, threads
    call exchange(vcqs(t), peers(t), from(t), places(t))
    if (any(abs(theirs(:, t) - (10 * (1 - my_rank()) + t)) > 0)) error stop 'data'
  end do
  print '(a, i0, a, i0, a)', 'rank ', my_rank(), ': the data of ', threads, ' threads have come'

  call meet(meeting_vcq, ids) ! nobody puts any more
  do t = 1, threads
    call check(utofu_dereg_mem(vcqs(t), from(t), no_flags), 'utofu_dereg_mem')
    call check(utofu_dereg_mem(vcqs(t), to(t), no_flags), 'utofu_dereg_mem')
    call check(utofu_free_vcq(vcqs(t)), 'utofu_free_vcq')
  end do
  call close_vcq(meeting_vcq)

contains

  ! In any thread, with its own VCQ.
  subroutine exchange(vcq, peer, source, target)
    integer(utofu_vcq_hdl_kind), intent(in) :: vcq
    integer(utofu_vcq_id_kind), intent(in) :: peer
    integer(utofu_stadd_kind), intent(in) :: source, target
    type(utofu_mrq_notice) :: notice

    call check(utofu_put(vcq, peer, source, target, bytes, 0_c_int64_t, &
        UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE), 'utofu_put')
    notice = wait_notice(vcq)
    if (notice%notice_type /= UTOFU_MRQ_TYPE_RMT_PUT .or. notice%vcq_id /= peer) error stop 'notice'
  end subroutine

  ! Gives the other process the ids and STADDs of all threads.
  subroutine tell()
    type(c_ptr) :: memory
    integer(utofu_vcq_id_kind), pointer :: rows(:, :)
    integer(c_size_t), parameter :: row_size = 8 * 2 * threads
    integer :: i

    memory = aligned_memory(row_size * max_processes)
    call c_f_pointer(memory, rows, [2 * threads, max_processes])
    do i = 1, threads
      call check(utofu_query_vcq_id(vcqs(i), rows(i, my_rank() + 1)), 'utofu_query_vcq_id')
      rows(threads + i, my_rank() + 1) = to(i)
    end do
    call share_rows(meeting_vcq, memory, row_size)
    peers = rows(1:threads, 2 - my_rank())
    places = rows(threads + 1:, 2 - my_rank())
    call free_memory(memory)
  end subroutine
end program
