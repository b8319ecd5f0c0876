! SPDX-License-Identifier: Apache-2.0
! Threads of OpenMP, each with a VCQ of its own, put at the same time; and each gets the text of its
! own error, so that nothing in the module is shared by threads. One process, alone.
module team
  use, intrinsic :: iso_c_binding
  use utofu
  implicit none
  integer, parameter :: num_threads = 4, rounds = 200, words = 64

contains

  ! The number of things that went wrong.
  recursive function work(thread) result(wrong)
    integer, intent(in) :: thread
    integer :: wrong, round
    integer(utofu_vcq_hdl_kind) :: vcq, none
    integer(utofu_vcq_id_kind) :: id
    integer(utofu_stadd_kind) :: stadd
    integer(c_int64_t), allocatable, target :: memory(:)
    character(len=1024) :: text
    character(len=40) :: start

    wrong = 0
    allocate(memory(2 * words))
    memory = 0
    call expect(utofu_create_vcq(0_utofu_tni_id_kind, UTOFU_VCQ_FLAG_THREAD_SAFE, vcq) == UTOFU_SUCCESS, 'a VCQ')
    call expect(utofu_query_vcq_id(vcq, id) == UTOFU_SUCCESS, 'its id')
    call expect(utofu_reg_mem(vcq, c_loc(memory), int(16 * words, c_size_t), 0_utofu_flags_kind, stadd) == &
        UTOFU_SUCCESS, 'memory')
    do round = 1, rounds
      memory(:words) = 1000 * thread + round
      if (wrong == 0) call put_once(round)
      call expect(all(memory(words + 1:) == 1000 * thread + round), 'the data has come')
      call expect(utofu_create_vcq(int(70 + thread, utofu_tni_id_kind), 0_utofu_flags_kind, none) == &
          UTOFU_ERR_INVALID_TNI_ID, 'there is no such TNI')
      call utofu_get_last_error(text)
      write (start, '(a, i0, a)') 'UTOFU_ERR_INVALID_TNI_ID (-517): TNI ', 70 + thread, ':'
      call expect(index(text, trim(start)) == 1, 'the text is that of the error of this thread')
    end do
    call expect(utofu_dereg_mem(vcq, stadd, 0_utofu_flags_kind) == UTOFU_SUCCESS, 'the end of the memory')
    call expect(utofu_free_vcq(vcq) == UTOFU_SUCCESS, 'the end of the VCQ')

  contains

    subroutine put_once(round)
      integer, intent(in) :: round
      type(utofu_mrq_notice) :: notice
      integer(c_int) :: rc

      do
        rc = utofu_put(vcq, id, stadd, stadd + 8 * words, int(8 * words, c_size_t), int(modulo(round, 256), c_int64_t), &
            UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        if (rc /= UTOFU_ERR_BUSY) exit
        rc = utofu_poll_mrq(vcq, 0_utofu_flags_kind, notice)
      end do
      call expect(rc == UTOFU_SUCCESS, 'a put')
      if (rc /= UTOFU_SUCCESS) return
      do
        rc = utofu_poll_mrq(vcq, 0_utofu_flags_kind, notice)
        if (rc /= UTOFU_ERR_NOT_FOUND) exit
      end do
      call expect(rc == UTOFU_SUCCESS .and. notice%edata == modulo(round, 256), 'its notice')
    end subroutine

    subroutine expect(holds, what)
      logical, intent(in) :: holds
      character(len=*), intent(in) :: what

      if (holds) return
      wrong = wrong + 1
      print '(a, i0, 2a)', 'thread ', thread, ': not so: ', what
    end subroutine
  end function
end module

program threads
  use omp_lib
  use team
  implicit none
  integer :: failures, teams

  failures = 0
  teams = 0
  !$omp parallel num_threads(num_threads) default(none) reduction(+:failures) shared(teams)
  if (omp_get_thread_num() == 0) teams = omp_get_num_threads()
  failures = failures + work(omp_get_thread_num())
  !$omp end parallel
  if (teams /= num_threads) error stop 'there are not as many threads as this test needs'
  if (failures /= 0) error stop 1
  print '(i0, a)', teams, ' threads'
end program
