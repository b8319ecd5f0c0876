/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main cases of the API by way of utofu.hpp, between two processes: utofurun -n 2 cxx_cases
 * [CASE]. What the library does with a call is tested elsewhere; here it is that each function of
 * the binding makes the right call, and what becomes of its result.
 */
#include <utofu.hpp>

#include "meet.h"

#include <cstdio>
#include <cstring>
#include <vector>

namespace
{

namespace flag = utofu::onesided_flag;
using utofu::NoticeType;

utofu_vcq_hdl_t meeting; /* the VCQ by which the processes meet */
const char *step = "start";

#define EXPECT(condition) expect((condition), #condition, __LINE__)

void expect(bool holds, const char *text, int line)
{
    if (holds)
        return;
    std::fprintf(stderr, "rank %d, %s, line %d: %s\n", my_rank(), step, line, text);
    std::exit(1);
}

void end_without_exception(int line)
{
    expect(false, "a call throws", line);
}

void meet_all()
{
    utofu_vcq_id_t ids[MAX_PROCESSES];

    meet(meeting, ids);
}

/* Gives what the other process gives. */
template <class T> T exchange(const T &mine)
{
    constexpr std::size_t row = (sizeof(T) + 7) / 8 * 8;
    auto *table = static_cast<char *>(aligned_memory(MAX_PROCESSES * row));
    T theirs;

    std::memcpy(table + row * static_cast<std::size_t>(my_rank()), &mine, sizeof(T));
    share_rows(meeting, table, row);
    std::memcpy(&theirs, table + row * static_cast<std::size_t>(1 - my_rank()), sizeof(T));
    std::free(table);
    return theirs;
}

template <class Call> void submit(utofu::VcqView vcq, Call call)
{
    void *cbdata;

    while (!call())
        vcq.poll_tcq(cbdata);
}

utofu::Notice await_mrq(utofu::VcqView vcq)
{
    for (;;) {
        if (std::optional<utofu::Notice> notice = vcq.poll_mrq())
            return *notice;
        wait_a_moment();
    }
}

void *await_tcq(utofu::VcqView vcq)
{
    for (;;) {
        if (std::optional<void *> cbdata = vcq.poll_tcq())
            return *cbdata;
        wait_a_moment();
    }
}

/* A call that throws, with this code. */
template <class Call> void expect_error(utofu::Code code, const char *call_name, Call call)
{
    try {
        call();
    } catch (const utofu::Error &error) {
        EXPECT(error.code() == code);
        EXPECT(std::strcmp(error.name(), utofu::name(code)) == 0);
        EXPECT(std::strncmp(error.what(), error.name(), std::strlen(error.name())) == 0);
        EXPECT(std::strcmp(error.call(), call_name) == 0);
        return;
    }
    end_without_exception(__LINE__);
}

struct Address {
    utofu::VcqId id;
    utofu::Stadd<std::uint64_t> stadd;
};

/* A VCQ with 512 words; words from 256 on are written by the other process. */
struct End {
    std::vector<std::uint64_t> words = std::vector<std::uint64_t>(512);
    utofu::Vcq vcq;
    utofu::Memory<std::uint64_t> memory;
    Address peer{};

    explicit End(utofu::VcqFlags flags = {}) : vcq(0, flags), memory(vcq, words)
    {
        for (std::size_t i = 0; i < 256; i++)
            words[i] = source(my_rank(), i);
        peer = exchange(Address{vcq.query_vcq_id(), memory.stadd()});
    }
    static std::uint64_t source(int rank, std::size_t i)
    {
        return static_cast<std::uint64_t>(rank + 1) * 1000 + i;
    }
    /* Both ends of put number n: its notices, TCQ entry and data, in `count` words from `at` on. */
    void finish(NoticeType lcl, NoticeType rmt, std::uint64_t n, std::size_t at, std::size_t count)
    {
        bool lcl_came = false, rmt_came = false;

        while (!lcl_came || !rmt_came) {
            utofu::Notice notice = await_mrq(vcq);

            EXPECT(notice.peer() == peer.id);
            EXPECT(notice.edata == n);
            (notice.type() == lcl ? lcl_came : rmt_came) = true;
            EXPECT(notice.type() == lcl || notice.type() == rmt);
            if (notice.type() == NoticeType::rmt_put)
                EXPECT(notice.rmt_stadd == (memory.stadd(at) + count).value());
        }
        EXPECT(await_tcq(vcq) == &words[n]);
        for (std::size_t i = 0; i < count; i++)
            EXPECT(words[at + i] == source(1 - my_rank(), at - 256 + i));
        std::fill(words.begin() + 256, words.end(), 0);
        meet_all();
    }
};

constexpr utofu::OnesidedFlags all =
    flag::tcq_notice | flag::local_mrq_notice | flag::remote_mrq_notice;

void put_moves_objects()
{
    End end;
    auto lcl = end.memory.stadd();
    auto rmt = end.peer.stadd + 256;
    const auto done = [&](std::uint64_t n, std::size_t at, std::size_t count) {
        end.finish(NoticeType::lcl_put, NoticeType::rmt_put, n, 256 + at, count);
    };

    submit(end.vcq,
           [&] { return end.vcq.put(end.peer.id, lcl + 3, rmt + 3, 5, 1, all, &end.words[1]); });
    done(1, 3, 5);
    submit(end.vcq, [&] {
        return end.vcq.put_gap(end.peer.id, lcl, rmt, 7, 2, all, 256, 3, &end.words[2]);
    });
    done(2, 0, 7);
    submit(end.vcq, [&] {
        return end.vcq.put_stride(end.peer.id, lcl + 1, rmt + 1, 2, 10, 1, 3, all, &end.words[3]);
    });
    done(3, 1, 2);
    submit(end.vcq, [&] {
        return end.vcq.put_stride_gap(end.peer.id, lcl + 1, rmt + 1, 2, 10, 1, 4, all, 0, 1,
                                      &end.words[4]);
    });
    done(4, 1, 2);
    submit(end.vcq, [&] {
        return end.vcq.put_piggyback(end.peer.id,
                                     utofu::Span<const std::uint64_t>(&end.words[9], 3), rmt + 9, 5,
                                     all, &end.words[5]);
    });
    done(5, 9, 3);
    submit(end.vcq, [&] {
        return end.vcq.put_piggyback8(end.peer.id, end.words[200], rmt + 200, 6, all,
                                      &end.words[6]);
    });
    done(6, 200, 1);
    /* the path is that of the id, named otherwise */
    utofu::PathId path = utofu::get_path_id(
        end.peer.id, utofu::get_path_coords(end.peer.id, utofu::get_path_id(end.peer.id)));
    submit(end.vcq, [&] {
        return end.vcq.put(end.peer.id, lcl, rmt, 1, 7, all | flag::path(path) | flag::strong_order,
                           &end.words[7]);
    });
    done(7, 0, 1);
}

void strides_are_in_objects()
{
    End end;
    int left = 4;

    submit(end.vcq, [&] {
        return end.vcq.put_stride(end.peer.id, end.memory.stadd(), end.peer.stadd + 256, 1, 20, 4,
                                  0, flag::remote_mrq_notice);
    });
    while (left > 0)
        if (await_mrq(end.vcq).type() == NoticeType::rmt_put)
            left--;
    for (std::size_t i = 0; i < 80; i++)
        EXPECT(end.words[256 + i] == (i % 20 == 0 ? End::source(1 - my_rank(), i) : 0));
    meet_all();
}

void get_brings_objects()
{
    End end;
    auto lcl = end.memory.stadd(256);
    auto rmt = end.peer.stadd;
    const auto done = [&](std::uint64_t n, std::size_t at, std::size_t count) {
        end.finish(NoticeType::lcl_get, NoticeType::rmt_get, n, 256 + at, count);
    };

    submit(end.vcq,
           [&] { return end.vcq.get(end.peer.id, lcl + 3, rmt + 3, 5, 1, all, &end.words[1]); });
    done(1, 3, 5);
    submit(end.vcq,
           [&] { return end.vcq.get_gap(end.peer.id, lcl, rmt, 7, 2, all, 0, 0, &end.words[2]); });
    done(2, 0, 7);
    submit(end.vcq, [&] {
        return end.vcq.get_stride(end.peer.id, lcl + 1, rmt + 1, 2, 10, 1, 3, all, &end.words[3]);
    });
    done(3, 1, 2);
    submit(end.vcq, [&] {
        return end.vcq.get_stride_gap(end.peer.id, lcl + 1, rmt + 1, 2, 10, 1, 4, all, 0, 0,
                                      &end.words[4]);
    });
    done(4, 1, 2);
}

template <class T> void change_words()
{
    using utofu::ArmwOp;
    End end;
    auto word = (end.peer.stadd + 300).template as<T>();
    T now = 0;
    const auto change = [&](ArmwOp op, T operand, T result) {
        submit(end.vcq, [&] {
            return end.vcq.armw(end.peer.id, op, operand, word, 9, flag::local_mrq_notice);
        });
        utofu::Notice notice = await_mrq(end.vcq);
        EXPECT(notice.type() == NoticeType::lcl_armw);
        EXPECT(notice.edata == 9);
        EXPECT(notice.template previous<T>() == now);
        now = result;
    };
    const auto swap_if = [&](T old_value, T new_value, T result) {
        submit(end.vcq, [&] {
            return end.vcq.cswap(end.peer.id, old_value, new_value, word, 9,
                                 flag::local_mrq_notice);
        });
        EXPECT(await_mrq(end.vcq).template previous<T>() == now);
        now = result;
    };

    change(ArmwOp::add, T(7), T(7));
    change(ArmwOp::add, T(-2), T(5)); /* wraps around */
    change(ArmwOp::bit_xor, T(6), T(3));
    change(ArmwOp::bit_or, T(8), T(11));
    change(ArmwOp::bit_and, T(9), T(9));
    change(ArmwOp::swap, T(-3), T(-3));
    swap_if(T(4), T(1), T(-3));
    swap_if(T(-3), T(1), T(1));
    meet_all();
    T written;
    std::memcpy(&written, &end.words[300], sizeof(T));
    EXPECT(written == T(1));
    if (sizeof(T) == 4) /* its neighbour is as it was */
        EXPECT(end.words[300] >> 32 == 0);
    meet_all();
}

void armw_is_of_the_size_of_its_type()
{
    change_words<std::uint32_t>();
    change_words<std::int32_t>();
    change_words<std::uint64_t>();
    change_words<std::int64_t>();
}

void prepared_descriptors_are_posted_again_and_again()
{
    End end;
    std::array<std::uint64_t, 12 * 8> room;
    utofu::Descriptors descriptors(room, utofu::query_onesided_caps(0));
    auto lcl = end.memory.stadd();
    auto rmt = end.peer.stadd;
    auto to = rmt + 256;
    auto mine = end.memory.stadd(256);
    const utofu::Span<const std::uint64_t> few(&end.words[40], 2);
    const auto counter = (rmt + 500).as<std::int32_t>();
    const auto total = (rmt + 501).as<std::int64_t>();

    end.vcq.prepare_put(descriptors, end.peer.id, lcl, to, 2);
    end.vcq.prepare_put_gap(descriptors, end.peer.id, lcl + 10, to + 10, 2, 0, {}, 0, 2);
    end.vcq.prepare_put_stride(descriptors, end.peer.id, lcl + 20, to + 20, 1, 3, 2);
    end.vcq.prepare_put_piggyback(descriptors, end.peer.id, few, to + 40);
    end.vcq.prepare_put_piggyback8(descriptors, end.peer.id, end.words[50], to + 50);
    end.vcq.prepare_get(descriptors, end.peer.id, mine + 60, rmt + 60, 2, 3,
                        flag::local_mrq_notice);
    end.vcq.prepare_armw(descriptors, end.peer.id, utofu::ArmwOp::add, 5, counter);
    end.vcq.prepare_armw(descriptors, end.peer.id, utofu::ArmwOp::add, std::int64_t(-1), total);
    end.vcq.prepare_cswap(descriptors, end.peer.id, std::int64_t(-2), std::int64_t(100), total);
    end.vcq.prepare_nop(descriptors);
    end.vcq.prepare_put_piggyback8(
        descriptors, end.peer.id, std::uint8_t(77), (to + 90).as<std::uint8_t>(), 3,
        flag::strong_order | flag::remote_mrq_notice | flag::local_mrq_notice);
    for (int round = 0; round < 2; round++) {
        submit(end.vcq, [&] { return end.vcq.post_toq(descriptors); });
        for (int notices = 3; notices > 0; notices--)
            EXPECT(await_mrq(end.vcq).edata == 3);
    }
    meet_all();
    for (std::size_t i : {0u, 1u, 10u, 11u, 20u, 23u, 40u, 41u, 50u, 60u, 61u})
        EXPECT(end.words[256 + i] == End::source(1 - my_rank(), i));
    EXPECT(end.words[346] == 77);
    EXPECT(end.words[500] == 10);
    EXPECT(end.words[501] == 100);
    EXPECT(end.words[256 + 21] == 0);
    meet_all();
    /* the others, and no room for more */
    descriptors.clear();
    end.vcq.prepare_put_stride_gap(descriptors, end.peer.id, lcl, to, 1, 2, 2, 0, {}, 0, 0);
    end.vcq.prepare_get_gap(descriptors, end.peer.id, mine, rmt, 1, 0, {}, 0, 0);
    end.vcq.prepare_get_stride(descriptors, end.peer.id, mine, rmt, 1, 2, 2);
    end.vcq.prepare_get_stride_gap(descriptors, end.peer.id, mine, rmt, 1, 2, 2, 0, {}, 0, 0);
    end.vcq.prepare_cswap(descriptors, end.peer.id, 1, 2, counter);
    submit(end.vcq, [&] { return end.vcq.post_toq(descriptors); });
    while (end.vcq.query_num_unread_tcq() > 0)
        end.vcq.poll_tcq();
    std::size_t size = descriptors.size_bytes();
    expect_error(utofu::Code::invalid_size, "utofu_prepare_put_stride: no room",
                 [&] { end.vcq.prepare_put_stride(descriptors, end.peer.id, lcl, to, 1, 2, 12); });
    EXPECT(descriptors.size_bytes() == size);
    submit(end.vcq, [&] {
        return end.vcq.put_piggyback8(end.peer.id, 1.0, to.as<double>(), 0, flag::local_mrq_notice);
    });
    await_mrq(end.vcq);
    meet_all();
}

void session_starts_what_waits()
{
    End end(utofu::vcq_flag::session_mode), free_end;

    /* waits for the other process's put */
    EXPECT(end.vcq.put(end.peer.id, end.memory.stadd(5), end.peer.stadd + 261, 3, 8,
                       flag::tcq_notice | flag::remote_mrq_notice, &end.words[8]));
    EXPECT(!end.vcq.poll_tcq());
    meet_all();
    EXPECT(!end.vcq.poll_tcq());
    EXPECT(!end.vcq.poll_mrq());
    meet_all();
    submit(free_end.vcq, [&] {
        return free_end.vcq.put(end.peer.id, free_end.memory.stadd(), end.peer.stadd + 400, 1, 0,
                                flag::sps(1));
    });
    utofu::Notice notice = await_mrq(end.vcq);
    EXPECT(notice.type() == NoticeType::rmt_put);
    EXPECT(notice.edata == 8);
    EXPECT(end.words[261] == End::source(1 - my_rank(), 5));
    EXPECT(await_tcq(end.vcq) == &end.words[8]);
    meet_all();
}

void barriers_and_reductions_complete()
{
    using utofu::ReduceOp;
    utofu::VbgId ids[1];
    utofu::Vbg gate(utofu::get_barrier_tnis()[0], ids);
    utofu::VbgId theirs = exchange(gate.id());
    utofu::VbgSetting setting{gate.id(), gate.id(), theirs,
                              gate.id(), theirs,    {utofu::path_coord_null, 0, 0}};
    std::uint64_t rank = static_cast<std::uint64_t>(my_rank());
    std::array<std::uint64_t, 2> pair{10 + rank, rank}, result{};
    double sum = 0;

    EXPECT(gate.ids().data() == ids && gate.is_owner());
    gate.set_vbg(utofu::Span<const utofu::VbgSetting>(&setting, 1));
    meet_all();
    for (int round = 0; round < 3; round++) {
        EXPECT(gate.barrier());
        while (!gate.poll_barrier())
            wait_a_moment();
        EXPECT(gate.reduce(ReduceOp::maxloc, pair));
        while (!gate.poll_reduce(result))
            wait_a_moment();
        EXPECT(result[0] == 11 && result[1] == 1);
        const std::array<double, 1> value{1.5 + my_rank()};
        EXPECT(gate.reduce(ReduceOp::bfpsum, value));
        while (!gate.poll_reduce(utofu::Span<double>(&sum, 1)))
            wait_a_moment();
        EXPECT(sum == 4.0);
    }
    expect_error(utofu::Code::busy, "utofu_poll_barrier", [&] { (void)gate.poll_barrier(); });
    expect_error(utofu::Code::invalid_op, "utofu_reduce_double",
                 [&] { (void)gate.reduce(ReduceOp::sum, utofu::Span<const double>(&sum, 1)); });
    EXPECT(gate.reduce(ReduceOp::sum, pair));
    EXPECT(!gate.reduce(ReduceOp::sum, pair)); /* one at a time: until it is polled to its end */
    /* no room for the result is no end of it */
    expect_error(utofu::Code::invalid_number, "utofu_poll_reduce_uint64: no room for the result",
                 [&] { (void)gate.poll_reduce(utofu::Span<std::uint64_t>(result.data(), 1)); });
    while (!gate.poll_reduce(result))
        wait_a_moment();
    EXPECT(result[0] == 21 && result[1] == 1);
    EXPECT(utofu::query_vbg_info(gate.id()).coords == utofu::query_my_coords());
    meet_all();
    utofu::Vbg moved(std::move(gate)), assigned;
    EXPECT(!gate.is_owner() && moved.is_owner());
    assigned = std::move(moved);
    EXPECT(!moved.is_owner() && assigned.is_owner() && assigned.id() == ids[0]);
    assigned.close();
    EXPECT(!assigned.is_owner());
    expect_error(utofu::Code::invalid_vbg_id, "utofu_barrier", [&] { (void)assigned.barrier(); });
    meet_all();
}

void errors_have_code_name_and_text()
{
    End end;
    void *cbdata = &end;

    expect_error(utofu::Code::invalid_tni_id, "utofu_create_vcq",
                 [] { utofu::Vcq vcq(utofu::TniId(77)); });
    expect_error(utofu::Code::invalid_flags, "utofu_create_vcq",
                 [] { utofu::Vcq vcq(0, utofu::VcqFlags(1UL << 40)); });
    expect_error(utofu::Code::invalid_size, "utofu_put", [&] {
        (void)end.vcq.put(end.peer.id, end.memory.stadd(), end.peer.stadd, SIZE_MAX / 4);
    });
    expect_error(utofu::Code::invalid_edata, "utofu_put", [&] {
        (void)end.vcq.put(end.peer.id, end.memory.stadd(), end.peer.stadd, 1, 256);
    });
    expect_error(utofu::Code::invalid_address, "utofu_reg_mem",
                 [&] { utofu::Memory<int> memory(end.vcq, utofu::Span<int>(nullptr, 4)); });
    expect_error(utofu::Code::invalid_vcq_hdl, "utofu_poll_mrq",
                 [] { utofu::VcqView(1).poll_mrq(); });
    expect_error(utofu::Code::invalid_vcq_hdl, "utofu_poll_tcq",
                 [&] { utofu::VcqView(1).poll_tcq(cbdata); });
    /* no entry is no error */
    EXPECT(!end.vcq.poll_mrq());
    EXPECT(!end.vcq.poll_tcq(cbdata) && cbdata == &end);
    /* what the communication was, and the text of its failure */
    submit(end.vcq, [&] {
        return end.vcq.put(end.peer.id, end.memory.stadd(), end.peer.stadd + 511, 2, 44);
    });
    try {
        await_mrq(end.vcq);
        end_without_exception(__LINE__);
    } catch (const utofu::MrqError &error) {
        EXPECT(error.code() == utofu::Code::mrq_rmt_length);
        EXPECT(error.notice().edata == 44);
        EXPECT(error.notice().type() == NoticeType::lcl_put);
        EXPECT(std::strstr(error.what(), "put of 16 bytes") != nullptr);
    }
    submit(end.vcq, [&] {
        return end.vcq.put(end.peer.id, utofu::Stadd<std::uint64_t>(0), end.peer.stadd, 1, 0, {},
                           &end.words[3]);
    });
    try {
        await_tcq(end.vcq);
        end_without_exception(__LINE__);
    } catch (const utofu::TcqError &error) {
        EXPECT(error.code() == utofu::Code::tcq_stadd);
        EXPECT(error.cbdata() == &end.words[3]);
    }
    EXPECT(std::strncmp(utofu::get_last_error().text, "UTOFU_ERR_TCQ_STADD (-131): ", 28) == 0);
    /* a text of another code is not that of this one */
    EXPECT(std::strcmp(utofu::Error(-5, "utofu_x").what(), "UTOFU_ERR_USED (-5): utofu_x") == 0);
    EXPECT(std::strcmp(utofu::Error(-99, "utofu_x").name(), "unknown code") == 0);
    meet_all();
}

void full_queue_is_no_exception()
{
    utofu::Vcq vcq(0);
    int submitted = 0;

    while (vcq.nop(flag::tcq_notice))
        EXPECT(++submitted < 1000000);
    EXPECT(submitted > 0);
    for (int i = 0; i < submitted; i++)
        await_tcq(vcq);
    EXPECT(!vcq.poll_tcq());
    EXPECT(vcq.nop());
}

/* Calls of a Vcq whose VCQ was moved throw, as polls of it would find nothing for ever. */
void expect_no_vcq(const utofu::Vcq &moved, utofu::VcqId id, utofu::Stadd<int> stadd)
{
    utofu::Notice notice;
    void *cbdata;

    expect_error(utofu::Code::invalid_vcq_hdl, "utofu_poll_tcq",
                 [&] { (void)moved.poll_tcq(cbdata); });
    expect_error(utofu::Code::invalid_vcq_hdl, "utofu_poll_mrq",
                 [&] { (void)moved.poll_mrq(notice); });
    expect_error(utofu::Code::invalid_vcq_hdl, "utofu_put",
                 [&] { (void)moved.put(id, stadd, stadd, 1); });
}

void owners_free_what_they_own()
{
    std::vector<int> words(1000);
    utofu::VcqHdl hdl;
    {
        utofu::Vcq vcq(0), other;
        utofu::Memory memory(vcq, words), moved = std::move(memory);

        static_assert(!std::is_copy_constructible_v<utofu::Vcq> &&
                      !std::is_copy_assignable_v<utofu::Vcq>);
        static_assert(!std::is_copy_constructible_v<decltype(memory)> &&
                      !std::is_copy_constructible_v<utofu::Vbg>);
        hdl = vcq.hdl();
        EXPECT(!memory.is_registered() && moved.is_registered());
        EXPECT(moved.size() == 1000 && &moved[3] == &words[3]);
        moved.close();
        EXPECT(!moved.is_registered());
        moved = utofu::Memory(vcq, words);
        EXPECT(moved.is_registered());
        other = std::move(vcq);
        EXPECT(!vcq.is_owner() && other.is_owner() && other.hdl() == hdl);
        utofu::Vcq taken(std::move(other));
        EXPECT(!other.is_owner() && taken.is_owner());
        EXPECT(taken.nop());
        expect_no_vcq(vcq, taken.query_vcq_id(), moved.stadd());
        expect_no_vcq(other, taken.query_vcq_id(), moved.stadd());
    }
    expect_error(utofu::Code::invalid_vcq_hdl, "utofu_nop",
                 [&] { (void)utofu::VcqView(hdl).nop(); });
    utofu::Vcq vcq = utofu::Vcq::with_cmp_id(1, 3);
    utofu::VcqView view = vcq;
    vcq = utofu::Vcq(1); /* frees the first */
    expect_error(utofu::Code::invalid_vcq_hdl, "utofu_nop", [&] { (void)view.nop(); });
    utofu::Vcq again = utofu::Vcq::adopt(vcq.release());
    EXPECT(!vcq.is_owner() && again.is_owner());
    again.close();
    expect_error(utofu::Code::invalid_vcq_hdl, "utofu_nop", [&] { (void)again.nop(); });
    expect_error(utofu::Code::invalid_vcq_hdl, "utofu_free_vcq",
                 [&] { utofu::Vcq::adopt(hdl).close(); });
}

void constant_memory_is_read_only()
{
    static const std::array<std::uint64_t, 64> numbers{5, 6, 7};
    End end;
    utofu::Memory memory(end.vcq, numbers);
    static_assert(std::is_same_v<decltype(memory), utofu::Memory<const std::uint64_t>>);
    auto theirs = exchange(memory.stadd().value());

    submit(end.vcq, [&] {
        return end.vcq.put(end.peer.id, memory.stadd(), end.peer.stadd + 300, 3, 1,
                           flag::remote_mrq_notice);
    });
    EXPECT(await_mrq(end.vcq).type() == NoticeType::rmt_put);
    EXPECT(end.words[300] == 5 && end.words[302] == 7);
    /* nor does the other process write it */
    submit(end.vcq, [&] {
        return end.vcq.put(end.peer.id, end.memory.stadd(), utofu::Stadd<std::uint64_t>(theirs), 1);
    });
    try {
        await_mrq(end.vcq);
        end_without_exception(__LINE__);
    } catch (const utofu::MrqError &error) {
        EXPECT(error.code() == utofu::Code::mrq_rmt_memory ||
               error.code() == utofu::Code::mrq_rmt_stadd);
    }
    meet_all();
}

void ids_and_queries_are_those_of_c()
{
    utofu::Vcq vcq = utofu::Vcq::with_cmp_id(2, 5);
    utofu::VcqId id = vcq.query_vcq_id();
    utofu::VcqInfo info = utofu::query_vcq_info(id);
    auto *page = static_cast<char *>(aligned_memory(4096));
    utofu::TniList tnis = utofu::get_onesided_tnis();

    EXPECT(info.coords == utofu::query_my_coords() && info.tni_id == 2);
    EXPECT(utofu::construct_vcq_id(info.coords, info.tni_id, info.cq_id, 5) == id);
    EXPECT(utofu::set_vcq_id_path(
               utofu::set_vcq_id_path(id, utofu::PathCoords{1, 0, 1}),
               utofu::PathCoords{info.coords[3], info.coords[4], info.coords[5]}) == id);
    (void)utofu::set_vcq_id_path(id);
    EXPECT(tnis.size() > 0 && tnis[0] == *tnis.begin() && tnis.data() + tnis.size() == tnis.end());
    EXPECT(utofu::query_onesided_caps(0).armw_ops & utofu::onesided_cap_armw_op::bit_xor);
    EXPECT(utofu::query_barrier_caps(0).reduce_ops & utofu::barrier_cap_reduce_op::bfpsum);
    EXPECT(utofu::query_utofu_version().major_ver == utofu::header_version.major_ver);
    EXPECT(utofu::query_tofu_version().major_ver == 3);
    {
        auto memory = utofu::Memory<char>::with_stag(vcq, utofu::Span<char>(page, 4096), 7);
        EXPECT(memory.stadd() == utofu::query_stadd<char>(id, 7));
        expect_error(utofu::Code::used, "utofu_reg_mem_with_stag", [&] {
            utofu::Memory<char>::with_stag(vcq, utofu::Span<char>(page, 4096), 7);
        });
    }
    std::free(page);
    EXPECT(vcq.query_num_unread_mrq() == 0);
    EXPECT(utofu::query_job().size == 2);
    EXPECT(utofu::compat_job().rank == static_cast<std::uint32_t>(my_rank()));
    EXPECT(utofu::query_rank_node(utofu::query_job().rank).coords == info.coords);
    EXPECT(utofu::compat_rank_node(0).node == 0);
}

void waits_end()
{
    using namespace std::chrono_literals;
    utofu::Region region("waits_end");
    utofu::Vcq vcq(0, utofu::vcq_flag::thread_safe);
    std::array<utofu::VcqHdl, 1> all_of_them{vcq.hdl()};

    EXPECT(!utofu::wait_vcqs(all_of_them, 0us));
    EXPECT(!utofu::wait_vcqs(all_of_them, 1ms));
    utofu::wake_vcq(vcq);
    EXPECT(utofu::wait_vcqs(all_of_them));
    expect_error(utofu::Code::invalid_arg, "utofu_profile_start", [] { utofu::Region wrong(""); });
    utofu::profile_seen(utofu::Stadd<uint64_t>(0), 8);
    expect_error(utofu::Code::invalid_size, "utofu_profile_seen",
                 [] { utofu::profile_seen(utofu::Stadd<uint64_t>(0), 0); });
}

const struct {
    const char *name;
    void (*run)();
} cases[] = {
    {"put", put_moves_objects},
    {"stride", strides_are_in_objects},
    {"get", get_brings_objects},
    {"armw", armw_is_of_the_size_of_its_type},
    {"prepared", prepared_descriptors_are_posted_again_and_again},
    {"session", session_starts_what_waits},
    {"barrier", barriers_and_reductions_complete},
    {"errors", errors_have_code_name_and_text},
    {"full", full_queue_is_no_exception},
    {"owners", owners_free_what_they_own},
    {"constant", constant_memory_is_read_only},
    {"ids", ids_and_queries_are_those_of_c},
    {"waits", waits_end},
};

} // namespace

int main(int argc, char **argv)
{
    int run = 0;

    need_processes(2, 2);
    meeting = open_vcq();
    for (const auto &one : cases)
        if (argc == 1 || std::strcmp(argv[1], one.name) == 0) {
            step = one.name;
            try {
                one.run();
            } catch (const utofu::Error &error) {
                std::fprintf(stderr, "rank %d, %s: %s: %s\n", my_rank(), step, error.call(),
                             error.what());
                return 1;
            }
            run++;
        }
    close_vcq(meeting);
    std::printf("rank %d: %d cases\n", my_rank(), run);
    return run == 0;
}
