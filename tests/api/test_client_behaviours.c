/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Behaviours on which existing programs rely, partly beyond the manual: a group of tests for each,
 * c1, c2 and so on.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>

TestSuite(client);

static void run(int n, int nodes, ut_body_fn *body)
{
    ut_run(&(struct ut_run_opts){.n = n, .nodes = nodes}, body, NULL);
}

static void run_env(int n, const char *env, ut_body_fn *body)
{
    ut_run(&(struct ut_run_opts){.n = n, .env = {env}}, body, NULL);
}

/* A put of eight bytes between the buffers of two ends. */
static struct ut_comm put8(const struct ut_end *from, const struct ut_peer *to, size_t offset)
{
    return (struct ut_comm){.kind = UT_PUT,
                            .vcq = from->vcq,
                            .rmt = to->id,
                            .lcl_stadd = from->stadd,
                            .rmt_stadd = to->stadd + offset,
                            .length = 8,
                            .data = from->mem};
}

/* 1: the local notice of a put comes before the peer's reply to it */

static void local_before_reply(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (uint64_t round = 0; round < 3000; round++) {
        struct ut_comm mine = put8(&end, &peers[!ut_rank], 64),
                       theirs = put8(&end, &peers[!ut_rank], 64);
        struct utofu_mrq_notice sent, received;

        mine.kind = round % 3 == 0 ? UT_PIGGYBACK8 : UT_PUT;
        mine.edata = theirs.edata = round % 256;
        mine.flags = UT_TCQ | UT_LCL | UT_RMT | (round % 2 ? UT_STRONG : 0);
        sent = ut_lcl_notice(&mine, 0);
        theirs.rmt_stadd = end.stadd + 64;
        received = ut_rmt_notice(&theirs, 0, peers[!ut_rank].id);
        ut_step("round %llu", (unsigned long long)round);
        if (ut_rank == 1)
            ut_expect_notice(end.vcq, &received);
        ut_submit(&mine);
        ut_expect_tcq(end.vcq, UTOFU_SUCCESS, NULL);
        ut_expect_notice(end.vcq, &sent); /* and no other one first */
        if (ut_rank == 0)
            ut_expect_notice(end.vcq, &received);
    }
    ut_close_all(&end);
}

Test(client, c1_local_notice_comes_before_the_reply)
{
    run(2, 2, local_before_reply);
    run(2, 1, local_before_reply);
}

/* 2: arrival is detected by polling the last word, or line by line without STRONG_ORDER. (By 2.2.10
 * any word of a line shows that the whole line has arrived. Neither a CPU that copies nor a PCIe
 * bus guarantees this for 256 bytes; programs poll the last word.) */

static void line_by_line(void *arg)
{
    enum { SIZE = 256 * 64 };
    struct utofu_onesided_caps *caps;
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    CHECK_OK(utofu_query_onesided_caps(0, &caps));
    size_t size = caps->cache_line_size; /* 256, or shorter where the adapter promises less */
    ut_open_all(&end, 2 * SIZE, peers);
    for (uint64_t round = 1; round <= 200; round++) {
        struct ut_comm comm = put8(&end, &peers[!ut_rank], SIZE);
        uint64_t *out = (uint64_t *)(void *)end.mem;
        const uint64_t *in = (const uint64_t *)(const void *)(end.mem + SIZE);

        comm.length = SIZE;
        comm.flags = UT_LCL;
        for (size_t i = 0; i < SIZE / 8; i++)
            out[i] = round;
        if (ut_rank == (int)(round % 2)) {
            struct utofu_mrq_notice notice;

            ut_submit(&comm);
            CHECK_OK(ut_await_mrq(end.vcq, &notice));
        } else {
            for (size_t line = 0; line < SIZE / size; line++) {
                const uint64_t *at = in + line * size / 8;

                ut_await_word(at + size / 8 - 1, round);
                for (size_t i = 0; i < size / 8; i++)
                    CHECK_EQ(at[i], round);
            }
        }
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(client, c2_last_word_of_every_line_is_its_last)
{
    run(2, 2, line_by_line);
}

static void memory_ping_pong(void *arg)
{
    enum { SIZE = 1 << 16 };
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 2 * SIZE, peers);
    for (uint64_t round = 1; round <= 1000; round++) {
        struct ut_comm comm = put8(&end, &peers[!ut_rank], SIZE);
        uint64_t *out = (uint64_t *)(void *)end.mem;
        const uint64_t *in = (const uint64_t *)(const void *)(end.mem + SIZE);
        size_t words = 1 + (size_t)(round * 37 % 1000);
        void *cbdata;

        comm.length = words * 8;
        comm.flags = UT_STRONG; /* without queues */
        if (ut_rank == 1)
            ut_await_word(&in[words - 1], round);
        for (size_t i = 0; ut_rank == 1 && i < words; i++)
            CHECK_EQ(in[i], round);
        for (size_t i = 0; i < words; i++)
            out[i] = round;
        ut_submit(&comm);
        if (ut_rank == 0)
            ut_await_word(&in[words - 1], round);
        CHECK_RC(utofu_poll_tcq(end.vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
    }
    ut_flush(&end, &peers[!ut_rank]);
    ut_close_all(&end);
}

Test(client, c2_ping_pong_by_memory_alone)
{
    run(2, 2, memory_ping_pong);
    run(2, 1, memory_ping_pong);
}

/* 3: a put to a reserved STag that is not registered yet */

static void not_yet_registered(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[3];
    struct utofu_mrq_notice notice;
    uint8_t *late = ut_pages(4096);
    utofu_stadd_t stadd, mine;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (int round = 0; round < 3; round++) {
        if (ut_rank == 0) {
            struct ut_comm comm = put8(&end, &peers[1], 0), other = put8(&end, &peers[2], 64);

            CHECK_OK(utofu_query_stadd(peers[1].id, 7, &stadd));
            comm.rmt_stadd = stadd + 16;
            comm.edata = 1;
            comm.flags = UT_TCQ | UT_LCL | UT_RMT;
            other.flags = UT_LCL;
            end.mem[0] = (uint8_t)(0x60 + round);
            for (int i = 0; i < 5; i++) { /* too early */
                comm.kind = i % 2 ? UT_PUT : UT_PIGGYBACK8;
                ut_submit(&comm);
                ut_expect_tcq(end.vcq, UTOFU_SUCCESS, NULL);
                ut_expect_error(end.vcq, UTOFU_ERR_MRQ_RMT_STADD, UTOFU_MRQ_TYPE_LCL_PUT,
                                peers[1].id, 1);
                ut_submit(&other); /* and to another process */
                CHECK_OK(ut_await_mrq(end.vcq, &notice));
            }
            ut_barrier();
            ut_barrier(); /* now it is registered */
            ut_submit(&comm);
            ut_expect_tcq(end.vcq, UTOFU_SUCCESS, NULL);
            CHECK_OK(ut_await_mrq(end.vcq, &notice));
        } else {
            ut_barrier();
            if (ut_rank == 1)
                CHECK_OK(utofu_reg_mem_with_stag(end.vcq, late, 256u << round, 7, 0, &mine));
            ut_barrier();
            if (ut_rank == 1) {
                CHECK_OK(ut_await_mrq(end.vcq, &notice));
                CHECK_EQ(notice.vcq_id, peers[0].id);
                CHECK_EQ(late[16], 0x60 + round);
                CHECK_OK(utofu_dereg_mem(end.vcq, mine, 0));
            }
        }
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(client, c3_put_to_a_stag_not_registered_yet_works_later)
{
    run(3, 3, not_yet_registered);
    run(3, 1, not_yet_registered);
}

static void retried_until_there(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    uint8_t *late = ut_pages(4096);
    utofu_stadd_t stadd;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    if (ut_rank == 1) {
        ut_random_delay(20000);
        CHECK_OK(utofu_reg_mem_with_stag(end.vcq, late, 4096, 200, 0, &stadd));
        ut_await_byte(late + 3000, 0x5e); /* the origin has no information about this process */
        ut_barrier();
        CHECK_OK(utofu_dereg_mem(end.vcq, stadd, 0));
    } else {
        struct ut_comm comm = put8(&end, &peers[1], 0);
        struct utofu_mrq_notice notice;
        int rc;

        CHECK_OK(utofu_query_stadd(peers[1].id, 200, &stadd));
        comm.rmt_stadd = stadd + 3000;
        comm.flags = UT_LCL;
        memset(end.mem, 0x5e, 8);
        do {
            ut_submit(&comm);
            rc = ut_await_mrq(end.vcq, &notice);
        } while (rc == UTOFU_ERR_MRQ_RMT_STADD);
        CHECK_OK(rc);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(client, c3_put_is_retried_until_the_memory_is_there)
{
    run(2, 2, retried_until_there);
}

/* 4: construct_vcq_id and query_stadd are computed locally, and right */

static void computed_before(void *arg)
{
    uint8_t coords[6], all[2][6];
    utofu_vcq_id_t id, made;
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd, given;
    uint8_t *mem = ut_pages(4096);

    (void)arg;
    CHECK_OK(utofu_query_my_coords(coords));
    ut_allgather(coords, all, sizeof(coords));
    /* of the other process, which has only queried its coordinates so far */
    CHECK_OK(utofu_construct_vcq_id(all[!ut_rank], 3, 0, 0, &made));
    CHECK_OK(utofu_query_stadd(made, 9, &stadd));
    ut_barrier();
    CHECK_OK(utofu_create_vcq_with_cmp_id(3, 0, 0, &vcq));
    CHECK_OK(utofu_query_vcq_id(vcq, &id));
    CHECK_OK(utofu_reg_mem_with_stag(vcq, mem, 4096, 9, 0, &given));
    utofu_vcq_id_t mine[2] = {id, given}, both[4];
    ut_allgather(mine, both, sizeof(mine));
    CHECK_EQ(both[2 * !ut_rank], made);
    CHECK_EQ(both[2 * !ut_rank + 1], stadd);
    /* and puts with these ids arrive there */
    struct ut_comm comm = {.kind = UT_PIGGYBACK8,
                           .vcq = vcq,
                           .rmt = made,
                           .data = coords,
                           .rmt_stadd = stadd + 8,
                           .length = 6,
                           .flags = UT_RMT};
    struct utofu_mrq_notice want = ut_rmt_notice(&comm, 0, made);
    ut_submit(&comm);
    want.rmt_stadd = given + 14;
    ut_expect_notice(vcq, &want);
    CHECK(memcmp(mem + 8, all[!ut_rank], 6) == 0);
    ut_barrier();
    CHECK_OK(utofu_dereg_mem(vcq, given, 0));
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(client, c4_first_vcq_of_a_node_is_cq_0_component_0)
{
    run(2, 2, computed_before);
}

/* 5: STADD arithmetic; the low 16 bits; the vendor's layout */

static void stadd_arithmetic(void *arg)
{
    enum { SIZE = 300000 };
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, SIZE, peers);
    CHECK_EQ(end.stadd & 0xffff, (uintptr_t)end.mem & 0xffff);
    CHECK((end.stadd >> 40 & 0x3ffff) >= 0x1000);
    for (size_t offset = 1; ut_rank == 0 && offset < SIZE - 8; offset += 7777) {
        struct ut_comm comm = put8(&end, &peers[1], offset);

        memset(end.mem + offset, (int)(offset & 0xff), 8);
        comm.lcl_stadd = end.stadd + offset;
        ut_submit(&comm);
    }
    if (ut_rank == 0)
        ut_flush(&end, &peers[1]);
    ut_barrier();
    for (size_t offset = 1; ut_rank == 1 && offset < SIZE - 8; offset += 7777)
        for (size_t i = 0; i < 8; i++)
            CHECK_EQ(end.mem[offset + i], offset & 0xff);
    ut_close_all(&end);
}

Test(client, c5_stadds_are_added_to)
{
    run(2, 2, stadd_arithmetic);
}

/* 6, 7: the origin's own id in a remote notice; the STADD also in rmt_value */

static int compare_ids(const void *a, const void *b)
{
    utofu_vcq_id_t left = *(const utofu_vcq_id_t *)a, right = *(const utofu_vcq_id_t *)b;

    return left < right ? -1 : left > right;
}

static void search_by_id(void *arg)
{
    enum { EACH = 20 };
    struct ut_end end;
    struct ut_peer peers[6];
    utofu_vcq_id_t table[6];
    int seen[6] = {0};

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (int rank = 0; rank < ut_size; rank++)
        table[rank] = peers[rank].id;
    qsort(table, (size_t)ut_size, sizeof(table[0]), compare_ids);
    for (int i = 0; i < EACH * ut_size; i++) {
        struct ut_peer to = peers[i % ut_size];
        struct ut_comm comm;

        CHECK_OK(utofu_set_vcq_id_path(&to.id, i % 2 ? NULL : (uint8_t[]){1, (uint8_t)(i % 3), 0}));
        comm = put8(&end, &to, 8 * (size_t)ut_rank);
        comm.edata = (uint64_t)ut_rank;
        comm.flags = UT_RMT;
        ut_submit(&comm);
    }
    for (int i = 0; i < EACH * ut_size; i++) {
        struct utofu_mrq_notice notice;

        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        CHECK_EQ(notice.notice_type, UTOFU_MRQ_TYPE_RMT_PUT);
        CHECK(bsearch(&notice.vcq_id, table, (size_t)ut_size, sizeof(table[0]), compare_ids),
              "0x%llx is nobody's id", (unsigned long long)notice.vcq_id);
        CHECK(notice.edata < 6 && peers[notice.edata].id == notice.vcq_id);
        CHECK_EQ(notice.rmt_stadd, end.stadd + 8 * notice.edata + 8);
        CHECK_EQ(notice.rmt_value, notice.rmt_stadd); /* 7 */
        seen[notice.edata]++;
    }
    for (int rank = 0; rank < ut_size; rank++)
        CHECK_EQ(seen[rank], EACH);
    ut_close_all(&end);
}

Test(client, c6_c7_remote_notice_has_the_id_its_origin_knows_and_the_stadd_twice)
{
    run(6, 3, search_by_id);
}

/* 9: TNIs 0..5 exist; 8 VCQs on each; the allocation of CQs is configurable */

static void eight_on_each_tni(void *arg)
{
    utofu_vcq_hdl_t vcq[48];

    (void)arg;
    for (size_t i = 0; i < 48; i++)
        CHECK_OK(utofu_create_vcq((utofu_tni_id_t)(i % 6), 0, &vcq[i]));
    ut_barrier(); /* all processes of the node have VCQs at the same time */
    for (size_t i = 0; i < 48; i++)
        CHECK_OK(utofu_free_vcq(vcq[i]));
}

Test(client, c9_eight_vcqs_on_each_of_six_tnis_for_four_processes)
{
    run(1, 1, eight_on_each_tni);
    run(4, 1, eight_on_each_tni);
}

static void check_cq(utofu_cq_id_t expected, utofu_cmp_id_t cmp)
{
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id, made;
    uint8_t coords[6];

    CHECK_OK(utofu_query_my_coords(coords));
    for (utofu_tni_id_t tni = 0; tni < 6; tni++) {
        CHECK_OK(utofu_create_vcq_with_cmp_id(tni, cmp, 0, &vcq));
        CHECK_OK(utofu_query_vcq_id(vcq, &id));
        CHECK_OK(utofu_construct_vcq_id(coords, tni, expected, cmp, &made));
        CHECK_EQ(id, made);
        CHECK_OK(utofu_free_vcq(vcq));
    }
}

static int local_rank(void)
{
    return (int)ut_env_number("UTOFU_LOCAL_RANK", 0);
}

static void cqs_by_stride(void *arg)
{
    (void)arg;
    check_cq((utofu_cq_id_t)(3 * local_rank()), 0);
}

static void cqs_by_list(void *arg)
{
    static const utofu_cq_id_t list[] = {0, 2, 5, 8};

    (void)arg;
    check_cq(list[local_rank()], 7);
}

Test(client, c9_cqs_are_allocated_as_configured)
{
    run_env(4, "UTOFU_CQ_MAP=stride:3", cqs_by_stride);
    run_env(4, "UTOFU_CQ_MAP=0/2/5/8", cqs_by_list);
}

/* 10: programs that never retry */

static void never_retries(void *arg)
{
    enum { COUNT = 2048 };
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 8 * COUNT, peers);
    for (uint64_t i = 0; i < COUNT; i++) {
        struct ut_comm comm = put8(&end, &peers[!ut_rank], 8 * i);

        comm.kind = UT_PIGGYBACK8;
        comm.data = &(uint64_t){i + 1};
        comm.flags = UT_TCQ;
        ut_submit(&comm); /* none of them is refused */
    }
    for (int i = 0; i < COUNT; i++)
        ut_expect_tcq(end.vcq, UTOFU_SUCCESS, NULL);
    for (uint64_t i = 0; i < COUNT; i++)
        ut_await_word((const uint64_t *)(const void *)(end.mem + 8 * i), i + 1);
    ut_close_all(&end);
}

Test(client, c10_toq_takes_2048_without_a_poll)
{
    run(2, 2, never_retries);
}

/* 11: many senders at one VCQ; notices that pile up */

static void many_senders(void *arg)
{
    enum { EACH = 500 };
    struct ut_end end;
    struct ut_peer peers[6];
    uint64_t next[6] = {0};

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (uint64_t i = 0; ut_rank > 0 && i < EACH; i++) {
        struct ut_comm comm = put8(&end, &peers[0], 8 * (size_t)ut_rank);

        comm.kind = i % 2 ? UT_PUT : UT_PIGGYBACK8;
        comm.edata = i % 256;
        comm.flags = UT_RMT;
        ut_submit(&comm);
    }
    for (int i = 0; ut_rank == 0 && i < EACH * (ut_size - 1); i++) {
        struct utofu_mrq_notice notice;
        int from = 0;

        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        while (from < ut_size && peers[from].id != notice.vcq_id)
            from++;
        CHECK(from > 0 && from < ut_size);
        CHECK_EQ(notice.edata, next[from] % 256);
        next[from]++;
    }
    ut_close_all(&end);
}

Test(client, c11_many_senders_at_one_vcq_each_in_order)
{
    run(6, 2, many_senders);
}

static void piled_up(void *arg)
{
    enum { COUNT = 131072 - 64 };
    struct ut_end end;
    struct ut_peer peers[2];
    struct utofu_mrq_notice notice;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (uint64_t i = 0; ut_rank == 0 && i < COUNT; i++) {
        struct ut_comm comm = put8(&end, &peers[1], 0);

        comm.kind = UT_PIGGYBACK8;
        comm.edata = i % 256;
        comm.flags = UT_LCL;
        CHECK_EQ(ut_start_busy(&comm), 0);
    }
    for (uint64_t i = 0; ut_rank == 0 && i < COUNT; i++) {
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        CHECK_EQ(notice.edata, i % 256);
    }
    ut_close_all(&end);
}

Test(client, c11_local_notices_pile_up_by_the_131072)
{
    run(2, 2, piled_up);
}

/* 12: a stride is num_blocks descriptors. (The schedule pointer is tested in another file.) */

static void stride_descriptors(void *arg)
{
    enum { BLOCKS = 200 };
    static uint64_t desc[BLOCKS * UT_DESC / 8], one[UT_DESC / 8];
    struct ut_end end;
    struct ut_peer peers[2];
    size_t size, single;

    (void)arg;
    ut_open_all(&end, 65536, peers);
    struct ut_comm comm = put8(&end, &peers[!ut_rank], 32768);

    comm.flags = UT_TCQ | UT_LCL | UT_RMT;
    CHECK_OK(ut_prepare(&comm, one, &single));
    comm.kind = UT_PUT_STRIDE;
    comm.stride = 16;
    comm.blocks = BLOCKS;
    CHECK_OK(ut_prepare(&comm, desc, &size));
    CHECK_EQ(size, single * BLOCKS);
    for (uint8_t round = 1; round <= 3; round++) {
        int lcl = 0, rmt = 0;

        memset(end.mem, round, 16 * BLOCKS);
        CHECK_OK(utofu_post_toq(end.vcq, desc, size, &comm));
        for (int i = 0; i < BLOCKS; i++)
            ut_expect_tcq(end.vcq, UTOFU_SUCCESS, &comm);
        while (lcl + rmt < 2 * BLOCKS) {
            struct utofu_mrq_notice notice;

            CHECK_OK(ut_await_mrq(end.vcq, &notice));
            lcl += notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT;
            rmt += notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT;
        }
        CHECK_EQ(lcl, BLOCKS);
        for (size_t i = 0; i < 16 * BLOCKS; i++)
            CHECK_EQ(end.mem[32768 + i], i % 16 < 8 ? round : 0);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(client, c12_stride_is_so_many_descriptors)
{
    run(2, 2, stride_descriptors);
}

/* 13: memory on many VCQs; registered for every message; prepared once, posted often */

static void register_per_message(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    uint8_t *mem = ut_pages(1 << 20);

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (int round = 0; round < 300; round++) {
        size_t size = 1 + ut_random_below(1 << 20), offset = ut_random_below((1 << 20) - size + 1);
        struct utofu_mrq_notice notice;
        struct ut_comm comm;
        struct {
            utofu_stadd_t stadd;
            size_t size;
        } mine = {0, size}, both[2];

        CHECK_OK(utofu_reg_mem(end.vcq, mem + offset, size, 0, &mine.stadd));
        ut_allgather(&mine, both, sizeof(mine));
        if (ut_rank == (int)(round % 2)) {
            comm = put8(&end, &peers[!ut_rank], 0);
            comm.lcl_stadd = mine.stadd;
            comm.rmt_stadd = both[!ut_rank].stadd;
            comm.length = size < both[!ut_rank].size ? size : both[!ut_rank].size;
            comm.flags = UT_LCL;
            memset(mem + offset, round, comm.length);
            ut_submit(&comm);
            CHECK_OK(ut_await_mrq(end.vcq, &notice));
        }
        ut_barrier();
        if (ut_rank != round % 2)
            CHECK_EQ(mem[offset], round & 0xff);
        CHECK_OK(utofu_dereg_mem(end.vcq, mine.stadd, 0));
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(client, c13_registering_for_every_message)
{
    run(2, 2, register_per_message);
}

static void hundreds_of_megabytes(void *arg)
{
    const size_t size = (size_t)128 << 20;
    uint8_t *mem = ut_pages(size);
    utofu_vcq_hdl_t vcq[6];
    utofu_vcq_id_t id;
    utofu_stadd_t stadd[6];

    (void)arg;
    for (size_t i = 0; i < 6; i++) {
        CHECK_OK(utofu_create_vcq((utofu_tni_id_t)i, 0, &vcq[i]));
        CHECK_OK(utofu_reg_mem(vcq[i], mem, size, 0, &stadd[i]));
    }
    for (size_t i = 0; i < 6; i++) {
        struct utofu_mrq_notice notice;

        CHECK_OK(utofu_query_vcq_id(vcq[i], &id));
        mem[i] = (uint8_t)(i + 1);
        CHECK_OK(utofu_put(vcq[i], id, stadd[i] + i, stadd[i] + size - 6 + i, 1, 0, UT_LCL, NULL));
        CHECK_OK(ut_await_mrq(vcq[i], &notice));
        CHECK_EQ(mem[size - 6 + i], i + 1);
        CHECK_OK(utofu_dereg_mem(vcq[i], stadd[i], 0));
        CHECK_OK(utofu_free_vcq(vcq[i]));
    }
}

Test(client, c13_128_mebibytes_on_every_tni)
{
    run(1, 1, hundreds_of_megabytes);
}

static void prepared_once(void *arg)
{
    enum { PARTS = 8, ROUNDS = 1000 };
    uint64_t desc[PARTS * UT_DESC / 8];
    struct ut_end end;
    struct ut_peer peers[2];
    size_t total = 0, size;

    (void)arg;
    ut_open_all(&end, 8192, peers);
    for (size_t i = 0; i < PARTS; i++) {
        struct ut_comm comm = put8(&end, &peers[!ut_rank], 4096 + 512 * i);

        comm.lcl_stadd += 512 * i;
        comm.length = 512;
        comm.flags = i == PARTS - 1 ? UT_TCQ | UT_RMT | UT_STRONG : 0;
        CHECK_OK(ut_prepare(&comm, (uint8_t *)desc + total, &size));
        total += size;
    }
    for (int round = 1; round <= ROUNDS; round++) {
        struct utofu_mrq_notice notice;
        uintptr_t tag = (uintptr_t)round;

        ut_step("round %d", round);
        memset(end.mem, round, 4096);
        CHECK_OK(utofu_post_toq(end.vcq, desc, total, (void *)tag));
        ut_expect_tcq(end.vcq, UTOFU_SUCCESS, (void *)tag);
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        CHECK_EQ(notice.rmt_stadd, end.stadd + 8192);
        for (size_t i = 0; i < 4096; i += 64)
            CHECK_EQ(end.mem[4096 + i], round & 0xff);
        ut_barrier();
    }
    ut_close_all(&end);
}

Test(client, c13_descriptors_are_prepared_once_and_posted_often)
{
    run(2, 2, prepared_once);
}

/* 14: set_vcq_id_path(&id, NULL) before every put, or never */

static void path_every_time(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2], to;
    utofu_vcq_id_t first;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    to = peers[!ut_rank];
    CHECK_OK(utofu_set_vcq_id_path(&to.id, NULL));
    first = to.id;
    for (int round = 0; round < 100; round++) {
        struct utofu_mrq_notice notice;
        struct ut_comm comm;

        CHECK_OK(utofu_set_vcq_id_path(&to.id, NULL));
        CHECK_EQ(to.id, first);
        comm = put8(&end, round % 2 ? &to : &peers[!ut_rank], 0);
        comm.flags = UT_LCL;
        ut_submit(&comm);
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        CHECK_EQ(notice.vcq_id, peers[!ut_rank].id);
    }
    ut_close_all(&end);
}

Test(client, c14_set_path_null_is_idempotent)
{
    run(2, 2, path_every_time);
}

/* 15: a put of length 0 */

static void empty_puts(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (uint64_t i = 0; i < 40; i++) {
        struct ut_comm comm = put8(&end, &peers[!ut_rank], 100), theirs;
        struct utofu_mrq_notice lcl, rmt;

        comm.kind = i % 3 == 0 ? UT_PUT : i % 3 == 1 ? UT_PIGGYBACK : UT_PIGGYBACK8;
        comm.length = 0;
        comm.edata = i;
        comm.flags = UT_TCQ | UT_LCL | UT_RMT;
        theirs = comm;
        theirs.rmt_stadd = end.stadd + 100;
        lcl = ut_lcl_notice(&comm, 0);
        rmt = ut_rmt_notice(&theirs, 0, peers[!ut_rank].id);
        ut_submit(&comm);
        ut_expect_tcq(end.vcq, UTOFU_SUCCESS, NULL);
        for (int k = 0; k < 2; k++) {
            struct utofu_mrq_notice got;

            CHECK_OK(ut_await_mrq(end.vcq, &got));
            ut_check_notice(&got, got.notice_type == UTOFU_MRQ_TYPE_LCL_PUT ? &lcl : &rmt);
        }
        ut_barrier();
    }
    for (size_t i = 0; i < 4096; i++)
        CHECK_EQ(end.mem[i], 0);
    ut_close_all(&end);
}

Test(client, c15_put_of_no_bytes_has_all_its_notices)
{
    run(2, 2, empty_puts);
}

/* 16: the caller owns the array, but not the capabilities */

static void who_frees(void *arg)
{
    struct utofu_onesided_caps *caps;
    utofu_tni_id_t *ids[3];
    size_t count;

    (void)arg;
    for (int i = 0; i < 3; i++)
        CHECK_OK(utofu_get_onesided_tnis(&ids[i], &count));
    for (int i = 0; i < 3; i++)
        free(ids[i]);
    CHECK_OK(utofu_query_onesided_caps(0, &caps));
    CHECK_OK(utofu_query_onesided_caps(5, &caps));
    CHECK_EQ(caps->max_toq_desc_size, 64); /* still valid */
}

Test(client, c16_tni_array_is_freed_and_capabilities_stay)
{
    run(1, 1, who_frees);
}

/* 18: calls inside assert(): the program works with and without NDEBUG, so no call needs the check
 * of an earlier call's result. */

static void unchecked_calls(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];
    void *cbdata;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    /* ignored results, good and bad */
    (void)utofu_put(end.vcq, peers[!ut_rank].id, 0, 0, SIZE_MAX, 0, 0, NULL);
    (void)utofu_put(end.vcq, 0, end.stadd, peers[!ut_rank].stadd, 8, 0, UT_TCQ, NULL);
    (void)utofu_set_vcq_id_path(NULL, NULL);
    (void)utofu_poll_tcq(end.vcq, 0, &cbdata);
    (void)utofu_put_piggyback8(end.vcq, peers[!ut_rank].id, 0x1122, peers[!ut_rank].stadd + 8, 8, 0,
                               0, NULL);
    assert(utofu_poll_tcq(end.vcq, 0, &cbdata) == UTOFU_ERR_NOT_FOUND);
    ut_await_word((const uint64_t *)(const void *)(end.mem + 8), 0x1122);
    ut_flush(&end, &peers[!ut_rank]);
    ut_close_all(&end);
}

Test(client, c18_results_may_be_ignored)
{
    run(2, 2, unchecked_calls);
}

/* Programs that start one communication after the other, each ended at the first poll */

static void never_polls_in_vain(void *arg)
{
    struct utofu_mrq_notice notice;
    struct ut_peer peers[2];
    struct ut_end end;
    void *cbdata;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    for (uint64_t round = 0; ut_rank == 0 && *ut_cell(1) == 0; round++) {
        CHECK_OK(utofu_get(end.vcq, end.id, end.stadd, end.stadd + 64, 8, 0, UT_LCL, NULL));
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        *ut_cell(0) = round == 1000 ? 1 : *ut_cell(0);
        ut_relax();
    }
    while (ut_rank == 1 && *ut_cell(0) == 0)
        ut_relax();
    if (ut_rank == 1) {
        CHECK_OK(utofu_put_piggyback8(end.vcq, peers[0].id, 7, peers[0].stadd + 128, 8, 0,
                                      UT_TCQ | UT_LCL, NULL));
        CHECK_OK(ut_await_tcq(end.vcq, &cbdata));
        CHECK_OK(ut_await_mrq(end.vcq, &notice));
        *ut_cell(1) = 1;
    }
    ut_close_all(&end);
}

Test(client, a_program_whose_polls_all_find_an_entry_answers_its_peers)
{
    run(2, 1, never_polls_in_vain);
    run(2, 2, never_polls_in_vain);
}
