! SPDX-License-Identifier: Apache-2.0
! An active message from each task to the next: the header handler names the buffer, and the
! completion handler counts.
!
!     gfortran -o lapi_fortran lapi_fortran.f90 $(pkg-config --cflags --libs lapi_utofu)
!     utofurun -n 4 ./lapi_fortran
module state
  implicit none
  integer, parameter :: words = 1000
  integer, target :: buffer(words)
  integer :: completed = 0
end module

function hdr_hdl(hndl, uhdr, uhdr_len, msg_len, comp_h, user_info)
  use state
  implicit none
  include 'lapif.h'
  integer(kind=lapi_addr_type) :: hdr_hdl, comp_h
  integer :: hndl, uhdr(2), uhdr_len
  integer(kind=lapi_long_type) :: msg_len
  type(lapi_addr_t) :: user_info
  external compl_h

  if (uhdr_len /= 8 .or. uhdr(1) /= 4711 .or. msg_len /= 4 * words .or. hndl == 0) error stop 1
  comp_h = loc(compl_h)
  user_info%addr = loc(completed)
  hdr_hdl = loc(buffer)
end function

subroutine compl_h(hndl, user_info)
  implicit none
  integer :: hndl, user_info

  if (hndl /= 0) user_info = user_info + 1
end subroutine

program lapi_fortran
  use state
  implicit none
  include 'lapif.h'
  integer :: hndl, me, tasks, ierror, uhdr(2), i, previous
  integer, target :: out(words)
  type(lapi_info_t) :: info
  type(lapi_addr_t) :: udata
  type(lapi_cntr_t) :: org_cntr, cmpl_cntr, tgt_cntr
  integer(kind=lapi_addr_type) :: mine, counters(0:63)
  integer(kind=lapi_addr_type) :: hdr_hdl
  external hdr_hdl

  info%err_hndlr = 0
  info%reserved = 0
  call lapi_init(hndl, info, ierror)
  if (ierror /= lapi_success) error stop 2
  call lapi_qenv(hndl, task_id, me, ierror)
  call lapi_qenv(hndl, num_tasks, tasks, ierror)
  call lapi_setcntr(hndl, org_cntr, 0, ierror)
  call lapi_setcntr(hndl, cmpl_cntr, 0, ierror)
  call lapi_setcntr(hndl, tgt_cntr, 0, ierror)
  mine = loc(tgt_cntr)
  call lapi_address_init(hndl, mine, counters, ierror)

  out = [(me * 10000 + i, i = 1, words)]
  uhdr = [4711, me]
  call lapi_address(out, udata%addr, ierror)
  call lapi_amsend(hndl, modulo(me + 1, tasks), hdr_hdl, uhdr, 8, udata, &
                   int(4 * words, lapi_long_type), counters(modulo(me + 1, tasks)), org_cntr, &
                   cmpl_cntr, ierror)
  if (ierror /= lapi_success) error stop 3
  call lapi_waitcntr(hndl, org_cntr, 1, i, ierror)
  call lapi_waitcntr(hndl, cmpl_cntr, 1, i, ierror)
  call lapi_waitcntr(hndl, tgt_cntr, 1, i, ierror)
  previous = modulo(me - 1, tasks)
  if (completed /= 1 .or. any(buffer /= [(previous * 10000 + i, i = 1, words)])) error stop 4

  ! a task that there is not; no data and no counters
  call lapi_amsend(hndl, tasks, hdr_hdl, lapi_uhdr_null, 0, lapi_addr_null, &
                   0_lapi_long_type, 0_lapi_addr_type, lapi_cntr_null, lapi_cntr_null, ierror)
  if (ierror /= lapi_err_tgt) error stop 5
  call lapi_gfence(hndl, ierror)
  call lapi_term(hndl, ierror)
  if (ierror /= lapi_success) error stop 6
  if (me == 0) print '(a, i0, a)', 'lapi_fortran: ', tasks, ' tasks'
end program
