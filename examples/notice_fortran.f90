! SPDX-License-Identifier: Apache-2.0
! Two processes: each puts an array into the other's memory, and waits for the remote MRQ notice of
! the other's put.
!
!     gfortran -o notice_fortran $(pkg-config --variable=fortran utofu) meeting.f90 notice_fortran.f90 meet.c $(pkg-config --cflags --libs utofu)
!     utofurun -n 2 ./notice_fortran
!     mpirun -n 2 ./notice_fortran
program notice_fortran
  use, intrinsic :: iso_c_binding
  use utofu
  use meeting
  implicit none
  integer, parameter :: numbers = 1000
  integer(utofu_flags_kind), parameter :: no_flags = 0
  integer(c_size_t), parameter :: bytes = 8 * numbers
  real(c_double), target :: mine(numbers), theirs(numbers)
  integer(utofu_vcq_hdl_kind) :: vcq
  integer(utofu_vcq_id_kind) :: ids(max_processes), peer
  integer(utofu_stadd_kind) :: from, to, place(2)
  type(utofu_mrq_notice) :: notice
  integer :: i

  call need_processes(2, 2)
  vcq = open_vcq()
  mine = [(1000.0_c_double * my_rank() + i, i = 1, numbers)]
  theirs = 0
  call check(utofu_reg_mem(vcq, c_loc(mine), bytes, UTOFU_REG_MEM_FLAG_READ_ONLY, from), 'utofu_reg_mem')
  call check(utofu_reg_mem(vcq, c_loc(theirs), bytes, no_flags, to), 'utofu_reg_mem')
  call meet(vcq, ids)
  peer = ids(2 - my_rank())
  call tell(to, place)

  call check(utofu_put(vcq, peer, from, place(2 - my_rank()), bytes, 7_c_int64_t, &
      UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE), 'utofu_put')
  notice = wait_notice(vcq) ! the other's data is there
  if (notice%notice_type /= UTOFU_MRQ_TYPE_RMT_PUT .or. notice%edata /= 7 .or. notice%vcq_id /= peer) error stop 'notice'
  if (any(abs(theirs - [(1000.0_c_double * (1 - my_rank()) + i, i = 1, numbers)]) > 0)) error stop 'data'
  print '(a, i0, a)', 'rank ', my_rank(), ': the data has come'

  call meet(vcq, ids) ! nobody puts any more
  call check(utofu_dereg_mem(vcq, from, no_flags), 'utofu_dereg_mem')
  call check(utofu_dereg_mem(vcq, to, no_flags), 'utofu_dereg_mem')
  call close_vcq(vcq)

contains

  ! Gives both processes the STADDs of both: a row for each.
  subroutine tell(stadd, stadds)
    integer(utofu_stadd_kind), intent(in) :: stadd
    integer(utofu_stadd_kind), intent(out) :: stadds(2)
    type(c_ptr) :: memory
    integer(utofu_stadd_kind), pointer :: rows(:)
    integer(c_size_t), parameter :: row_size = 8

    memory = aligned_memory(row_size * max_processes)
    call c_f_pointer(memory, rows, [max_processes])
    rows(my_rank() + 1) = stadd
    call share_rows(vcq, memory, row_size)
    stadds = rows(1:2)
    call free_memory(memory)
  end subroutine
end program
