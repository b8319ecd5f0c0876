! SPDX-License-Identifier: Apache-2.0
! The main cases of the API by way of the module utofu, between two processes: utofurun -n 2
! fortran_cases. What the library does with a call is tested elsewhere; here it is that each
! interface makes the right call, and what becomes of its arguments.
module ends
  use meeting
  implicit none

  integer, parameter :: words = 512, half = 256
  integer(utofu_flags_kind), parameter :: notices = ior(ior(UTOFU_ONESIDED_FLAG_TCQ_NOTICE, &
      UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE), UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE)
  character(len=16) :: step = 'start'
  integer(utofu_vcq_hdl_kind) :: meeting_vcq

  ! A VCQ with 512 words; those behind the first 256 are written by the other process.
  type :: end_of_link
    integer(utofu_vcq_hdl_kind) :: vcq
    integer(utofu_vcq_id_kind) :: id, peer
    integer(utofu_stadd_kind) :: stadd, theirs
    integer(c_int64_t), pointer :: words(:)
  end type

contains

  ! gfortran 12 takes no function for the second argument of c_associated().
  function is_address_of(cbdata, word) result(it_is)
    type(c_ptr), intent(in) :: cbdata
    integer(c_int64_t), intent(in), target :: word
    logical :: it_is
    type(c_ptr) :: address

    address = c_loc(word)
    it_is = c_associated(cbdata, address)
  end function

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what

    if (holds) return
    print '(a, i0, 4a)', 'rank ', my_rank(), ', ', trim(step), ': ', what
    error stop 1
  end subroutine

  subroutine meet_all()
    integer(utofu_vcq_id_kind) :: ids(max_processes)

    call meet(meeting_vcq, ids)
  end subroutine

  ! Gives what the other process gives.
  function exchange(mine, number) result(theirs)
    integer, intent(in) :: number
    integer(c_int64_t), intent(in) :: mine(number)
    integer(c_int64_t) :: theirs(number)
    type(c_ptr) :: memory
    integer(c_int64_t), pointer :: table(:, :)

    memory = aligned_memory(int(8 * number * max_processes, c_size_t))
    call c_f_pointer(memory, table, [number, max_processes])
    table(:, my_rank() + 1) = mine
    call share_rows(meeting_vcq, memory, int(8 * number, c_size_t))
    theirs = table(:, 2 - my_rank())
    call free_memory(memory)
  end function

  elemental function source(rank, i)
    integer, intent(in) :: rank, i
    integer(c_int64_t) :: source

    source = (rank + 1) * 1000 + i
  end function

  subroutine open_end(self, flags)
    type(end_of_link), intent(out) :: self
    integer(utofu_flags_kind), intent(in) :: flags
    integer(c_int64_t) :: theirs(2)
    integer :: i

    allocate(self%words(words))
    self%words = 0
    self%words(:half) = source(my_rank(), [(i, i = 1, half)])
    call check(utofu_create_vcq(0_utofu_tni_id_kind, flags, self%vcq), 'utofu_create_vcq')
    call check(utofu_query_vcq_id(self%vcq, self%id), 'utofu_query_vcq_id')
    call check(utofu_reg_mem(self%vcq, c_loc(self%words), int(8 * words, c_size_t), 0_utofu_flags_kind, self%stadd), &
        'utofu_reg_mem')
    theirs = exchange([self%id, self%stadd], 2)
    self%peer = theirs(1)
    self%theirs = theirs(2)
  end subroutine

  subroutine close_end(self)
    type(end_of_link), intent(inout) :: self

    call meet_all()
    call check(utofu_dereg_mem(self%vcq, self%stadd, 0_utofu_flags_kind), 'utofu_dereg_mem')
    call check(utofu_free_vcq(self%vcq), 'utofu_free_vcq')
    deallocate(self%words)
  end subroutine

  ! The STADD of word i, here and there.
  function mine(self, i) result(stadd)
    type(end_of_link), intent(in) :: self
    integer, intent(in) :: i
    integer(utofu_stadd_kind) :: stadd

    stadd = self%stadd + 8 * (i - 1)
  end function

  function theirs(self, i) result(stadd)
    type(end_of_link), intent(in) :: self
    integer, intent(in) :: i
    integer(utofu_stadd_kind) :: stadd

    stadd = self%theirs + 8 * (i - 1)
  end function

  subroutine await_mrq(self, notice, rc)
    type(end_of_link), intent(in) :: self
    type(utofu_mrq_notice), intent(out) :: notice
    integer(c_int), intent(out) :: rc

    do
      rc = utofu_poll_mrq(self%vcq, 0_utofu_flags_kind, notice)
      if (rc /= UTOFU_ERR_NOT_FOUND) exit
      call wait_a_moment()
    end do
  end subroutine

  subroutine await_tcq(self, cbdata, rc)
    type(end_of_link), intent(in) :: self
    type(c_ptr), intent(out) :: cbdata
    integer(c_int), intent(out) :: rc

    do
      rc = utofu_poll_tcq(self%vcq, 0_utofu_flags_kind, cbdata)
      if (rc /= UTOFU_ERR_NOT_FOUND) exit
      call wait_a_moment()
    end do
  end subroutine

  ! Both ends of communication n: its notices, TCQ entry and data, in `number` words from `at` on.
  subroutine finish(self, lcl, rmt, n, at, number)
    type(end_of_link), intent(in) :: self
    integer(c_int), intent(in) :: lcl, rmt
    integer, intent(in) :: n, at, number
    type(utofu_mrq_notice) :: notice
    type(c_ptr) :: cbdata
    integer(c_int) :: rc
    integer :: came(0:5), i

    came = 0
    do while (came(lcl) == 0 .or. came(rmt) == 0)
      call await_mrq(self, notice, rc)
      call check(rc, 'utofu_poll_mrq')
      call expect(notice%vcq_id == self%peer .and. notice%edata == n, 'the notice is of this communication')
      came(notice%notice_type) = came(notice%notice_type) + 1
    end do
    call expect(sum(came) == 2, 'two notices')
    call await_tcq(self, cbdata, rc)
    call check(rc, 'utofu_poll_tcq')
    call expect(is_address_of(cbdata, self%words(n)), 'the callback data is that of the call')
    call expect(all(self%words(at:at + number - 1) == source(1 - my_rank(), [(i - half, i = at, at + number - 1)])), &
        'the data has come')
    call meet_all()
    self%words(half + 1:) = 0
    call meet_all()
  end subroutine

  subroutine put_moves_data()
    type(end_of_link) :: e
    integer(utofu_path_id_kind) :: path

    call open_end(e, 0_utofu_flags_kind)
    call check(utofu_put(e%vcq, e%peer, mine(e, 3), theirs(e, half + 3), 40_c_size_t, 1_c_int64_t, notices, &
        c_loc(e%words(1))), 'utofu_put')
    call finish(e, UTOFU_MRQ_TYPE_LCL_PUT, UTOFU_MRQ_TYPE_RMT_PUT, 1, half + 3, 5)
    call check(utofu_put_gap(e%vcq, e%peer, mine(e, 1), theirs(e, half + 1), 56_c_size_t, 2_c_int64_t, notices, &
        256_c_size_t, 3_c_size_t, c_loc(e%words(2))), 'utofu_put_gap')
    call finish(e, UTOFU_MRQ_TYPE_LCL_PUT, UTOFU_MRQ_TYPE_RMT_PUT, 2, half + 1, 7)
    call check(utofu_put_stride(e%vcq, e%peer, mine(e, 2), theirs(e, half + 2), 16_c_size_t, 80_c_size_t, 1_c_size_t, &
        3_c_int64_t, notices, c_loc(e%words(3))), 'utofu_put_stride')
    call finish(e, UTOFU_MRQ_TYPE_LCL_PUT, UTOFU_MRQ_TYPE_RMT_PUT, 3, half + 2, 2)
    call check(utofu_put_stride_gap(e%vcq, e%peer, mine(e, 2), theirs(e, half + 2), 16_c_size_t, 80_c_size_t, &
        1_c_size_t, 4_c_int64_t, notices, 0_c_size_t, 1_c_size_t, c_loc(e%words(4))), 'utofu_put_stride_gap')
    call finish(e, UTOFU_MRQ_TYPE_LCL_PUT, UTOFU_MRQ_TYPE_RMT_PUT, 4, half + 2, 2)
    call check(utofu_put_piggyback(e%vcq, e%peer, c_loc(e%words(10)), theirs(e, half + 10), 24_c_size_t, 5_c_int64_t, &
        notices, c_loc(e%words(5))), 'utofu_put_piggyback')
    call finish(e, UTOFU_MRQ_TYPE_LCL_PUT, UTOFU_MRQ_TYPE_RMT_PUT, 5, half + 10, 3)
    call check(utofu_put_piggyback8(e%vcq, e%peer, e%words(200), theirs(e, half + 200), 8_c_size_t, 6_c_int64_t, &
        notices, c_loc(e%words(6))), 'utofu_put_piggyback8')
    call finish(e, UTOFU_MRQ_TYPE_LCL_PUT, UTOFU_MRQ_TYPE_RMT_PUT, 6, half + 200, 1)
    call check(utofu_get_path_id(e%peer, path_id=path), 'utofu_get_path_id')
    call check(utofu_put(e%vcq, e%peer, mine(e, 1), theirs(e, half + 1), 8_c_size_t, 7_c_int64_t, &
        ior(notices, utofu_onesided_flag_path(path)), cbdata=c_loc(e%words(7))), 'utofu_put')
    call finish(e, UTOFU_MRQ_TYPE_LCL_PUT, UTOFU_MRQ_TYPE_RMT_PUT, 7, half + 1, 1)
    call close_end(e)
  end subroutine

  subroutine get_brings_data()
    type(end_of_link) :: e

    call open_end(e, 0_utofu_flags_kind)
    call check(utofu_get(e%vcq, e%peer, mine(e, half + 3), theirs(e, 3), 40_c_size_t, 1_c_int64_t, notices, &
        c_loc(e%words(1))), 'utofu_get')
    call finish(e, UTOFU_MRQ_TYPE_LCL_GET, UTOFU_MRQ_TYPE_RMT_GET, 1, half + 3, 5)
    call check(utofu_get_gap(e%vcq, e%peer, mine(e, half + 1), theirs(e, 1), 56_c_size_t, 2_c_int64_t, notices, &
        0_c_size_t, 0_c_size_t, c_loc(e%words(2))), 'utofu_get_gap')
    call finish(e, UTOFU_MRQ_TYPE_LCL_GET, UTOFU_MRQ_TYPE_RMT_GET, 2, half + 1, 7)
    call check(utofu_get_stride(e%vcq, e%peer, mine(e, half + 2), theirs(e, 2), 16_c_size_t, 80_c_size_t, 1_c_size_t, &
        3_c_int64_t, notices, c_loc(e%words(3))), 'utofu_get_stride')
    call finish(e, UTOFU_MRQ_TYPE_LCL_GET, UTOFU_MRQ_TYPE_RMT_GET, 3, half + 2, 2)
    call check(utofu_get_stride_gap(e%vcq, e%peer, mine(e, half + 2), theirs(e, 2), 16_c_size_t, 80_c_size_t, &
        1_c_size_t, 4_c_int64_t, notices, 0_c_size_t, 0_c_size_t, c_loc(e%words(4))), 'utofu_get_stride_gap')
    call finish(e, UTOFU_MRQ_TYPE_LCL_GET, UTOFU_MRQ_TYPE_RMT_GET, 4, half + 2, 2)
    call close_end(e)
  end subroutine

  ! The word was `before`, which the notice of the change tells.
  subroutine expect_word(e, before)
    type(end_of_link), intent(in) :: e
    integer(c_int64_t), intent(in) :: before
    type(utofu_mrq_notice) :: notice
    integer(c_int) :: rc

    call await_mrq(e, notice, rc)
    call check(rc, 'utofu_poll_mrq')
    call expect(notice%notice_type == UTOFU_MRQ_TYPE_LCL_ARMW .and. notice%rmt_value == before, 'the word before')
  end subroutine

  subroutine armw_changes_words()
    type(end_of_link) :: e
    integer(utofu_stadd_kind) :: four, eight
    integer(utofu_flags_kind), parameter :: lcl = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE
    integer(c_int64_t), parameter :: no_edata = 0

    call open_end(e, 0_utofu_flags_kind)
    four = theirs(e, 300)
    eight = theirs(e, 301)
    call check(utofu_armw4(e%vcq, e%peer, UTOFU_ARMW_OP_ADD, -7_c_int32_t, four, no_edata, lcl), 'utofu_armw4')
    call expect_word(e, 0_c_int64_t)
    call check(utofu_armw4(e%vcq, e%peer, UTOFU_ARMW_OP_SWAP, 5_c_int32_t, four, no_edata, lcl), 'utofu_armw4')
    call expect_word(e, int(z'fffffff9', c_int64_t)) ! zero-extended
    call check(utofu_cswap4(e%vcq, e%peer, 5_c_int32_t, -1_c_int32_t, four, no_edata, lcl), 'utofu_cswap4')
    call expect_word(e, 5_c_int64_t)
    call check(utofu_armw8(e%vcq, e%peer, UTOFU_ARMW_OP_OR, 12_c_int64_t, eight, no_edata, lcl), 'utofu_armw8')
    call expect_word(e, 0_c_int64_t)
    call check(utofu_armw8(e%vcq, e%peer, UTOFU_ARMW_OP_XOR, 5_c_int64_t, eight, no_edata, lcl), 'utofu_armw8')
    call expect_word(e, 12_c_int64_t)
    call check(utofu_armw8(e%vcq, e%peer, UTOFU_ARMW_OP_AND, 3_c_int64_t, eight, no_edata, lcl), 'utofu_armw8')
    call expect_word(e, 9_c_int64_t)
    call check(utofu_cswap8(e%vcq, e%peer, 1_c_int64_t, -3_c_int64_t, eight, no_edata, lcl, c_null_ptr), 'utofu_cswap8')
    call expect_word(e, 1_c_int64_t)
    call meet_all()
    call expect(e%words(300) == int(z'ffffffff', c_int64_t) .and. e%words(301) == -3, 'the words after')
    call close_end(e)
  end subroutine

  subroutine prepared_descriptors_are_posted()
    type(end_of_link) :: e
    integer(c_int64_t), target :: room(16 * 8)
    integer(c_size_t) :: size, bytes
    integer(utofu_flags_kind), parameter :: none = 0
    integer(c_int64_t), parameter :: no_edata = 0
    integer(c_size_t), parameter :: zero = 0, eight = 8, two = 2, row = 24
    integer, parameter :: moved(*) = [1, 2, 3, 6, 9, 12, 15, 16, 17, 18, 21, 23, 26]
    integer(c_int64_t) :: came
    type(utofu_mrq_notice) :: notice
    integer(c_int) :: rc
    integer :: i

    call open_end(e, none)
    size = 0
    call check(utofu_prepare_put(e%vcq, e%peer, mine(e, 1), theirs(e, half + 1), eight, no_edata, none, next(), bytes), 'a')
    size = size + bytes
    call check(utofu_prepare_put_gap(e%vcq, e%peer, mine(e, 2), theirs(e, half + 2), eight, no_edata, none, zero, two, &
        next(), bytes), 'b')
    size = size + bytes
    call check(utofu_prepare_put_stride(e%vcq, e%peer, mine(e, 3), theirs(e, half + 3), eight, row, two, no_edata, none, &
        next(), bytes), 'c')
    size = size + bytes
    call check(utofu_prepare_put_stride_gap(e%vcq, e%peer, mine(e, 9), theirs(e, half + 9), eight, row, two, no_edata, &
        none, zero, zero, next(), bytes), 'd')
    size = size + bytes
    call check(utofu_prepare_put_piggyback(e%vcq, e%peer, c_loc(e%words(15)), theirs(e, half + 15), eight, no_edata, none, &
        next(), bytes), 'e')
    size = size + bytes
    call check(utofu_prepare_get(e%vcq, e%peer, mine(e, half + 16), theirs(e, 16), eight, no_edata, none, next(), bytes), 'f')
    size = size + bytes
    call check(utofu_prepare_get_gap(e%vcq, e%peer, mine(e, half + 17), theirs(e, 17), eight, no_edata, none, zero, zero, &
        next(), bytes), 'g')
    size = size + bytes
    call check(utofu_prepare_get_stride_gap(e%vcq, e%peer, mine(e, half + 18), theirs(e, 18), eight, row, two, no_edata, &
        none, zero, zero, next(), bytes), 'h')
    size = size + bytes
    call check(utofu_prepare_get_stride(e%vcq, e%peer, mine(e, half + 23), theirs(e, 23), eight, row, two, 3_c_int64_t, &
        UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, next(), bytes), 'i')
    size = size + bytes
    call check(utofu_prepare_armw4(e%vcq, e%peer, UTOFU_ARMW_OP_ADD, 2_c_int32_t, theirs(e, 500), no_edata, none, next(), &
        bytes), 'j')
    size = size + bytes
    call check(utofu_post_toq(e%vcq, c_loc(room), size), 'utofu_post_toq')
    size = 0
    call check(utofu_prepare_armw8(e%vcq, e%peer, UTOFU_ARMW_OP_ADD, 3_c_int64_t, theirs(e, 501), no_edata, none, next(), &
        bytes), 'k')
    size = size + bytes
    call check(utofu_prepare_cswap4(e%vcq, e%peer, 2_c_int32_t, 20_c_int32_t, theirs(e, 500), no_edata, none, next(), &
        bytes), 'l')
    size = size + bytes
    call check(utofu_prepare_cswap8(e%vcq, e%peer, 3_c_int64_t, 30_c_int64_t, theirs(e, 501), no_edata, none, next(), &
        bytes), 'm')
    size = size + bytes
    call check(utofu_prepare_nop(e%vcq, none, next(), bytes), 'n')
    size = size + bytes
    call check(utofu_prepare_put_piggyback8(e%vcq, e%peer, 77_c_int64_t, theirs(e, 502), eight, 3_c_int64_t, &
        ior(ior(UTOFU_ONESIDED_FLAG_STRONG_ORDER, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE), &
        UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE), next(), bytes), 'o')
    size = size + bytes
    call check(utofu_post_toq(e%vcq, c_loc(room), size, c_null_ptr), 'utofu_post_toq')
    do i = 1, 4 ! two blocks that were got, and both notices of the last put
      call await_mrq(e, notice, rc)
      call check(rc, 'utofu_poll_mrq')
      call expect(notice%edata == 3, 'a notice that was asked for')
    end do
    call meet_all()
    do i = 1, 26
      came = source(1 - my_rank(), i)
      if (all(i /= moved)) came = 0
      call expect(e%words(half + i) == came, 'the words that were moved, and no others')
    end do
    call expect(e%words(500) == 20 .and. e%words(501) == 30 .and. e%words(502) == 77, 'the last words')
    call close_end(e)
  contains
    function next() result(at)
      type(c_ptr) :: at

      at = c_loc(room(1 + size / 8))
    end function
  end subroutine

  subroutine session_starts_what_waits()
    type(end_of_link) :: waiting, other
    type(utofu_mrq_notice) :: notice
    type(c_ptr) :: cbdata
    integer(c_int) :: rc

    call open_end(waiting, UTOFU_VCQ_FLAG_SESSION_MODE)
    call open_end(other, 0_utofu_flags_kind)
    call check(utofu_put(waiting%vcq, waiting%peer, mine(waiting, 5), theirs(waiting, half + 5), 8_c_size_t, 8_c_int64_t, &
        ior(UTOFU_ONESIDED_FLAG_TCQ_NOTICE, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE)), 'utofu_put')
    call meet_all()
    cbdata = c_loc(waiting%words)
    rc = utofu_poll_tcq(waiting%vcq, 0_utofu_flags_kind, cbdata)
    call expect(rc == UTOFU_ERR_NOT_FOUND .and. is_address_of(cbdata, waiting%words(1)), 'nothing has started')
    call expect(utofu_poll_mrq(waiting%vcq, 0_utofu_flags_kind, notice) == UTOFU_ERR_NOT_FOUND, 'nothing has come')
    call meet_all()
    call check(utofu_put(other%vcq, waiting%peer, mine(other, 1), theirs(waiting, 400), 8_c_size_t, 0_c_int64_t, &
        utofu_onesided_flag_sps(1_c_int)), 'utofu_put')
    call await_mrq(waiting, notice, rc)
    call check(rc, 'utofu_poll_mrq')
    call expect(notice%notice_type == UTOFU_MRQ_TYPE_RMT_PUT .and. notice%edata == 8, 'the put that waited')
    call expect(waiting%words(half + 5) == source(1 - my_rank(), 5), 'its data')
    call await_tcq(waiting, cbdata, rc)
    call check(rc, 'utofu_poll_tcq')
    call close_end(other)
    call close_end(waiting)
  end subroutine

  subroutine barriers_complete()
    integer(utofu_tni_id_kind), allocatable :: tnis(:)
    integer(utofu_vbg_id_kind) :: gate(1), other(1)
    type(utofu_vbg_setting) :: setting(1)
    integer(c_int64_t) :: pair(2), greatest(2)
    real(c_double) :: total(1)
    integer(c_int8_t) :: coords(6), my_coords(6)
    integer(utofu_tni_id_kind) :: tni
    integer(utofu_bg_id_kind) :: bg
    integer(c_int16_t) :: extra
    integer(c_int) :: rc
    integer(utofu_flags_kind), parameter :: none = 0
    integer :: round

    call check(utofu_get_barrier_tnis(tnis), 'utofu_get_barrier_tnis')
    call check(utofu_alloc_vbg(tnis(1), 1_c_size_t, none, gate), 'utofu_alloc_vbg')
    other = exchange(gate, 1)
    setting%vbg_id = gate
    setting%src_lcl_vbg_id = gate
    setting%dst_lcl_vbg_id = gate
    setting%src_rmt_vbg_id = other
    setting%dst_rmt_vbg_id = other
    setting(1)%dst_path_coords = [UTOFU_PATH_COORD_NULL, 0_c_int8_t, 0_c_int8_t]
    call check(utofu_set_vbg(setting, 1_c_size_t), 'utofu_set_vbg')
    call meet_all()
    do round = 1, 3
      call check(utofu_barrier(gate(1), none), 'utofu_barrier')
      do
        rc = utofu_poll_barrier(gate(1), none)
        if (rc /= UTOFU_ERR_NOT_COMPLETED) exit
        call wait_a_moment()
      end do
      call check(rc, 'utofu_poll_barrier')
      pair = [10 + my_rank(), my_rank()]
      call check(utofu_reduce_uint64(gate(1), UTOFU_REDUCE_OP_MAXLOC, pair, 2_c_size_t, none), 'utofu_reduce_uint64')
      do
        rc = utofu_poll_reduce_uint64(gate(1), none, greatest)
        if (rc /= UTOFU_ERR_NOT_COMPLETED) exit
        call wait_a_moment()
      end do
      call check(rc, 'utofu_poll_reduce_uint64')
      call expect(all(greatest == [11, 1]), 'the greatest value and its place')
      call check(utofu_reduce_double(gate(1), UTOFU_REDUCE_OP_BFPSUM, [1.5_c_double + my_rank()], 1_c_size_t, none), &
          'utofu_reduce_double')
      do
        rc = utofu_poll_reduce_double(gate(1), none, total)
        if (rc /= UTOFU_ERR_NOT_COMPLETED) exit
        call wait_a_moment()
      end do
      call check(rc, 'utofu_poll_reduce_double')
      call expect(abs(total(1) - 4) < 1e-9, 'the sum')
    end do
    call check(utofu_query_vbg_info(gate(1), coords, tni, bg, extra), 'utofu_query_vbg_info')
    call check(utofu_query_my_coords(my_coords), 'utofu_query_my_coords')
    call expect(all(coords == my_coords) .and. tni == tnis(1), 'the place of the gate')
    call meet_all()
    call check(utofu_free_vbg(gate, 1_c_size_t), 'utofu_free_vbg')
    call expect(utofu_barrier(gate(1), none) == UTOFU_ERR_INVALID_VBG_ID, 'the gate is freed')
    call meet_all()
  end subroutine

  subroutine errors_have_codes_and_texts()
    type(end_of_link) :: e
    integer(utofu_vcq_hdl_kind) :: vcq
    type(utofu_mrq_notice) :: notice
    type(c_ptr) :: cbdata
    character(len=1024) :: text
    character(len=10) :: start
    integer(c_int) :: rc
    integer(utofu_flags_kind), parameter :: none = 0

    call open_end(e, none)
    vcq = 4711
    call expect(utofu_create_vcq(77_utofu_tni_id_kind, none, vcq) == UTOFU_ERR_INVALID_TNI_ID, 'there is no TNI 77')
    call expect(vcq == 4711, 'a call that fails leaves its results alone')
    call utofu_get_last_error(text)
    call expect(index(text, 'UTOFU_ERR_INVALID_TNI_ID (-517): TNI 77') == 1, 'the text of the error')
    call expect(index(text, c_null_char) == 0 .and. text(1000:) == '', 'blanks follow')
    call utofu_get_last_error(start)
    call expect(start == 'UTOFU_ERR_', 'a short text is the beginning')
    call check(utofu_put(e%vcq, e%peer, mine(e, 1), theirs(e, words), 16_c_size_t, 44_c_int64_t, none), 'utofu_put')
    call await_mrq(e, notice, rc)
    call expect(rc == UTOFU_ERR_MRQ_RMT_LENGTH .and. notice%edata == 44, 'the put runs out of the memory')
    call utofu_get_last_error(text)
    call expect(index(text, 'put of 16 bytes') > 0, 'the text says what failed')
    call check(utofu_put(e%vcq, e%peer, 0_utofu_stadd_kind, theirs(e, 1), 8_c_size_t, 0_c_int64_t, none, &
        c_loc(e%words(9))), 'utofu_put')
    call await_tcq(e, cbdata, rc)
    call expect(rc == UTOFU_ERR_TCQ_STADD .and. is_address_of(cbdata, e%words(9)), 'its source is no memory')
    call close_end(e)
  end subroutine

  subroutine ids_and_queries_are_those_of_c()
    integer(utofu_vcq_hdl_kind) :: vcq
    integer(utofu_vcq_id_kind) :: id, again
    integer(c_int8_t) :: coords(6), path(3)
    integer(utofu_tni_id_kind) :: tni
    integer(utofu_tni_id_kind), allocatable :: tnis(:)
    integer(utofu_cq_id_kind) :: cq
    integer(utofu_path_id_kind) :: path_id
    integer(c_int16_t) :: extra
    integer(c_size_t) :: number
    integer(c_int) :: major, minor, also, rank
    integer(c_int32_t) :: node
    integer(utofu_stadd_kind) :: stadd, calculated
    integer(utofu_flags_kind), parameter :: none = 0
    type(utofu_onesided_caps), pointer :: caps
    type(utofu_barrier_caps), pointer :: barrier_caps
    type(utofu_job) :: job
    type(c_ptr) :: list, memory
    character(len=70) :: name
    integer(utofu_tni_id_kind), pointer :: c_tnis(:)

    call check(utofu_create_vcq_with_cmp_id(2_utofu_tni_id_kind, 5_utofu_cmp_id_kind, none, vcq), 'with_cmp_id')
    call check(utofu_query_vcq_id(vcq, id), 'utofu_query_vcq_id')
    call check(utofu_query_vcq_info(id, coords, tni, cq, extra), 'utofu_query_vcq_info')
    call check(utofu_construct_vcq_id(coords, tni, cq, 5_utofu_cmp_id_kind, again), 'utofu_construct_vcq_id')
    call expect(id == again .and. tni == 2, 'the id follows from the place')
    call check(utofu_set_vcq_id_path(again, [1_c_int8_t, 0_c_int8_t, 1_c_int8_t]), 'utofu_set_vcq_id_path')
    call expect(id /= again, 'another path')
    call check(utofu_set_vcq_id_path(again, coords(4:6)), 'utofu_set_vcq_id_path')
    call expect(id == again, 'and its own one')
    call check(utofu_set_vcq_id_path(again), 'utofu_set_vcq_id_path')
    call check(utofu_get_path_id(id, [1_c_int8_t, 0_c_int8_t, 1_c_int8_t], path_id), 'utofu_get_path_id')
    call check(utofu_get_path_coords(id, path_id, path), 'utofu_get_path_coords')
    call expect(all(path == [1, 0, 1]), 'the path of the path id')
    call check(utofu_get_onesided_tnis(tnis), 'utofu_get_onesided_tnis')
    call check(utofu_get_onesided_tnis(list, number), 'utofu_get_onesided_tnis')
    call c_f_pointer(list, c_tnis, [number])
    call expect(size(tnis) == number .and. all(tnis == c_tnis), 'both forms of the list')
    call free_memory(list)
    call check(utofu_query_onesided_caps(tnis(1), caps), 'utofu_query_onesided_caps')
    call expect(iand(caps%armw_ops, UTOFU_ONESIDED_CAP_ARMW_OP_XOR) /= 0 .and. caps%max_toq_desc_size == 64, 'the caps')
    call expect(utofu_query_onesided_caps(77_utofu_tni_id_kind, caps) == UTOFU_ERR_INVALID_TNI_ID, 'no TNI 77')
    call expect(.not. associated(caps), 'no caps')
    call check(utofu_query_barrier_caps(tnis(1), barrier_caps), 'utofu_query_barrier_caps')
    call expect(iand(barrier_caps%reduce_ops, UTOFU_BARRIER_CAP_REDUCE_OP_SUM) /= 0, 'the caps of barriers')
    memory = aligned_memory(4096_c_size_t)
    call check(utofu_reg_mem_with_stag(vcq, memory, 4096_c_size_t, 7_c_int, UTOFU_REG_MEM_FLAG_READ_ONLY, stadd), 'stag')
    call check(utofu_query_stadd(id, 7_c_int, calculated), 'utofu_query_stadd')
    call expect(stadd == calculated, 'the STADD follows from the STag')
    call check(utofu_dereg_mem(vcq, stadd, none), 'utofu_dereg_mem')
    call free_memory(memory)
    call utofu_query_utofu_version(major, minor)
    call expect(major == UTOFU_VERSION_MAJOR .and. minor == UTOFU_VERSION_MINOR, 'the version')
    call utofu_query_tofu_version(major_ver=also)
    call expect(also == 3, 'the version of Tofu')
    call check(utofu_nop(vcq, none), 'utofu_nop')
    call check(utofu_query_num_unread_mrq(vcq, number), 'utofu_query_num_unread_mrq')
    call check(utofu_query_num_unread_tcq(vcq, number), 'utofu_query_num_unread_tcq')
    call check(utofu_query_job(job), 'utofu_query_job')
    rank = my_rank()
    call expect(job%size == 2 .and. job%rank == rank, 'the job')
    call check(utofu_compat_job(job), 'utofu_compat_job')
    call check(utofu_query_rank_node(job%rank, node, coords), 'utofu_query_rank_node')
    call check(utofu_compat_rank_node(job%rank, node, coords), 'utofu_compat_rank_node')
    name = repeat('n', UTOFU_PROFILE_NAME_MAX) ! and blanks, which are no part of it
    call check(utofu_profile_start(name), 'utofu_profile_start')
    call check(utofu_profile_stop(name), 'utofu_profile_stop')
    call expect(utofu_profile_start(repeat('n', 64)) == UTOFU_ERR_INVALID_ARG, 'the name of a region is too long')
    call expect(utofu_profile_stop('') == UTOFU_ERR_INVALID_ARG, 'a region has a name')
    call check(utofu_profile_seen(0_utofu_stadd_kind, 8_c_size_t), 'utofu_profile_seen')
    call expect(utofu_profile_seen(0_utofu_stadd_kind, 0_c_size_t) == UTOFU_ERR_INVALID_SIZE, 'nothing seen')
    call expect(utofu_wait_vcqs([vcq], 1_c_size_t, 0_c_int64_t) == UTOFU_ERR_NOT_FOUND, 'nothing to poll')
    call check(utofu_wake_vcq(vcq), 'utofu_wake_vcq')
    call check(utofu_wait_vcqs([vcq], 1_c_size_t, -1_c_int64_t), 'utofu_wait_vcqs')
    call check(utofu_free_vcq(vcq), 'utofu_free_vcq')
    call expect(c_sizeof(job) == 28, 'the size of a structure')
  end subroutine
end module

program cases
  use ends
  implicit none

  call need_processes(2, 2)
  meeting_vcq = open_vcq()
  step = 'put'
  call put_moves_data()
  step = 'get'
  call get_brings_data()
  step = 'armw'
  call armw_changes_words()
  step = 'prepared'
  call prepared_descriptors_are_posted()
  step = 'session'
  call session_starts_what_waits()
  step = 'barrier'
  call barriers_complete()
  step = 'errors'
  call errors_have_codes_and_texts()
  step = 'ids'
  call ids_and_queries_are_those_of_c()
  call close_vcq(meeting_vcq)
  print '(a, i0, a)', 'rank ', my_rank(), ': 8 cases'
end program
