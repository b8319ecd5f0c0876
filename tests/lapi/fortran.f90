! SPDX-License-Identifier: Apache-2.0
! The Fortran binding of vectors, LAPI_XFER and LAPI_UTIL: from each task to the next.
module there
  implicit none
  integer, target :: area(100), blocks(2, 10)
  integer, target :: completed = 0
  integer(kind=8), target :: strided(3)
  type vec
    sequence
    integer(kind=4) :: vec_type, num_vecs
    integer(kind=8) :: info, len
  end type
  type(vec), target :: place ! as lapi_vec_t
end module

! The data of lapi_amsendv is strewn as the vector says.
function hdr_hdl(hndl, uhdr, uhdr_len, msg_len, comp_h, user_info)
  use there
  implicit none
  include 'lapif.h'
  integer(kind=lapi_addr_type) :: hdr_hdl, comp_h
  integer :: hndl, uhdr(2), uhdr_len
  integer(kind=lapi_long_type) :: msg_len
  type(lapi_addr_t) :: user_info

  if (hndl == 0 .or. uhdr_len /= 8 .or. uhdr(1) /= 99 .or. msg_len /= 40) error stop 1
  strided = [loc(blocks), 4_8, 8_8]
  place = vec(lapi_gen_strided_xfer, 10, loc(strided), 0_8)
  comp_h = 0
  user_info%addr = 0
  hdr_hdl = loc(place)
end function

program fortran
  use there
  implicit none
  include 'lapif.h'
  integer :: hndl, me, tasks, ierror, i, next, previous, before, one, uhdr(2)
  integer, target :: out(100), word
  integer(kind=8) :: mine, areas(0:63), counters(0:63), words(0:63)
  integer(kind=8), target :: ours(2), theirs(2), lens(2)
  type(lapi_info_t) :: info
  type(lapi_cntr_t) :: org_cntr, cmpl_cntr, tgt_cntr
  type(lapi_vec_t) :: org_vec, tgt_vec
  type(lapi_put_t) :: put
  type(lapi_rmw_t) :: rmw
  type(lapi_thread_func_t) :: funcs
  integer(kind=lapi_addr_type) :: hdr_hdl
  external hdr_hdl

  info%err_hndlr = 0
  info%reserved = 0
  call lapi_init(hndl, info, ierror)
  call check(2)
  call lapi_qenv(hndl, task_id, me, ierror)
  call lapi_qenv(hndl, num_tasks, tasks, ierror)
  next = modulo(me + 1, tasks)
  previous = modulo(me - 1, tasks)
  call lapi_setcntr(hndl, org_cntr, 0, ierror)
  call lapi_setcntr(hndl, cmpl_cntr, 0, ierror)
  call lapi_setcntr(hndl, tgt_cntr, 0, ierror)
  area = 0
  blocks = 0
  word = 5
  mine = loc(area)
  call lapi_address_init(hndl, mine, areas, ierror)
  mine = loc(tgt_cntr)
  call lapi_address_init(hndl, mine, counters, ierror)
  mine = loc(word)
  call lapi_address_init(hndl, mine, words, ierror)
  out = [(me * 1000 + i, i = 1, 100)]

  ! words 1 to 10 and 51 to 70
  lens = [40_8, 80_8]
  ours = [loc(out(1)), loc(out(51))]
  theirs = [areas(next), areas(next) + 200]
  org_vec = lapi_vec_t(lapi_gen_iovector, 2, loc(ours), loc(lens))
  tgt_vec = lapi_vec_t(lapi_gen_iovector, 2, loc(theirs), loc(lens))
  call lapi_putv(hndl, next, tgt_vec, org_vec, counters(next), org_cntr, cmpl_cntr, ierror)
  call check(3)
  call wait_for(org_cntr)
  call wait_for(cmpl_cntr)
  call wait_for(tgt_cntr)
  do i = 1, 100
    if (area(i) /= merge(previous * 1000 + i, 0, i <= 10 .or. (i > 50 .and. i <= 70))) error stop 4
  end do
  out = 0
  call lapi_gfence(hndl, ierror)
  call lapi_getv(hndl, next, tgt_vec, org_vec, counters(next), org_cntr, ierror)
  call check(5)
  call wait_for(org_cntr)
  call wait_for(tgt_cntr)
  do i = 1, 100
    if (out(i) /= merge(me * 1000 + i, 0, i <= 10 .or. (i > 50 .and. i <= 70))) error stop 6
  end do

  ! ten words, each to a block of its own
  out = [(me * 1000 + i, i = 1, 100)]
  uhdr = [99, 0]
  org_vec%num_vecs = 1
  call lapi_amsendv(hndl, next, hdr_hdl, uhdr, 8, org_vec, counters(next), org_cntr, cmpl_cntr, ierror)
  call check(7)
  call wait_for(org_cntr)
  call wait_for(cmpl_cntr)
  call wait_for(tgt_cntr)
  if (any(blocks(1, :) /= [(previous * 1000 + i, i = 1, 10)]) .or. any(blocks(2, :) /= 0)) error stop 8

  call lapi_gfence(hndl, ierror)
  put = lapi_put_t(lapi_put_xfer, 0, next, 0, areas(next), loc(out), 400_8, 0_8, 0_8, &
                   counters(next), loc(org_cntr), loc(cmpl_cntr))
  call lapi_xfer(hndl, put, ierror)
  call check(9)
  call wait_for(org_cntr)
  call wait_for(cmpl_cntr)
  call wait_for(tgt_cntr)
  if (any(area /= [(previous * 1000 + i, i = 1, 100)])) error stop 10
  one = 7
  rmw = lapi_rmw_t(lapi_rmw_xfer, fetch_and_add, next, 32, words(next), loc(one), loc(before), &
                   loc(org_cntr), 0_8, 0_8)
  call lapi_xfer(hndl, rmw, ierror)
  call check(22)
  call wait_for(org_cntr)
  call lapi_gfence(hndl, ierror)
  if (before /= 5 .or. word /= 12) error stop 11
  call lapi_getcntr(hndl, tgt_cntr, i, ierror)
  if (i /= 0) error stop 24

  ! what is wrong is said
  rmw%size = 16
  call lapi_xfer(hndl, rmw, ierror)
  if (ierror /= lapi_err_op_sz) error stop 23
  org_vec%num_vecs = 2
  lens(2) = 40
  tgt_vec%num_vecs = 1
  call lapi_putv(hndl, next, tgt_vec, org_vec, 0_8, org_cntr, cmpl_cntr, ierror)
  if (ierror /= lapi_err_vec_num_diff) error stop 12
  funcs%util_type = 77
  call lapi_util(hndl, funcs, ierror)
  if (ierror /= lapi_err_util_cmd) error stop 13
  funcs%util_type = lapi_get_thread_func
  funcs%mutex_lock = 0
  call lapi_util(hndl, funcs, ierror)
  call check(14)
  if (funcs%mutex_lock == 0 .or. funcs%mutex_getowner == 0) error stop 15
  call lapi_purge_totask(hndl, next, ierror)
  call check(16)
  call lapi_getv(hndl, next, tgt_vec, tgt_vec, 0_8, org_cntr, ierror)
  if (ierror /= lapi_err_tgt_purged) error stop 17
  call lapi_resume_totask(hndl, next, ierror)
  call check(18)
  call lapi_gfence(hndl, ierror)
  call lapi_term(hndl, ierror)
  call check(19)

contains

  subroutine check(where)
    integer, intent(in) :: where

    if (ierror == lapi_success) return
    print '(a, i0, a, i0)', 'fortran: step ', where, ': code ', ierror
    error stop 20
  end subroutine

  subroutine wait_for(cntr)
    type(lapi_cntr_t) :: cntr
    integer :: left

    call lapi_waitcntr(hndl, cntr, 1, left, ierror)
    if (ierror /= lapi_success .or. left < 0) error stop 21
  end subroutine

end program
