! SPDX-License-Identifier: Apache-2.0
! How the examples in Fortran exchange addresses: the functions of meet.c, which meet.h describes.
module meeting
  use, intrinsic :: iso_c_binding
  use utofu
  implicit none
  integer, parameter :: max_processes = 64

  interface
    function my_rank() bind(c)
      import :: c_int
      integer(c_int) :: my_rank
    end function

    function num_processes() bind(c)
      import :: c_int
      integer(c_int) :: num_processes
    end function

    subroutine need_processes(least, most) bind(c)
      import :: c_int
      integer(c_int), value :: least, most
    end subroutine

    function open_vcq() bind(c)
      import :: utofu_vcq_hdl_kind
      integer(utofu_vcq_hdl_kind) :: open_vcq
    end function

    subroutine meet(vcq, ids) bind(c)
      import :: utofu_vcq_hdl_kind, utofu_vcq_id_kind, max_processes
      integer(utofu_vcq_hdl_kind), value :: vcq
      integer(utofu_vcq_id_kind), intent(inout) :: ids(max_processes) ! of rank 0, 1...
    end subroutine

    subroutine share_rows(vcq, table, row_size) bind(c)
      import :: c_ptr, c_size_t, utofu_vcq_hdl_kind
      integer(utofu_vcq_hdl_kind), value :: vcq
      type(c_ptr), value :: table
      integer(c_size_t), value :: row_size
    end subroutine

    subroutine close_vcq(vcq) bind(c)
      import :: utofu_vcq_hdl_kind
      integer(utofu_vcq_hdl_kind), value :: vcq
    end subroutine

    function aligned_memory(size) bind(c)
      import :: c_ptr, c_size_t
      integer(c_size_t), value :: size
      type(c_ptr) :: aligned_memory
    end function

    subroutine free_memory(memory) bind(c, name='free')
      import :: c_ptr
      type(c_ptr), value :: memory ! from aligned_memory
    end subroutine

    subroutine wait_a_moment() bind(c)
    end subroutine

    function wait_notice(vcq) bind(c)
      import :: utofu_mrq_notice, utofu_vcq_hdl_kind
      integer(utofu_vcq_hdl_kind), value :: vcq
      type(utofu_mrq_notice) :: wait_notice
    end function
  end interface

contains

  ! Ends the program unless the call succeeded: call check(utofu_free_vcq(vcq), 'utofu_free_vcq')
  subroutine check(rc, what)
    integer(c_int), intent(in) :: rc
    character(len=*), intent(in) :: what
    character(len=1024) :: text

    if (rc == UTOFU_SUCCESS) return
    call utofu_get_last_error(text) ! the name and number of the code, and the reason
    print '(a, i0, 4a)', 'rank ', my_rank(), ': ', what, ': ', trim(text)
    error stop 1
  end subroutine
end module
