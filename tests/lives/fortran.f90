! SPDX-License-Identifier: Apache-2.0
! Lives of what a Fortran program has by way of the module utofu. See lives.h.
program lives_fortran
  use, intrinsic :: iso_c_binding
  use utofu
  implicit none

  interface
    subroutine lives_c_begin(name, rank) bind(c, name="lives_c_begin")
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: rank
    end subroutine
    function lives_c_next() result(more) bind(c, name="lives_c_next")
      import :: c_int
      integer(c_int) :: more
    end function
    function lives_c_end() result(flat) bind(c, name="lives_c_end")
      import :: c_int
      integer(c_int) :: flat
    end function
  end interface

  call lives_c_begin("fortran_object" // c_null_char, 0_c_int)
  do
    call live()
    if (lives_c_next() == 0) exit
  end do
  if (lives_c_end() == 0) error stop 1

contains

  subroutine check(rc)
    integer(c_int), intent(in) :: rc

    if (rc /= UTOFU_SUCCESS) error stop 2
  end subroutine

  subroutine live()
    integer(c_int64_t), pointer :: words(:)
    integer(utofu_vcq_hdl_kind) :: vcq
    integer(utofu_vcq_id_kind) :: id
    integer(utofu_stadd_kind) :: stadd
    type(c_ptr) :: cbdata
    integer(c_int) :: rc

    allocate(words(1024))
    words = 1
    call check(utofu_create_vcq(0_utofu_tni_id_kind, 0_utofu_flags_kind, vcq))
    call check(utofu_query_vcq_id(vcq, id))
    call check(utofu_reg_mem(vcq, c_loc(words), 8192_c_size_t, 0_utofu_flags_kind, stadd))
    call check(utofu_put(vcq, id, stadd, stadd + 4096, 4096_c_size_t, 0_c_int64_t, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, &
        c_null_ptr))
    do
      rc = utofu_poll_tcq(vcq, 0_utofu_flags_kind, cbdata)
      if (rc /= UTOFU_ERR_NOT_FOUND) exit
    end do
    call check(rc)
    call check(utofu_dereg_mem(vcq, stadd, 0_utofu_flags_kind))
    call check(utofu_free_vcq(vcq))
    deallocate(words)
  end subroutine

end program
