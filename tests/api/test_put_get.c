/* SPDX-License-Identifier: Apache-2.0 */
/* Puts, gets and NOPs, by every function that starts them, with every notice. Section 3.7. */
#include "ends.h"
#include "moving_clock.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

TestSuite(put_get);

static const unsigned long int all_notices = UT_TCQ | UT_LCL | UT_RMT;

/*
 * One direction of traffic. Each process has its own part of it: the origin's end, the target's, or
 * both. The lower half of each buffer is the source, the upper half the destination.
 */
struct lane {
    struct ut_end *origin, *target;
    struct ut_peer from, to;
    size_t half;
};

static uint8_t pattern(uint64_t seed, size_t i)
{
    return (uint8_t)((seed + 1) * 167 + i * 13 + (i >> 8) * 7);
}

static void fill(uint8_t *mem, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i++)
        mem[i] = pattern(seed, i);
}

/* The upper half contains the blocks and nothing else. `src` and `dst` are offsets of the first
 * block in its half. */
static void check_arrived(const struct lane *lane, const struct ut_comm *comm, size_t src,
                          size_t dst, uint64_t seed, const uint8_t *half)
{
    uint8_t *want = calloc(1, lane->half);

    for (size_t block = 0; block < ut_num_blocks(comm); block++)
        for (size_t i = 0; i < comm->length; i++)
            want[dst + block * comm->stride + i] = pattern(seed, src + block * comm->stride + i);
    for (size_t i = 0; i < lane->half; i++)
        CHECK(half[i] == want[i], "byte %zu is 0x%02x, not 0x%02x", i, half[i], want[i]);
    free(want);
}

/* Expects all notices of a communication on this VCQ, local and remote ones each in order. */
static void expect_notices(utofu_vcq_hdl_t vcq, const struct ut_comm *comm, utofu_vcq_id_t origin,
                           bool lcl, bool rmt)
{
    size_t blocks = comm->kind == UT_NOP ? 0 : ut_num_blocks(comm);
    size_t lcl_left = lcl && (comm->flags & UT_LCL) ? blocks : 0;
    size_t rmt_left = rmt && (comm->flags & UT_RMT) ? blocks : 0;

    while (lcl_left + rmt_left > 0) {
        struct utofu_mrq_notice got, want;

        CHECK_OK(ut_await_mrq(vcq, &got));
        if (got.notice_type == UTOFU_MRQ_TYPE_LCL_PUT ||
            got.notice_type == UTOFU_MRQ_TYPE_LCL_GET) {
            CHECK(lcl_left > 0);
            want = ut_lcl_notice(comm, blocks - lcl_left--);
        } else {
            CHECK(rmt_left > 0);
            want = ut_rmt_notice(comm, blocks - rmt_left--, origin);
        }
        ut_check_notice(&got, &want);
    }
}

/* The next notice is the only one in the target's MRQ: remote notices of a path are in order. */
static void check_no_more(const struct lane *lane)
{
    struct ut_comm marker = {.kind = UT_PIGGYBACK8,
                             .rmt = lane->to.id,
                             .data = &marker,
                             .rmt_stadd = lane->to.stadd,
                             .edata = 0xfd,
                             .flags = UT_RMT};

    if (lane->origin != NULL && lane->origin != lane->target) {
        marker.vcq = lane->origin->vcq;
        ut_flush(lane->origin, &lane->to);
        ut_submit(&marker);
    }
    if (lane->target != NULL && lane->origin != lane->target)
        expect_notices(lane->target->vcq, &marker, lane->from.id, false, true);
    if (lane->target != NULL && lane->origin == lane->target)
        ut_flush(lane->origin, &lane->to);
}

/* One communication from start to end. `src` and `dst` are offsets in the halves. */
static void transfer(const struct lane *lane, struct ut_comm comm, size_t src, size_t dst,
                     uint64_t seed)
{
    bool get = ut_is_get(comm.kind);
    struct ut_end *source = get ? lane->target : lane->origin;
    struct ut_end *sink = get ? lane->origin : lane->target;
    static int token;

    ut_step("%s%s of %zu bytes x %zu, stride %zu, from %zu to %zu, flags 0x%lx",
            comm.prepared ? "prepared " : "", ut_kind_name(comm.kind), comm.length,
            ut_num_blocks(&comm), comm.stride, src, dst, comm.flags);
    comm.rmt = comm.rmt != 0 ? comm.rmt : lane->to.id;
    comm.lcl_stadd = lane->from.stadd + (get ? lane->half + dst : src);
    comm.rmt_stadd = lane->to.stadd + (get ? src : lane->half + dst);
    comm.cbdata = comm.cbdata != NULL ? comm.cbdata : &token;
    if (source != NULL)
        fill(source->mem, lane->half, seed);
    if (sink != NULL)
        memset(sink->mem + lane->half, 0, lane->half);
    ut_barrier();
    if (lane->origin != NULL) {
        comm.vcq = lane->origin->vcq;
        comm.data = lane->origin->mem + src;
        ut_submit(&comm);
        if (ut_is_piggyback(comm.kind)) /* the source may be reused at once */
            memset(comm.data, 0xdd, comm.length);
        for (size_t i = 0; (comm.flags & UT_TCQ) && i < ut_num_blocks(&comm); i++)
            ut_expect_tcq(comm.vcq, UTOFU_SUCCESS, comm.cbdata);
        expect_notices(comm.vcq, &comm, lane->from.id, true, lane->origin == lane->target);
    }
    if (lane->target != NULL && lane->target != lane->origin)
        expect_notices(lane->target->vcq, &comm, lane->from.id, false, true);
    check_no_more(lane);
    ut_barrier();
    if (sink != NULL)
        check_arrived(lane, &comm, src, dst, seed, sink->mem + lane->half);
    ut_barrier();
}

/* Where origin and target are. */
enum layout { TWO_NODES, ONE_NODE, SELF, TWO_VCQS, NUM_LAYOUTS };

static const char *const layout_names[] = {"two nodes", "one node", "one VCQ", "one process"};

static struct ut_end ends[2];

static struct lane open_lane(enum layout layout, size_t half)
{
    struct lane lane = {.half = half};
    struct ut_peer peers[2];

    ut_end_open(&ends[0], 0, 0, 2 * half);
    lane.from = lane.to = ut_end_peer(&ends[0]);
    switch (layout) {
    case SELF:
        lane.origin = lane.target = &ends[0];
        break;
    case TWO_VCQS:
        ut_end_open(&ends[1], 4, UTOFU_VCQ_FLAG_THREAD_SAFE, 2 * half);
        lane.origin = &ends[0];
        lane.target = &ends[1];
        lane.to = ut_end_peer(&ends[1]);
        break;
    default:
        ut_end_gather(&ends[0], peers);
        lane.origin = ut_rank == 0 ? &ends[0] : NULL;
        lane.target = ut_rank == 1 ? &ends[0] : NULL;
        lane.from = peers[0];
        lane.to = peers[1];
    }
    return lane;
}

static void close_lane(void)
{
    ut_barrier();
    for (int i = 0; i < 2; i++)
        if (ends[i].mem != NULL)
            ut_end_close(&ends[i]);
}

/* Bodies take the layout; they run in the layouts of a bit mask. */
static void run_layouts_with(const char *variable, ut_body_fn *body, unsigned int layouts)
{
    for (int layout = 0; layout < NUM_LAYOUTS; layout++) {
        if (!(layouts >> layout & 1))
            continue;
        cr_log_info("%s", layout_names[layout]);
        ut_run(&(struct ut_run_opts){.n = layout <= ONE_NODE ? 2 : 1,
                                     .nodes = layout == TWO_NODES ? 2 : 1,
                                     .env = {variable}},
               body, &layout);
    }
}

static void run_layouts(ut_body_fn *body, unsigned int layouts)
{
    run_layouts_with(NULL, body, layouts);
}

enum { ANYWHERE = 15, APART = 1 << TWO_NODES, APART_AND_SELF = 1 << TWO_NODES | 1 << SELF };

/* Every function, every flag, every length */

static struct ut_comm make_comm(enum ut_kind kind, size_t length)
{
    return (struct ut_comm){.kind = kind,
                            .length = length,
                            .stride = ut_is_stride(kind) ? length + 24 : 0,
                            .blocks = ut_is_stride(kind) ? 3 : 0,
                            .mtu = ut_has_gap(kind) ? 1920 : 0,
                            .gap = ut_has_gap(kind) ? 8 : 0,
                            .edata = 0x80 + kind,
                            .flags = all_notices};
}

static void every_function(void *arg)
{
    static const size_t lengths[] = {0, 1, 2, 3, 4, 7, 8, 9, 31, 32, 33, 255, 256, 1000, 4097};
    struct lane lane = open_lane(*(enum layout *)arg, 32768);

    for (enum ut_kind kind = 0; kind < UT_NOP; kind++) {
        for (size_t i = 0; i < NUM(lengths) && lengths[i] <= ut_max_length(kind); i++) {
            struct ut_comm comm = make_comm(kind, lengths[i]);

            comm.prepared = (i + kind) % 2 == 0;
            transfer(&lane, comm, 3 * i, 100 + 5 * i, kind * 16 + i);
            comm.prepared = !comm.prepared;
            comm.edata = i;
            transfer(&lane, comm, 1000 - i, 2000 + i, kind * 16 + i + 1);
        }
    }
    close_lane();
}

Test(put_get, every_function_moves_its_bytes_and_tells_both_ends)
{
    run_layouts(every_function, ANYWHERE);
}

static void every_notice(void *arg)
{
    static const unsigned long int notices[] = {UT_TCQ, UT_LCL, UT_RMT};
    struct lane lane = open_lane(*(enum layout *)arg, 4096);

    for (enum ut_kind kind = 0; kind < UT_NOP; kind++) {
        for (unsigned int mask = 0; mask < 8; mask++) {
            struct ut_comm comm = make_comm(kind, 8);

            comm.flags = 0;
            for (size_t i = 0; i < 3; i++)
                comm.flags |= mask >> i & 1 ? notices[i] : 0;
            comm.prepared = mask % 2 != 0;
            transfer(&lane, comm, 64, 128, mask);
        }
    }
    close_lane();
}

Test(put_get, notices_that_come_are_those_asked_for)
{
    run_layouts(every_notice, ANYWHERE);
}

/* After other puts to the same memory, where fewer checks are made. */
static void piggyback_again(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);

    for (size_t length = 1; length <= 32; length++) {
        struct ut_comm comm = make_comm(length <= 8 ? UT_PIGGYBACK8 : UT_PIGGYBACK, length);

        transfer(&lane, comm, length, 2 * length, length);
        transfer(&lane, make_comm(UT_PIGGYBACK, length), length, 2 * length + 8, length + 1);
    }
    if (lane.origin != NULL) {
        utofu_vcq_hdl_t vcq = lane.origin->vcq;
        utofu_stadd_t at = lane.to.stadd + 1024;
        uint8_t data[64] = {1};

        CHECK_EQ(utofu_put_piggyback(vcq, lane.to.id, data, at, 33, 0, UT_LCL, NULL),
                 UTOFU_ERR_INVALID_SIZE);
        CHECK_EQ(utofu_put_piggyback8(vcq, lane.to.id, 1, at, 9, 0, UT_LCL, NULL),
                 UTOFU_ERR_INVALID_SIZE);
        CHECK_EQ(utofu_put_piggyback(vcq, lane.to.id, NULL, at, 8, 0, UT_LCL, NULL),
                 UTOFU_ERR_INVALID_POINTER);
    }
    transfer(&lane, make_comm(UT_PIGGYBACK, 8), 0, 0, 1);
    close_lane();
}

Test(put_get, piggyback_of_any_length_comes_and_longer_is_refused)
{
    run_layouts(piggyback_again, ANYWHERE);
}

static void every_hint(void *arg)
{
    static const unsigned long int hints[] = {
        UTOFU_ONESIDED_FLAG_STRONG_ORDER,
        UTOFU_ONESIDED_FLAG_PACKET_RESPONSE,
        UTOFU_ONESIDED_FLAG_CACHE_INJECTION,
        UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_CACHE_INJECTION,
        UTOFU_ONESIDED_FLAG_SPS(0),
        UTOFU_ONESIDED_FLAG_SPS(15), /* the remote VCQ is in free mode */
    };
    struct lane lane = open_lane(*(enum layout *)arg, 4096);

    for (enum ut_kind kind = 0; kind < UT_NOP; kind++) {
        for (size_t i = 0; i < NUM(hints); i++) {
            struct ut_comm comm = make_comm(kind, 8);

            if ((hints[i] & UTOFU_ONESIDED_FLAG_SPS(15)) &&
                (ut_is_get(kind) || ut_is_piggyback(kind)))
                continue; /* not guaranteed to work */
            comm.flags |= hints[i];
            comm.prepared = i % 2 != 0;
            transfer(&lane, comm, i, 300 + i, i);
        }
    }
    close_lane();
}

Test(put_get, hints_change_nothing_in_the_result)
{
    run_layouts(every_hint, APART_AND_SELF);
}

/* Values are undefined within the lines of 256 bytes that the data touches, and nowhere else. */
static void padding(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);
    struct ut_comm comm = make_comm(UT_PIGGYBACK, 32);

    comm.flags |= UTOFU_ONESIDED_FLAG_PADDING | UTOFU_ONESIDED_FLAG_CACHE_INJECTION;
    comm.vcq = ends[0].vcq;
    comm.rmt = lane.to.id;
    comm.rmt_stadd = lane.to.stadd + 1024 + 100;
    comm.data = (uint8_t[32]){1, 2, 3, 4, [31] = 32};
    if (lane.origin != NULL) {
        ut_submit(&comm);
        ut_expect_tcq(comm.vcq, UTOFU_SUCCESS, NULL);
    }
    expect_notices(ends[0].vcq, &comm, lane.from.id, lane.origin != NULL, lane.target != NULL);
    if (lane.target != NULL) {
        CHECK(memcmp(lane.target->mem + 1124, comm.data, 32) == 0);
        for (size_t i = 0; i < lane.target->size; i++)
            CHECK(i / 256 == 4 || lane.target->mem[i] == 0, "byte %zu", i);
    }
    close_lane();
}

Test(put_get, padding_stays_within_the_cache_line)
{
    run_layouts(padding, APART_AND_SELF);
}

static void every_path(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);

    for (int i = 0; i < UT_PATHS; i++) {
        uint8_t coords[3] = {(uint8_t)(i / 6), (uint8_t)(i / 2 % 3), (uint8_t)(i % 2)};
        struct ut_comm comm = make_comm(i % 2 ? UT_PUT : UT_GET, 100);
        utofu_path_id_t path;

        /* in the flags */
        CHECK_OK(utofu_get_path_id(lane.to.id, coords, &path));
        comm.flags |= UTOFU_ONESIDED_FLAG_PATH(path);
        transfer(&lane, comm, 0, 0, (uint64_t)i);
        /* in the id: notices have the owner's id, not this one */
        comm.flags = all_notices;
        comm.rmt = lane.to.id;
        CHECK_OK(utofu_set_vcq_id_path(&comm.rmt, coords));
        transfer(&lane, comm, 1, 2, (uint64_t)i);
        /* in both: the id's own path ids */
        CHECK_OK(utofu_get_path_id(comm.rmt, (uint8_t[]){0, 1, 1}, &path));
        comm.flags |= UTOFU_ONESIDED_FLAG_PATH(path);
        transfer(&lane, comm, 2, 1, (uint64_t)i);
    }
    close_lane();
}

Test(put_get, every_path_leads_there)
{
    run_layouts(every_path, APART_AND_SELF);
}

static void longest(void *arg)
{
    enum { HALF = 1 << 24 };
    struct lane lane = open_lane(*(enum layout *)arg, HALF);

    transfer(&lane, make_comm(UT_PUT, UT_MAX_PUTGET), 1, 0, 1);
    transfer(&lane, make_comm(UT_GET, UT_MAX_PUTGET), 0, 1, 2);
    close_lane();
}

Test(put_get, longest_transfer_is_16_777_215_bytes)
{
    run_layouts(longest, APART_AND_SELF);
}

static void at_limits(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);

    for (enum ut_kind kind = 0; kind < UT_NOP; kind++) {
        for (int prepared = 0; prepared < 2; prepared++) {
            struct ut_comm good = make_comm(kind, 8), comm = good;

            good.prepared = prepared;
            good.vcq = lane.origin->vcq;
            good.rmt = lane.to.id;
            good.data = lane.origin->mem;
            good.lcl_stadd = lane.from.stadd;
            good.rmt_stadd = lane.to.stadd;
            comm = good;
            comm.length = ut_max_length(kind) + 1;
            CHECK_RC(ut_start(&comm), UTOFU_ERR_INVALID_SIZE);
            comm.length = SIZE_MAX;
            CHECK_RC(ut_start(&comm), UTOFU_ERR_INVALID_SIZE);
            comm = good;
            comm.edata = 256;
            CHECK_RC(ut_start(&comm), UTOFU_ERR_INVALID_EDATA);
            comm.edata = UINT64_MAX;
            CHECK_RC(ut_start(&comm), UTOFU_ERR_INVALID_EDATA);
            if (ut_has_gap(kind)) {
                comm = good;
                comm.mtu = 1921;
                CHECK_RC(ut_start(&comm), UTOFU_ERR_INVALID_SIZE);
                comm = good;
                comm.gap = 256;
                CHECK_RC(ut_start(&comm), UTOFU_ERR_INVALID_NUMBER);
            }
        }
    }
    ut_flush(lane.origin, &lane.to); /* none of them was started */
    close_lane();
}

Test(put_get, more_than_a_limit_is_refused)
{
    run_layouts(at_limits, 1 << SELF);
}

static void edata_values(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);

    for (uint64_t edata = 0; edata < 256; edata++) {
        struct ut_comm comm = make_comm(edata % UT_NOP, 8);

        comm.edata = edata;
        comm.cbdata = (void *)(uintptr_t)(edata * 0x0101010101010101);
        transfer(&lane, comm, 8, 8, edata);
    }
    close_lane();
}

Test(put_get, edata_is_any_byte_and_callback_data_any_value)
{
    run_layouts(edata_values, APART);
}

static void pace(void *arg)
{
    static const size_t mtu[] = {0, 1, 64, 100, 1919, 1920}, gap[] = {0, 1, 8, 24, 254, 255};
    struct lane lane = open_lane(*(enum layout *)arg, 8192);

    for (enum ut_kind kind = 0; kind < UT_NOP; kind++) {
        for (size_t i = 0; ut_has_gap(kind) && i < NUM(mtu); i++) {
            struct ut_comm comm = make_comm(kind, 2000);

            comm.mtu = mtu[i];
            comm.gap = gap[i];
            comm.prepared = i % 2 != 0;
            transfer(&lane, comm, i, i, i);
        }
    }
    close_lane();
}

Test(put_get, mtu_and_gap_change_nothing_in_the_result)
{
    run_layouts(pace, APART);
}

/* Strides */

static void strides(void *arg)
{
    static const struct {
        size_t length, stride, blocks;
    } shapes[] = {{1, 1, 1},      {1, 2, 500},    {8, 8, 100}, {8, 24, 100},
                  {100, 100, 64}, {16, 8, 20},    {32, 0, 7},  {1000, 3000, 5},
                  {0, 64, 10},    {256, 256, 32}, {3, 61, 211}};
    static const enum ut_kind kinds[] = {UT_PUT_STRIDE, UT_PUT_STRIDE_GAP, UT_GET_STRIDE,
                                         UT_GET_STRIDE_GAP};
    struct lane lane = open_lane(*(enum layout *)arg, 16384);

    for (size_t i = 0; i < NUM(shapes) * NUM(kinds); i++) {
        struct ut_comm comm = make_comm(kinds[i % NUM(kinds)], shapes[i / NUM(kinds)].length);

        comm.stride = shapes[i / NUM(kinds)].stride;
        comm.blocks = shapes[i / NUM(kinds)].blocks;
        comm.prepared = i / 2 % 2 != 0;
        transfer(&lane, comm, 7, 11, i);
    }
    close_lane();
}

Test(put_get, stride_is_so_many_communications_with_a_notice_each)
{
    run_layouts(strides, APART_AND_SELF);
}

static void stride_bad(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);

    for (enum ut_kind kind = 0; kind < UT_NOP; kind++) {
        struct ut_comm comm = make_comm(kind, 8);

        if (!ut_is_stride(kind))
            continue;
        comm.vcq = lane.origin->vcq;
        comm.rmt = lane.to.id;
        comm.lcl_stadd = lane.from.stadd;
        comm.rmt_stadd = lane.to.stadd;
        comm.blocks = 0;
        CHECK_OK(ut_start(&comm)); /* none */
        comm.blocks = SIZE_MAX;
        CHECK_RC(ut_start(&comm), UTOFU_ERR_INVALID_NUMBER);
        comm.blocks = SIZE_MAX / 64 + 2;
        CHECK_RC(ut_start(&comm), UTOFU_ERR_INVALID_NUMBER);
    }
    ut_flush(lane.origin, &lane.to);
    close_lane();
}

Test(put_get, stride_of_no_blocks_is_none_and_of_too_many_an_error)
{
    run_layouts(stride_bad, 1 << SELF);
}

/* Random ones, one after the other */

static void at_random(void *arg)
{
    enum { HALF = 8192 };
    struct lane lane = open_lane(*(enum layout *)arg, HALF);
    struct ut_rng rng = ut_rng_start(ut_seed());

    for (int i = 0; i < 150; i++) {
        struct ut_comm comm = make_comm((enum ut_kind)ut_rng_below(&rng, UT_NOP), 0);
        size_t max = ut_max_length(comm.kind) < 2000 ? ut_max_length(comm.kind) : 2000;

        comm.length = ut_rng_below(&rng, max + 1);
        comm.stride = comm.blocks > 0 ? ut_rng_below(&rng, 2000) : 0;
        comm.edata = ut_rng_below(&rng, 256);
        comm.flags = ut_rng_next(&rng) & (all_notices | UT_STRONG);
        comm.prepared = ut_rng_below(&rng, 2);
        transfer(&lane, comm, ut_rng_below(&rng, 2000), ut_rng_below(&rng, 2000), (uint64_t)i);
        ut_random_delay(50);
    }
    close_lane();
}

Test(put_get, random_transfers_are_right)
{
    run_layouts(at_random, ANYWHERE);
}

/* Small puts to two peers in turn, more than a send queue has entries */

enum { TURNS = 600, TURN_SIZE = 40, TURNS_IN_A_ROW = 150 };

static size_t turn_length(size_t i)
{
    return 1 + i % 33;
}

static void put_in_turn(const struct ut_end *end, const struct ut_peer *peers)
{
    for (size_t i = 0; i < TURNS; i++) {
        bool piggyback = i % 7 == 0 && turn_length(i) <= ut_max_length(UT_PIGGYBACK);
        struct ut_comm comm = {.kind = piggyback ? UT_PIGGYBACK : UT_PUT,
                               .vcq = end->vcq,
                               .rmt = peers[1 + i % 2].id,
                               .lcl_stadd = end->stadd + i * TURN_SIZE,
                               .rmt_stadd = peers[1 + i % 2].stadd + i * TURN_SIZE,
                               .length = turn_length(i),
                               .data = end->mem + i * TURN_SIZE,
                               .flags = UT_TCQ,
                               .cbdata = (void *)(i + 1)};

        ut_submit(&comm);
        if ((i + 1) % TURNS_IN_A_ROW == 0)
            for (size_t n = i + 2 - TURNS_IN_A_ROW; n <= i + 1; n++)
                ut_expect_tcq(end->vcq, UTOFU_SUCCESS, (void *)n);
    }
    ut_flush(end, &peers[1]);
    ut_flush(end, &peers[2]);
}

static void small_in_turn(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[3];
    size_t size = (TURNS + 1) * TURN_SIZE;

    (void)arg;
    ut_open_all(&end, size, peers);
    if (ut_rank == 0) {
        fill(end.mem, size, 1);
        put_in_turn(&end, peers);
    }
    ut_barrier();
    for (size_t i = 0; ut_rank != 0 && i < TURNS * (size_t)TURN_SIZE; i++) {
        size_t turn = i / TURN_SIZE;
        bool comes = turn % 2 == (size_t)ut_rank - 1 && i % TURN_SIZE < turn_length(turn);
        CHECK(end.mem[i] == (comes ? pattern(1, i) : 0), "byte %zu of put %zu is 0x%02x",
              i % TURN_SIZE, turn, end.mem[i]);
    }
    ut_barrier();
    ut_close_all(&end);
}

Test(put_get, small_puts_of_every_length_to_two_peers_in_turn)
{
    ut_run(&(struct ut_run_opts){.n = 3, .nodes = 3}, small_in_turn, NULL);
}

/* Order */

static void tcq_in_order(void *arg)
{
    enum { COUNT = 400, SIZE = 65536 };
    struct ut_end end;
    struct ut_peer peers[4];
    uintptr_t expected[COUNT];
    size_t count = 0;

    (void)arg;
    ut_open_all(&end, SIZE, peers);
    for (uintptr_t i = 0; i < COUNT; i++) {
        int to = (int)ut_random_below(4);
        struct ut_comm comm = {.kind = (enum ut_kind)ut_random_below(UT_NUM_KINDS),
                               .prepared = ut_random_below(2),
                               .vcq = end.vcq,
                               .rmt = peers[to].id,
                               .lcl_stadd = end.stadd,
                               .rmt_stadd = peers[to].stadd + SIZE / 2,
                               .data = &comm,
                               .stride = 64,
                               .blocks = 1,
                               .mtu = 1920,
                               .cbdata = (void *)(i + 1)};

        comm.length = ut_is_piggyback(comm.kind) ? 8 : ut_random_below(SIZE / 2);
        if (ut_is_get(comm.kind)) {
            comm.lcl_stadd = end.stadd + SIZE / 2;
            comm.rmt_stadd = peers[to].stadd;
        }
        if (ut_random_below(4) > 0) {
            comm.flags = UT_TCQ;
            expected[count++] = i + 1;
        }
        ut_submit(&comm);
    }
    for (size_t i = 0; i < count; i++)
        ut_expect_tcq(end.vcq, UTOFU_SUCCESS, (void *)expected[i]);
    for (int to = 0; to < 4; to++)
        ut_flush(&end, &peers[to]);
    ut_close_all(&end);
}

Test(put_get, tcq_entries_come_in_the_order_of_submission_whatever_the_target)
{
    ut_run(&(struct ut_run_opts){.n = 4, .nodes = 2}, tcq_in_order, NULL);
}

static void mrq_in_order(void *arg)
{
    enum { COUNT = 250 };
    struct lane lane = open_lane(*(enum layout *)arg, 65536);
    static struct ut_comm comm[COUNT];
    struct ut_rng rng = ut_rng_start(ut_seed());

    for (size_t i = 0; i < COUNT; i++) {
        enum ut_kind kind = (enum ut_kind)ut_rng_below(&rng, UT_NOP);
        bool get = ut_is_get(kind);

        comm[i] = make_comm(kind, 8);
        if (!ut_is_piggyback(kind))
            comm[i].length = ut_rng_below(&rng, 60000);
        comm[i].blocks = 1;
        comm[i].edata = i % 256;
        comm[i].rmt = lane.to.id;
        comm[i].lcl_stadd = lane.from.stadd + (get ? lane.half : 0);
        comm[i].rmt_stadd = lane.to.stadd + (get ? 0 : lane.half);
        comm[i].flags = ut_rng_next(&rng) & (UT_LCL | UT_RMT | UT_STRONG);
        if (lane.origin != NULL) {
            comm[i].vcq = lane.origin->vcq;
            comm[i].data = lane.origin->mem;
            ut_submit(&comm[i]);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        ut_step("notice of communication %zu, a %s", i, ut_kind_name(comm[i].kind));
        if (lane.origin != NULL)
            expect_notices(lane.origin->vcq, &comm[i], lane.from.id, true, false);
        if (lane.target != NULL)
            expect_notices(lane.target->vcq, &comm[i], lane.from.id, false, true);
    }
    check_no_more(&lane);
    close_lane();
}

Test(put_get, notices_of_one_pair_come_in_the_order_of_submission)
{
    run_layouts(mrq_in_order, 1 << TWO_NODES | 1 << ONE_NODE | 1 << TWO_VCQS);
}

static void last_byte_last(void *arg)
{
    enum { HALF = 1 << 18 };
    struct lane lane = open_lane(*(enum layout *)arg, HALF);
    struct ut_rng rng = ut_rng_start(ut_seed());

    for (int round = 1; round <= 200; round++) {
        size_t length = 1 + ut_rng_below(&rng, round % 4 == 0 ? HALF : 3000);
        size_t at = ut_rng_below(&rng, HALF - length + 1);
        uint8_t value = (uint8_t)(1 + round % 250);
        struct ut_comm comm = {.kind = UT_PUT,
                               .rmt = lane.to.id,
                               .lcl_stadd = lane.from.stadd,
                               .rmt_stadd = lane.to.stadd + HALF + at,
                               .length = length,
                               .flags = UT_STRONG};

        ut_step("round %d, %zu bytes", round, length);
        if (lane.origin != NULL) {
            void *unused;

            memset(lane.origin->mem, value, length);
            comm.vcq = lane.origin->vcq;
            ut_submit(&comm);
            ut_barrier(); /* before that the source must not change */
            CHECK_RC(utofu_poll_tcq(comm.vcq, 0, &unused), UTOFU_ERR_NOT_FOUND);
        } else {
            const uint8_t *data = lane.target->mem + HALF + at;

            ut_await_byte(data + length - 1, value);
            for (size_t i = 0; i < length; i++)
                CHECK_EQ(data[i], value);
            ut_barrier();
        }
    }
    close_lane();
}

Test(put_get, last_byte_of_a_strong_order_put_is_last)
{
    run_layouts(last_byte_last, 1 << TWO_NODES | 1 << ONE_NODE);
}

/* ThreadSanitizer cannot know that a get's last byte orders the others. */
__attribute__((no_sanitize("thread"))) static bool last_byte_is(const uint8_t *data, size_t length,
                                                                uint8_t value)
{
    return __atomic_load_n(data + length - 1, __ATOMIC_ACQUIRE) == value;
}

__attribute__((no_sanitize("thread"))) static bool all_bytes_are(const uint8_t *data, size_t length,
                                                                 uint8_t value)
{
    for (size_t i = 0; i < length; i++)
        if (data[i] != value)
            return false;
    return true;
}

static void last_byte_of_get(void *arg)
{
    enum { HALF = 1 << 16 };
    struct lane lane = open_lane(*(enum layout *)arg, HALF);

    if (lane.target != NULL)
        memset(lane.target->mem, 0x7e, HALF);
    ut_barrier();
    for (int round = 0; lane.origin != NULL && round < 200; round++) {
        size_t length = 1 + ut_random_below(HALF), at = ut_random_below(HALF - length + 1);
        uint8_t *data = lane.origin->mem + HALF + at;
        struct ut_comm comm = {.kind = UT_GET,
                               .vcq = lane.origin->vcq,
                               .rmt = lane.to.id,
                               .lcl_stadd = lane.from.stadd + HALF + at,
                               .rmt_stadd = lane.to.stadd,
                               .length = length,
                               .flags = UT_STRONG};
        void *unused;

        memset(data, 0, length);
        ut_submit(&comm);
        while (!last_byte_is(data, length, 0x7e))
            CHECK_RC(utofu_poll_tcq(comm.vcq, 0, &unused), UTOFU_ERR_NOT_FOUND);
        CHECK(all_bytes_are(data, length, 0x7e));
    }
    close_lane();
}

Test(put_get, last_byte_of_a_strong_order_get_is_last)
{
    run_layouts(last_byte_of_get, 1 << TWO_NODES | 1 << ONE_NODE);
}

static void strong_order(void *arg)
{
    enum { HALF = 1 << 16, PUTS = 8 };
    struct lane lane = open_lane(*(enum layout *)arg, HALF);

    /* a flag after data, only by polling memory; data and flag by different functions */
    for (uint64_t round = 1; round <= 300; round++) {
        struct ut_comm data = {.kind = UT_PUT,
                               .rmt = lane.to.id,
                               .lcl_stadd = lane.from.stadd,
                               .rmt_stadd = lane.to.stadd + HALF,
                               .length = HALF / 2};
        struct ut_comm flag = {.kind = UT_PIGGYBACK8,
                               .rmt = lane.to.id,
                               .data = &round,
                               .rmt_stadd = lane.to.stadd + HALF + HALF / 2,
                               .length = 8,
                               .flags = UT_STRONG};

        if (lane.origin != NULL) {
            data.vcq = flag.vcq = lane.origin->vcq;
            memset(lane.origin->mem, (int)(round & 0xff), HALF / 2);
            data.flags = UT_TCQ;
            ut_submit(&data);
            ut_submit(&flag);
            ut_expect_tcq(data.vcq, UTOFU_SUCCESS, NULL); /* the source may now change */
            ut_await_word((uint64_t *)(void *)(lane.origin->mem + HALF), round); /* answer */
        } else {
            const uint8_t *at = lane.target->mem + HALF;

            ut_await_word((const uint64_t *)(const void *)(at + HALF / 2), round);
            for (size_t i = 0; i < HALF / 2; i++)
                CHECK_EQ(at[i], round & 0xff);
            flag.vcq = lane.target->vcq;
            flag.rmt = lane.from.id;
            flag.rmt_stadd = lane.from.stadd + HALF;
            ut_submit(&flag);
        }
    }
    close_lane();
}

Test(put_get, strong_order_put_comes_after_the_earlier_ones)
{
    run_layouts(strong_order, 1 << TWO_NODES | 1 << ONE_NODE);
}

static void get_after_put(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);

    for (uint64_t round = 1; lane.origin != NULL && round <= 300; round++) {
        struct ut_comm put = {.kind = round % 2 ? UT_PUT : UT_PIGGYBACK8,
                              .vcq = lane.origin->vcq,
                              .rmt = lane.to.id,
                              .data = lane.origin->mem,
                              .lcl_stadd = lane.from.stadd,
                              .rmt_stadd = lane.to.stadd + 4096,
                              .length = 8};
        struct ut_comm get = put;
        struct utofu_mrq_notice want;

        get.kind = UT_GET;
        get.lcl_stadd = lane.from.stadd + 64;
        get.flags = UT_STRONG | UT_LCL;
        want = ut_lcl_notice(&get, 0);
        memcpy(lane.origin->mem, &round, 8);
        ut_submit(&put);
        ut_submit(&get);
        ut_expect_notice(put.vcq, &want);
        CHECK(memcmp(lane.origin->mem + 64, &round, 8) == 0);
    }
    close_lane();
}

Test(put_get, strong_order_get_reads_what_an_earlier_put_wrote)
{
    run_layouts(get_after_put, ANYWHERE);
}

/* NOPs, delayed starts, several descriptors at once */

static void nops(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);
    struct ut_comm nop = {.kind = UT_NOP, .vcq = lane.origin->vcq, .cbdata = &nop};
    static const unsigned long int ignored[] = {0, UT_LCL | UT_RMT, UT_STRONG,
                                                UTOFU_ONESIDED_FLAG_CACHE_INJECTION};

    for (size_t i = 0; i < NUM(ignored) * 4; i++) {
        nop.flags = ignored[i / 4] | (i % 2 ? UT_TCQ : 0);
        nop.prepared = i % 4 / 2 != 0;
        ut_submit(&nop);
        if (i % 2)
            ut_expect_tcq(nop.vcq, UTOFU_SUCCESS, &nop);
        ut_flush(lane.origin, &lane.to);
    }
    close_lane();
}

Test(put_get, nop_has_a_tcq_entry_and_no_notice)
{
    run_layouts(nops, 1 << SELF);
}

static void several(void *arg)
{
    enum { COUNT = 40, SLOT = 128 };
    struct lane lane = open_lane(*(enum layout *)arg, 65536);
    static uint64_t desc[COUNT * 4 * UT_DESC / 8];
    static struct ut_comm comm[COUNT];
    size_t total = 0, entries = 0;
    struct ut_rng rng = ut_rng_start(ut_seed());

    for (size_t i = 0; i < COUNT; i++) {
        enum ut_kind kind = (enum ut_kind)ut_rng_below(&rng, UT_NUM_KINDS);
        bool get = ut_is_get(kind);
        size_t size = 0;

        comm[i] = make_comm(kind, 8);
        comm[i].edata = i;
        comm[i].rmt = lane.to.id;
        comm[i].lcl_stadd = lane.from.stadd + (get ? lane.half : 0) + SLOT * i;
        comm[i].rmt_stadd = lane.to.stadd + (get ? 0 : lane.half) + SLOT * i;
        entries += ut_num_blocks(&comm[i]);
        if (lane.origin != NULL) {
            comm[i].vcq = lane.origin->vcq;
            comm[i].data = lane.origin->mem + SLOT * i;
            fill(comm[i].data, SLOT, i);
            CHECK_OK(ut_prepare(&comm[i], (uint8_t *)desc + total, &size));
            CHECK(size > 0 && size % 8 == 0 && size <= ut_num_blocks(&comm[i]) * UT_DESC);
        }
        total += size;
    }
    ut_barrier();
    for (int round = 0; round < 3; round++) { /* they may be posted repeatedly */
        if (lane.origin != NULL) {
            CHECK_OK(utofu_post_toq(lane.origin->vcq, desc, total, &entries));
            for (size_t i = 0; i < entries; i++)
                ut_expect_tcq(lane.origin->vcq, UTOFU_SUCCESS, &entries);
        }
        for (size_t i = 0; i < COUNT; i++) {
            if (lane.origin != NULL)
                expect_notices(lane.origin->vcq, &comm[i], lane.from.id, true, false);
            else
                expect_notices(lane.target->vcq, &comm[i], lane.from.id, false, true);
        }
        for (size_t i = 0; lane.target != NULL && i < COUNT; i++)
            for (size_t at = 0; ut_is_put(comm[i].kind) && at < 8; at++)
                CHECK_EQ(lane.target->mem[lane.half + SLOT * i + at], pattern(i, at));
        ut_barrier();
    }
    check_no_more(&lane);
    close_lane();
}

Test(put_get, several_prepared_descriptors_start_at_once_and_again)
{
    run_layouts(several, 1 << TWO_NODES | 1 << ONE_NODE);
}

static void post_bad(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);
    struct ut_end other;
    struct ut_comm comm = make_comm(UT_PUT, 8);
    uint64_t desc[UT_DESC / 8 + 2] = {0};
    utofu_vcq_hdl_t vcq = lane.origin->vcq;
    size_t size;

    comm.vcq = vcq;
    comm.rmt = lane.to.id;
    comm.lcl_stadd = lane.from.stadd;
    comm.rmt_stadd = lane.to.stadd;
    ut_end_open(&other, 0, 0, 4096);
    CHECK_OK(ut_prepare(&comm, desc, &size));
    CHECK_RC(utofu_post_toq(vcq, NULL, size, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_post_toq(vcq, (uint8_t *)desc + 1, size, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_post_toq(vcq, (uint8_t *)desc + 4, size, NULL), UTOFU_ERR_INVALID_POINTER);
    for (size_t cut = 1; cut < size; cut++)
        CHECK_RC(utofu_post_toq(vcq, desc, size - cut, NULL), UTOFU_ERR_INVALID_SIZE);
    CHECK_RC(utofu_post_toq(other.vcq, desc, size, NULL), UTOFU_ERR_INVALID_DESC);
    CHECK_OK(utofu_post_toq(vcq, NULL, 0, NULL));
    for (enum ut_kind kind = 0; kind < UT_NUM_KINDS; kind++) {
        comm.kind = kind;
        comm.data = &comm;
        comm.blocks = 1;
        CHECK_RC(ut_prepare(&comm, NULL, &size), UTOFU_ERR_INVALID_POINTER);
        CHECK_RC(ut_prepare(&comm, desc, NULL), UTOFU_ERR_INVALID_POINTER);
        CHECK_RC(ut_prepare(&comm, (uint8_t *)desc + 4, &size), UTOFU_ERR_INVALID_POINTER);
    }
    ut_flush(lane.origin, &lane.to); /* nothing was started */
    ut_end_close(&other);
    close_lane();
}

Test(put_get, post_and_prepare_refuse_bad_descriptors)
{
    run_layouts(post_bad, 1 << SELF);
}

enum { BY_POST, BY_START, BY_POST_OF_ONE, NUM_RELEASES };

static void delayed(void *arg)
{
    enum { EACH = 5 };
    struct lane lane = open_lane(*(enum layout *)arg, 4096);

    for (int round = 0; round < 12; round++) {
        int release = round % NUM_RELEASES;
        struct ut_comm comm = make_comm(round % 2 ? UT_PUT : UT_GET, 16);

        ut_step("round %d", round);
        comm.rmt = lane.to.id;
        comm.lcl_stadd = lane.from.stadd;
        comm.rmt_stadd = lane.to.stadd;
        comm.vcq = ends[0].vcq;
        for (uint64_t i = 0; i < EACH; i++) {
            comm.edata = i;
            comm.cbdata = &comm;
            comm.flags = all_notices;
            if (i < EACH - 1 || release == BY_POST)
                comm.flags |= UTOFU_ONESIDED_FLAG_DELAY_START;
            comm.prepared = i == EACH - 1 && release == BY_POST_OF_ONE;
            if (lane.origin != NULL)
                ut_submit(&comm);
        }
        if (lane.origin != NULL && release == BY_POST)
            CHECK_OK(utofu_post_toq(comm.vcq, NULL, 0, NULL));
        for (uint64_t i = 0; i < EACH; i++) {
            comm.edata = i;
            if (lane.origin != NULL)
                ut_expect_tcq(comm.vcq, UTOFU_SUCCESS, &comm);
            expect_notices(comm.vcq, &comm, lane.from.id, lane.origin != NULL, lane.target != NULL);
        }
    }
    check_no_more(&lane);
    close_lane();
}

Test(put_get, delayed_start_is_released_by_the_next_start_or_post)
{
    run_layouts(delayed, 1 << TWO_NODES | 1 << ONE_NODE);
}

/* A full TOQ */

/* Puts without polling until the TOQ is full. No communication is under way at the start. */
static size_t fill_toq(const struct ut_comm *template)
{
    struct ut_comm comm = *template;
    int rc = UTOFU_SUCCESS;
    uintptr_t count = 0;

    while (rc == UTOFU_SUCCESS && count < 3000000) {
        comm.cbdata = (void *)(count + 1);
        comm.edata = count % 256;
        rc = ut_start(&comm);
        count += rc == UTOFU_SUCCESS;
    }
    CHECK_RC(rc, UTOFU_ERR_BUSY);
    CHECK(count >= 2048, "busy after %zu", (size_t)count);
    return count;
}

static void toq_full(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);
    struct ut_comm comm = make_comm(UT_PIGGYBACK8, 8);

    comm.rmt = lane.to.id;
    comm.data = &comm;
    comm.rmt_stadd = lane.to.stadd;
    comm.flags = UT_TCQ | UT_RMT;
    for (int round = 0; round < 3; round++) {
        size_t count = 0;

        if (lane.origin != NULL) {
            struct ut_comm stride = make_comm(UT_PUT_STRIDE, 0);

            comm.vcq = stride.vcq = lane.origin->vcq;
            stride.rmt = lane.to.id;
            stride.lcl_stadd = lane.from.stadd;
            stride.rmt_stadd = lane.to.stadd;
            ut_flush(lane.origin,
                     &lane.to); /* including the marker of the last round, which has no notice */
            count = fill_toq(&comm);
            for (int i = 0; i < 5; i++)
                CHECK_RC(ut_start(&comm), UTOFU_ERR_BUSY);
            stride.prepared = round % 2 != 0;
            CHECK_RC(ut_start(&stride), UTOFU_ERR_BUSY);
            for (uintptr_t i = 0; i < count; i++)
                ut_expect_tcq(comm.vcq, UTOFU_SUCCESS, (void *)(i + 1));
            ut_flush(lane.origin, &lane.to); /* the refused ones were not started */
        }
        uint64_t counts[2] = {count, 0}, all[4];
        ut_allgather(counts, all, sizeof(counts));
        for (uint64_t i = 0; lane.target != NULL && i < all[0]; i++) {
            comm.edata = i % 256;
            expect_notices(lane.target->vcq, &comm, lane.from.id, false, true);
        }
        check_no_more(&lane);
    }
    close_lane();
}

Test(put_get, full_toq_is_busy_until_polled_and_holds_2048)
{
    run_layouts(toq_full, APART);
}

static void toq_full_silent(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);
    struct ut_comm comm = make_comm(UT_PUT, 64);

    comm.rmt = lane.to.id;
    comm.lcl_stadd = lane.from.stadd;
    comm.rmt_stadd = lane.to.stadd;
    comm.flags = 0;
    for (int i = 0; lane.origin != NULL && i < 20000; i++) {
        comm.vcq = lane.origin->vcq;
        CHECK_EQ(ut_start_busy(&comm), 0);
    }
    if (lane.origin != NULL)
        ut_flush(lane.origin, &lane.to);
    close_lane();
}

Test(put_get, poll_makes_room_where_no_notice_was_asked_for)
{
    run_layouts(toq_full_silent, APART_AND_SELF);
}

/* A failure is reported in order: after an unsignalled put without notices. */
static void failure_behind_unsignalled(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);
    void *cbdata;

    if (lane.origin != NULL)
        ut_flush(lane.origin, &lane.to);
    for (int i = 0; lane.origin != NULL && i < 40; i++) {
        utofu_vcq_hdl_t vcq = lane.origin->vcq;
        struct ut_comm put = make_comm(UT_PUT, 64), get = make_comm(UT_GET, 64);

        put.vcq = get.vcq = vcq;
        put.rmt = get.rmt = lane.to.id;
        put.lcl_stadd = lane.from.stadd;
        put.rmt_stadd = get.rmt_stadd = lane.to.stadd;
        put.flags = 0;
        get.lcl_stadd = 1000ull << 40; /* not registered */
        get.edata = (uint64_t)i;
        get.flags = i % 2 ? UT_TCQ : 0;
        ut_submit(&put);
        ut_submit(&get);
        if (i % 2) /* each queue by itself */
            CHECK_OK(ut_await_tcq(vcq, &cbdata));
        ut_expect_error(vcq, UTOFU_ERR_MRQ_LCL_STADD, UTOFU_MRQ_TYPE_LCL_GET, lane.to.id,
                        get.edata);
        ut_expect_nothing(vcq);
    }
    if (lane.origin != NULL)
        ut_flush(lane.origin, &lane.to);
    close_lane();
}

Test(put_get, a_failure_is_reported_behind_an_unsignalled_put)
{
    run_layouts(failure_behind_unsignalled, APART_AND_SELF);
}

static void unread(void *arg)
{
    enum { COUNT = 50 };
    struct lane lane = open_lane(*(enum layout *)arg, 4096);
    struct ut_comm comm = make_comm(UT_PIGGYBACK8, 8);
    utofu_vcq_hdl_t vcq = lane.origin->vcq;
    struct utofu_mrq_notice notice;
    size_t count = 77;

    CHECK_OK(utofu_query_num_unread_tcq(vcq, &count));
    CHECK_EQ(count, 0);
    CHECK_OK(utofu_query_num_unread_mrq(vcq, &count));
    CHECK_EQ(count, 0);
    comm.vcq = vcq;
    comm.rmt = lane.to.id;
    comm.data = &comm;
    comm.rmt_stadd = lane.to.stadd;
    comm.flags = UT_TCQ | UT_LCL;
    for (int i = 0; i < COUNT; i++)
        ut_submit(&comm);
    for (size_t i = 1; i <= COUNT; i++) {
        ut_expect_tcq(vcq, UTOFU_SUCCESS, NULL);
        CHECK_OK(utofu_query_num_unread_tcq(vcq, &count));
        CHECK(count <= COUNT - i, "%zu unread after %zu of %d", count, i, COUNT);
    }
    CHECK_EQ(count, 0);
    for (size_t i = 1; i <= COUNT; i++) {
        CHECK_OK(ut_await_mrq(vcq, &notice));
        CHECK_OK(utofu_query_num_unread_mrq(vcq, &count));
        CHECK(count <= COUNT - i, "%zu unread after %zu of %d", count, i, COUNT);
    }
    CHECK_EQ(count, 0);
    CHECK_RC(utofu_query_num_unread_tcq(vcq, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_query_num_unread_mrq(vcq, NULL), UTOFU_ERR_INVALID_POINTER);
    close_lane();
}

/* Puts with a local notice each, which are taken when all have arrived. */
static void fill_own_mrq(void *arg)
{
    size_t count = *(size_t *)arg, unread = 0;
    struct utofu_mrq_notice notice;
    struct ut_end end;

    ut_end_open(&end, 0, 0, 4096);
    for (size_t i = 0; i < count; i++) {
        struct ut_comm comm = {.kind = UT_PIGGYBACK8,
                               .vcq = end.vcq,
                               .rmt = end.id,
                               .data = &comm,
                               .rmt_stadd = end.stadd,
                               .length = 8,
                               .flags = UT_LCL};
        ut_start_busy(&comm);
    }
    while (unread < count)
        CHECK_OK(utofu_query_num_unread_mrq(end.vcq, &unread));
    while (count-- > 0)
        CHECK_OK(utofu_poll_mrq(end.vcq, 0, &notice));
    CHECK_RC(utofu_poll_mrq(end.vcq, 0, &notice), UTOFU_ERR_NOT_FOUND);
    ut_end_close(&end);
}

Test(put_get, mrq_holds_as_many_notices_as_it_has_entries_and_none_more)
{
    static struct ut_outcome out;
    static char report[16384];
    const struct ut_run_opts opts = {.n = 1, .may_die = 1, .env = {"UTOFU_NUM_MRQ_ENTRIES=2048"}};

    ut_run(&opts, fill_own_mrq, &(size_t){2048});
    ut_run_collect(&opts, fill_own_mrq, &(size_t){2049}, &out, report, sizeof(report));
    if (out.elsewhere)
        return;
    cr_assert(WIFEXITED(out.status) && WEXITSTATUS(out.status) == 1, "%s", report);
    cr_assert_not_null(strstr(out.output, "utofu: asynchronous error: MRQ Overflow on TNI 0 CQ"),
                       "%s", report);
}

Test(put_get, number_unread_goes_down_to_zero)
{
    run_layouts(unread, 1 << SELF);
}

static void poll_bad(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);
    utofu_vcq_hdl_t vcq = lane.origin->vcq;
    struct utofu_mrq_notice notice, untouched;
    void *cbdata = &notice;

    memset(&notice, 0x3c, sizeof(notice));
    untouched = notice;
    CHECK_RC(utofu_poll_tcq(vcq, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_poll_mrq(vcq, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    for (int bit = 0; bit < 64; bit++) {
        CHECK_RC(utofu_poll_tcq(vcq, 1ul << bit, &cbdata), UTOFU_ERR_INVALID_FLAGS);
        CHECK_RC(utofu_poll_mrq(vcq, 1ul << bit, &notice), UTOFU_ERR_INVALID_FLAGS);
    }
    CHECK_RC(utofu_poll_tcq(vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
    CHECK_RC(utofu_poll_mrq(vcq, 0, &notice), UTOFU_ERR_NOT_FOUND);
    CHECK(cbdata == &notice && memcmp(&notice, &untouched, sizeof(notice)) == 0,
          "written though nothing was found");
    close_lane();
}

Test(put_get, poll_refuses_bad_arguments_and_writes_nothing_for_nothing)
{
    run_layouts(poll_bad, 1 << SELF);
}

/* Errors of one communication. The addresses that both sides need are gathered first. */

struct places {
    utofu_stadd_t good, gone, read_only, small; /* registered; deregistered; flags; 256 bytes */
};

static struct places make_places(struct ut_end *end)
{
    struct places places = {.good = end->stadd};

    CHECK_OK(utofu_reg_mem(end->vcq, end->mem + 256, 256, 0, &places.small));
    CHECK_OK(
        utofu_reg_mem(end->vcq, end->mem, 4096, UTOFU_REG_MEM_FLAG_READ_ONLY, &places.read_only));
    CHECK_OK(utofu_reg_mem(end->vcq, end->mem + 1024, 64, 0, &places.gone));
    CHECK_OK(utofu_dereg_mem(end->vcq, places.gone, 0));
    return places;
}

enum side { LCL, RMT };

/* `rc` is the expected code; errors of the local side of a get may be in the TCQ or in the MRQ. */
struct fault {
    const char *what;
    enum ut_kind kind;
    enum side side; /* whose STADD is wrong */
    enum { GONE, NEVER, BEYOND, BEFORE, END_BEYOND, FAR_BEYOND, READ_ONLY } how;
    int rc, rc_mrq;
};

static const struct fault faults[] = {
    {"put to memory that is gone", UT_PUT, RMT, GONE, 0, UTOFU_ERR_MRQ_RMT_STADD},
    {"put to a STag never used", UT_PUT, RMT, NEVER, 0, UTOFU_ERR_MRQ_RMT_STADD},
    {"put far behind a region", UT_PUT, RMT, BEYOND, 0, UTOFU_ERR_MRQ_RMT_STADD},
    {"put before a region", UT_PUT, RMT, BEFORE, 0, UTOFU_ERR_MRQ_RMT_STADD},
    {"put one past the end", UT_PUT, RMT, END_BEYOND, 0, UTOFU_ERR_MRQ_RMT_LENGTH},
    {"put far past the end", UT_PUT, RMT, FAR_BEYOND, 0, UTOFU_ERR_MRQ_RMT_LENGTH},
    {"put to read-only memory", UT_PUT, RMT, READ_ONLY, 0, UTOFU_ERR_MRQ_RMT_MEMORY},
    {"piggyback to memory that is gone", UT_PIGGYBACK, RMT, GONE, 0, UTOFU_ERR_MRQ_RMT_STADD},
    {"piggyback one past the end", UT_PIGGYBACK, RMT, END_BEYOND, 0, UTOFU_ERR_MRQ_RMT_LENGTH},
    {"piggyback8 to read-only memory", UT_PIGGYBACK8, RMT, READ_ONLY, 0, UTOFU_ERR_MRQ_RMT_MEMORY},
    {"piggyback8 to a STag never used", UT_PIGGYBACK8, RMT, NEVER, 0, UTOFU_ERR_MRQ_RMT_STADD},
    {"get from memory that is gone", UT_GET, RMT, GONE, 0, UTOFU_ERR_MRQ_RMT_STADD},
    {"get from a STag never used", UT_GET, RMT, NEVER, 0, UTOFU_ERR_MRQ_RMT_STADD},
    {"get far behind a region", UT_GET, RMT, BEYOND, 0, UTOFU_ERR_MRQ_RMT_STADD},
    {"get one past the end", UT_GET, RMT, END_BEYOND, 0, UTOFU_ERR_MRQ_RMT_LENGTH},
    {"put from memory that is gone", UT_PUT, LCL, GONE, UTOFU_ERR_TCQ_STADD, 0},
    {"put from a STag never used", UT_PUT, LCL, NEVER, UTOFU_ERR_TCQ_STADD, 0},
    {"put from far behind a region", UT_PUT, LCL, BEYOND, UTOFU_ERR_TCQ_STADD, 0},
    {"put from one past the end", UT_PUT, LCL, END_BEYOND, UTOFU_ERR_TCQ_LENGTH, 0},
    {"put from far past the end", UT_PUT, LCL, FAR_BEYOND, UTOFU_ERR_TCQ_LENGTH, 0},
    {"get to memory that is gone", UT_GET, LCL, GONE, UTOFU_ERR_TCQ_STADD, UTOFU_ERR_MRQ_LCL_STADD},
    {"get to a STag never used", UT_GET, LCL, NEVER, UTOFU_ERR_TCQ_STADD, UTOFU_ERR_MRQ_LCL_STADD},
    {"get to one past the end", UT_GET, LCL, END_BEYOND, UTOFU_ERR_TCQ_LENGTH,
     UTOFU_ERR_MRQ_LCL_LENGTH},
    {"get to read-only memory", UT_GET, LCL, READ_ONLY, UTOFU_ERR_TCQ_MEMORY,
     UTOFU_ERR_MRQ_LCL_MEMORY},
};

static utofu_stadd_t wrong_stadd(const struct places *places, const struct fault *fault,
                                 size_t length)
{
    switch (fault->how) {
    case GONE:
        return places->gone;
    case NEVER:
        return 0x1f0ull << 48 | 0x10;
    case BEYOND:
        return places->small + 256 + 4096;
    case BEFORE:
        return places->small - 1;
    case END_BEYOND:
        return places->small + 256 - length + 1;
    case FAR_BEYOND:
        return places->small + 255;
    default:
        return places->read_only + 512;
    }
}

/* A good communication, a bad one and a good one, started without waiting. */
static void check_fault(const struct lane *lane, const struct places *from, const struct places *to,
                        const struct fault *fault, unsigned long int flags)
{
    struct ut_comm comm[3];
    utofu_vcq_hdl_t vcq = ends[0].vcq;
    int tcq[3] = {0, 0, 0};

    ut_step("%s, flags 0x%lx", fault->what, flags);
    for (int i = 0; i < 3; i++) {
        comm[i] = make_comm(i == 1 ? fault->kind : UT_PUT, 8);
        comm[i].vcq = vcq;
        comm[i].rmt = lane->to.id;
        comm[i].data = ends[0].mem;
        comm[i].lcl_stadd = from->good + 8;
        comm[i].rmt_stadd = to->good + 2048 + 8 * (size_t)i;
        comm[i].edata = (uint64_t)i;
        comm[i].flags = i == 1 ? flags : all_notices;
        comm[i].cbdata = &comm[i];
    }
    if (fault->side == LCL)
        comm[1].lcl_stadd = wrong_stadd(from, fault, 8);
    else
        comm[1].rmt_stadd = wrong_stadd(to, fault, 8);
    if (lane->origin != NULL) {
        for (int i = 0; i < 3; i++)
            ut_submit(&comm[i]);
        for (int i = 0; i < 3; i++) {
            void *cbdata;

            if (i == 1 && !(flags & UT_TCQ) && fault->rc_mrq != 0 && fault->rc == 0)
                continue;
            tcq[i] = ut_await_tcq(vcq, &cbdata);
            if (i == 1 && cbdata != &comm[1] && fault->rc_mrq != 0 && !(flags & UT_TCQ)) {
                CHECK(cbdata == &comm[2]); /* the get's error is in the MRQ */
                break;
            }
            CHECK(cbdata == &comm[i]);
        }
        CHECK_OK(tcq[0]);
        CHECK_OK(tcq[2]);
        if (tcq[1] != UTOFU_SUCCESS)
            CHECK_RC(tcq[1], fault->rc);
        else
            CHECK(fault->rc_mrq != 0, "%s had no error in the TCQ", fault->what);
        expect_notices(vcq, &comm[0], lane->from.id, true, false);
        if (tcq[1] == UTOFU_SUCCESS)
            ut_expect_error(vcq, fault->rc_mrq,
                            fault->kind == UT_GET ? UTOFU_MRQ_TYPE_LCL_GET : UTOFU_MRQ_TYPE_LCL_PUT,
                            lane->to.id, 1);
        expect_notices(vcq, &comm[2], lane->from.id, true, false);
    }
    if (lane->target != NULL) {
        expect_notices(lane->target->vcq, &comm[0], lane->from.id, false, true);
        expect_notices(lane->target->vcq, &comm[2], lane->from.id, false, true);
    }
    check_no_more(lane);
}

static void errors(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);
    struct places all[2], mine = make_places(&ends[0]);
    uint8_t *before = malloc(8192);

    if (lane.target == &ends[1])
        all[1] = make_places(&ends[1]);
    else
        ut_allgather(&mine, all, sizeof(mine));
    all[0] = ut_rank == 0 ? mine : all[0];
    memset(ends[0].mem + 8, 0xab, 8);
    memcpy(before, ends[0].mem, 8192);
    for (size_t i = 0; i < NUM(faults); i++) {
        check_fault(&lane, &all[0], &all[1], &faults[i], all_notices);
        check_fault(&lane, &all[0], &all[1], &faults[i],
                    0); /* errors have notices without a flag */
    }
    /* good data has arrived, bad data has not */
    if (lane.target != NULL) {
        CHECK_EQ(lane.target->mem[2048], 0xab);
        CHECK_EQ(lane.target->mem[2048 + 8], 0);
        CHECK_EQ(lane.target->mem[2048 + 16], 0xab);
        for (size_t i = 16; i < 2048; i++)
            CHECK_EQ(lane.target->mem[i], 0);
    } else {
        CHECK(memcmp(ends[0].mem, before, 8192) == 0, "the origin's memory has changed");
    }
    free(before);
    close_lane();
}

Test(put_get, errors_are_exact_and_affect_no_other_communication)
{
    run_layouts(errors, 1 << TWO_NODES | 1 << ONE_NODE | 1 << TWO_VCQS);
}

/* A word in memory that is mapped is moved by this CPU, and its TOQ entry is not encoded: after
 * others have used the same entries, its notices are nevertheless those asked for. */
static void mapped_words(void *arg)
{
    static const enum ut_kind kinds[] = {UT_PUT, UT_PIGGYBACK, UT_PIGGYBACK8, UT_GET};
    static const unsigned long int flags[] = {UT_TCQ, UT_LCL, UT_TCQ | UT_LCL, 0};
    enum { ENTRIES = 2048, WORDS = 2 * ENTRIES, SIZE = 4096 };
    struct ut_end end;
    struct ut_peer peers[2];
    uint64_t word = 0;
    char cbdata[WORDS];

    (void)arg;
    ut_open_all(&end, SIZE, peers);
    for (size_t i = 0; ut_rank == 0 && i < WORDS; i++) {
        struct ut_comm comm = {.kind = kinds[i / 4 % NUM(kinds)],
                               .vcq = end.vcq,
                               .rmt = peers[1].id,
                               .lcl_stadd = end.stadd + i % 256 * 8,
                               .data = &word,
                               .rmt_stadd = peers[1].stadd + 2048 + i % 256 * 8,
                               .length = 8,
                               .edata = i % 256,
                               .flags = i < ENTRIES ? UT_TCQ | UT_LCL : flags[i % NUM(flags)],
                               .cbdata = &cbdata[i]};
        word = i;
        ut_submit(&comm);
        if (comm.flags & UT_LCL) {
            struct utofu_mrq_notice want = ut_lcl_notice(&comm, 0);
            ut_expect_notice(end.vcq, &want);
        }
        if (comm.flags & UT_TCQ)
            ut_expect_tcq(end.vcq, UTOFU_SUCCESS, comm.cbdata);
        ut_expect_nothing(end.vcq);
    }
    ut_close_all(&end);
}

Test(put_get, words_of_mapped_memory_have_the_notices_asked_for)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_SHM_MAP=eager"}}, mapped_words, NULL);
}

enum { GONE_MS = 8000 }; /* UTOFU_PEER_TIMEOUT */

static void no_such_vcq(void *arg)
{
    struct lane lane = open_lane(*(enum layout *)arg, 4096);
    struct ut_comm comm = make_comm(UT_PUT, 8);
    struct utofu_mrq_notice notice;
    utofu_vcq_hdl_t short_lived;
    utofu_vcq_id_t id, ids[2];
    uint64_t passed_ms;

    CHECK_OK(utofu_create_vcq(2, 0, &short_lived));
    CHECK_OK(utofu_query_vcq_id(short_lived, &id));
    CHECK_OK(utofu_free_vcq(short_lived));
    ut_allgather(&id, ids, sizeof(id));
    if (lane.origin != NULL) {
        comm.vcq = lane.origin->vcq;
        comm.rmt = ids[1];
        comm.lcl_stadd = lane.from.stadd;
        comm.rmt_stadd = lane.to.stadd;
        comm.cbdata = &comm;
        ut_submit(&comm);
        int rc = ut_await_mrq_moving(comm.vcq, &notice, &passed_ms);
        ut_expect_tcq(comm.vcq, UTOFU_SUCCESS, &comm);
        CHECK(rc <= UTOFU_ERR_MRQ_OTHER && rc >= UTOFU_ERR_MRQ_RMT_LENGTH, "%s", ut_rc_name(rc));
        CHECK_EQ(notice.vcq_id, ids[1]);
        CHECK(passed_ms + 20 >= GONE_MS, "%llu ms", (unsigned long long)passed_ms);
    }
    transfer(&lane, make_comm(UT_PUT, 8), 0, 0, 1);
    close_lane();
}

Test(put_get, put_to_a_vcq_that_is_gone_is_an_mrq_error)
{
    /* a VCQ that is not there is looked for until then */
    run_layouts_with("UTOFU_PEER_TIMEOUT=8", no_such_vcq, 1 << TWO_NODES | 1 << ONE_NODE);
}
