! SPDX-License-Identifier: Apache-2.0
! A field is cut into pieces, one for each process, in a ring. In every step each process puts its
! first and its last column into a neighbour's halo, and adds to each number those beside it. Fortran's
! columns are contiguous: a put each. A neighbour may be one step ahead, never two: so there are two
! fields, which take turns.
!
!     gfortran -o halo_fortran $(pkg-config --variable=fortran utofu) meeting.f90 halo_fortran.f90 meet.c $(pkg-config --cflags --libs utofu)
!     utofurun -n 4 ./halo_fortran
!     mpirun -n 4 ./halo_fortran
program halo_fortran
  use, intrinsic :: iso_c_binding
  use utofu
  use meeting
  implicit none
  integer, parameter :: rows = 64, columns = 16, steps = 50
  integer(c_int), parameter :: stag = 0
  integer(utofu_flags_kind), parameter :: no_flags = 0
  integer(utofu_flags_kind), parameter :: both = ior(UTOFU_ONESIDED_FLAG_TCQ_NOTICE, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE)
  integer(c_size_t), parameter :: column = 8 * rows, field_size = column * (columns + 2)
  integer(utofu_vcq_hdl_kind) :: vcq
  integer(utofu_vcq_id_kind) :: ids(max_processes), left, right
  integer(utofu_stadd_kind) :: mine, at_left, at_right
  type(c_ptr) :: memory
  ! row, column with a halo of one on either side, field
  integer(c_int64_t), pointer :: field(:, :, :)
  type(utofu_mrq_notice) :: notice
  integer :: came(0:1), sent, step, turn, n, me, i

  vcq = open_vcq()
  n = num_processes()
  me = my_rank()
  memory = aligned_memory(2 * field_size)
  call c_f_pointer(memory, field, [rows, columns + 2, 2])
  call check(utofu_reg_mem_with_stag(vcq, memory, 2 * field_size, stag, no_flags, mine), &
      'utofu_reg_mem_with_stag')
  do i = 1, columns
    field(:, i + 1, 1) = first_value(me * columns + i)
  end do
  call meet(vcq, ids) ! all have registered their memory
  left = ids(1 + modulo(me - 1, n))
  right = ids(1 + modulo(me + 1, n))
  call check(utofu_query_stadd(left, stag, at_left), 'utofu_query_stadd')
  call check(utofu_query_stadd(right, stag, at_right), 'utofu_query_stadd')

  came = 0
  sent = 0
  do step = 0, steps - 1
    turn = modulo(step, 2)
    call put_column(left, at_left, 1, columns + 1) ! it is the right halo of the left neighbour
    call put_column(right, at_right, columns, 0)
    do while (came(turn) < 2) ! wait_notice also gives notices that came while meet waited
      notice = wait_notice(vcq)
      came(notice%edata) = came(notice%edata) + 1
    end do
    do while (sent < 2)
      call take_entry()
    end do
    came(turn) = 0
    sent = 0
    do i = 2, columns + 1
      field(:, i, 2 - turn) = modulo(field(:, i - 1, 1 + turn) + field(:, i, 1 + turn) + field(:, i + 1, 1 + turn), 10007_c_int64_t)
    end do
  end do

  do i = 1, columns
    if (any(field(:, i + 1, 1 + modulo(steps, 2)) /= expected(me * columns + i))) error stop 'a wrong number'
  end do
  print '(a, i0, a, i0, a)', 'rank ', me, ': ', steps, ' steps are right'
  call meet(vcq, ids) ! nobody puts any more
  call check(utofu_dereg_mem(vcq, mine, no_flags), 'utofu_dereg_mem')
  call close_vcq(vcq)
  call free_memory(memory)

contains

  ! Puts a column of this turn's field to a column of the other's. Columns count from the halo, 0, on.
  subroutine put_column(peer, theirs, from, to)
    integer(utofu_vcq_id_kind), intent(in) :: peer
    integer(utofu_stadd_kind), intent(in) :: theirs
    integer, intent(in) :: from, to
    integer(utofu_stadd_kind) :: start
    integer(c_int) :: rc

    start = field_size * turn
    do
      rc = utofu_put(vcq, peer, mine + start + column * from, theirs + start + column * to, column, &
          int(turn, c_int64_t), both)
      if (rc /= UTOFU_ERR_BUSY) exit
      call take_entry() ! makes room in the TOQ
    end do
    call check(rc, 'utofu_put')
  end subroutine

  subroutine take_entry()
    type(c_ptr) :: cbdata
    integer(c_int) :: rc

    rc = utofu_poll_tcq(vcq, no_flags, cbdata)
    if (rc == UTOFU_SUCCESS) sent = sent + 1
    if (rc /= UTOFU_ERR_NOT_FOUND) call check(rc, 'utofu_poll_tcq')
  end subroutine

  ! The first value of all rows in a column of the whole ring, which counts from 1 on.
  pure function first_value(i) result(values)
    integer, intent(in) :: i
    integer(c_int64_t) :: values(rows)
    integer :: row

    values = [(100_c_int64_t * i + row, row = 1, rows)]
  end function

  ! The same computation without communication, for one column.
  function expected(i) result(values)
    integer, intent(in) :: i
    integer(c_int64_t) :: values(rows)
    integer(c_int64_t), allocatable :: ring(:, :)
    integer :: j, k, total

    total = n * columns
    allocate(ring(rows, 0:total + 1))
    do j = 1, total
      ring(:, j) = first_value(j)
    end do
    do k = 1, steps
      ring(:, 0) = ring(:, total)
      ring(:, total + 1) = ring(:, 1)
      ring(:, 1:total) = modulo(ring(:, 0:total - 1) + ring(:, 1:total) + ring(:, 2:total + 1), 10007_c_int64_t)
    end do
    values = ring(:, i)
  end function
end program
