! SPDX-License-Identifier: Apache-2.0
subroutine put_words(vcq, peer, lcl, rmt, number) bind(c, name="put_words")
  use, intrinsic :: iso_c_binding
  use utofu
  implicit none
  integer(utofu_vcq_hdl_kind), value :: vcq
  integer(utofu_vcq_id_kind), value :: peer
  integer(utofu_stadd_kind), value :: lcl, rmt
  integer(c_long), value :: number
  integer(c_long) :: i
  integer(c_int) :: rc
  type(c_ptr) :: cbdata

  interface
    subroutine end_with_error(rc) bind(c, name="end_with_error")
      import :: c_int
      integer(c_int), value :: rc
    end subroutine
  end interface

  do i = 1, number
    rc = utofu_put(vcq, peer, lcl, rmt, 8_c_size_t, 0_c_int64_t, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, c_null_ptr)
    if (rc /= UTOFU_SUCCESS) call end_with_error(rc)
    do
      rc = utofu_poll_tcq(vcq, 0_utofu_flags_kind, cbdata)
      if (rc == UTOFU_SUCCESS) exit
      if (rc /= UTOFU_ERR_NOT_FOUND) call end_with_error(rc)
    end do
  end do
end subroutine
