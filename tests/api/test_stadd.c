/* SPDX-License-Identifier: Apache-2.0 */
/* Registering memory: counts, chosen STags, bounds, flags. Section 3.6. */
#include "ends.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

TestSuite(stadd);

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t id;

/* Most tests need one VCQ and no peer. */
static void run_one(ut_body_fn *body)
{
    ut_run(&(struct ut_run_opts){.n = 1}, body, NULL);
}

static void open_vcq(void)
{
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    CHECK_OK(utofu_query_vcq_id(vcq, &id));
}

static void close_vcq(void)
{
    CHECK_OK(utofu_free_vcq(vcq));
}

static utofu_stadd_t reg(void *addr, size_t size)
{
    utofu_stadd_t stadd;

    CHECK_OK(utofu_reg_mem(vcq, addr, size, 0, &stadd));
    return stadd;
}

static utofu_stadd_t reg_stag(void *addr, size_t size, unsigned int stag)
{
    utofu_stadd_t stadd;

    CHECK_OK(utofu_reg_mem_with_stag(vcq, addr, size, stag, 0, &stadd));
    return stadd;
}

static int dereg(utofu_stadd_t stadd)
{
    return utofu_dereg_mem(vcq, stadd, 0);
}

/* A put or a get of this VCQ to itself; returns the result. */
static int tcq_of(enum ut_kind kind, utofu_stadd_t lcl, utofu_stadd_t rmt, size_t length, int *mrq)
{
    struct ut_comm comm = {.kind = kind,
                           .vcq = vcq,
                           .rmt = id,
                           .lcl_stadd = lcl,
                           .rmt_stadd = rmt,
                           .length = length,
                           .flags = UT_TCQ | UT_LCL,
                           .cbdata = &comm};
    struct utofu_mrq_notice notice;
    void *cbdata;

    ut_submit(&comm);
    int rc = ut_await_tcq(vcq, &cbdata);
    CHECK(cbdata == &comm);
    *mrq = rc == UTOFU_SUCCESS ? ut_await_mrq(vcq, &notice) : UTOFU_SUCCESS;
    return rc;
}

static void check_copies(enum ut_kind kind, utofu_stadd_t lcl, utofu_stadd_t rmt, size_t length)
{
    int mrq;

    CHECK_OK(tcq_of(kind, lcl, rmt, length, &mrq));
    CHECK_OK(mrq);
}

/* Registering and its end */

static void counted(void *arg)
{
    uint8_t *mem = ut_pages(65536), *source = ut_pages(4096);
    utofu_stadd_t from, first;
    int mrq;

    (void)arg;
    open_vcq();
    from = reg(source, 4096);
    first = reg(mem, 65536);
    CHECK_EQ(reg(mem, 65536), first);
    CHECK_EQ(reg(mem, 65536), first);
    CHECK_OK(dereg(first));
    CHECK_OK(dereg(first));
    memset(source, 0x31, 4096);
    check_copies(UT_PUT, from, first + 500, 4096); /* one registration is left */
    CHECK(mem[499] == 0 && mem[500] == 0x31 && mem[4595] == 0x31 && mem[4596] == 0);
    CHECK_OK(dereg(first));
    CHECK_RC(dereg(first), UTOFU_ERR_INVALID_STADD);
    CHECK_RC(tcq_of(UT_PUT, from, first, 1, &mrq), UTOFU_SUCCESS);
    CHECK_RC(mrq, UTOFU_ERR_MRQ_RMT_STADD);
    CHECK_OK(dereg(from));
    close_vcq();
}

Test(stadd, same_region_has_the_same_stadd_and_is_counted)
{
    run_one(counted);
}

static void dereg_bad(void *arg)
{
    uint8_t *mem = ut_pages(8192);

    (void)arg;
    open_vcq();
    utofu_stadd_t stadd = reg(mem, 8192), never[] = {0, 1, ~0ull, stadd + (1ull << 40)};

    for (size_t i = 0; i < NUM(never); i++)
        CHECK_RC(dereg(never[i]), UTOFU_ERR_INVALID_STADD);
    CHECK_RC(dereg(stadd + 1), UTOFU_ERR_INVALID_STADD); /* not the start */
    CHECK_RC(dereg(stadd + 4096), UTOFU_ERR_INVALID_STADD);
    CHECK_RC(dereg(stadd - 1), UTOFU_ERR_INVALID_STADD);
    for (int bit = 0; bit < 64; bit++) {
        CHECK_RC(utofu_dereg_mem(vcq, stadd, 1ul << bit), UTOFU_ERR_INVALID_FLAGS);
        CHECK_RC(dereg(stadd ^ 1ull << bit), UTOFU_ERR_INVALID_STADD);
    }
    CHECK_OK(dereg(stadd)); /* none of these calls had an effect */
    CHECK_RC(dereg(stadd), UTOFU_ERR_INVALID_STADD);
    close_vcq();
}

Test(stadd, dereg_refuses_what_is_no_start_of_a_region)
{
    run_one(dereg_bad);
}

static void generations(void *arg)
{
    uint8_t *old_mem = ut_pages(4096), *new_mem = ut_pages(4096), *source = ut_pages(4096);
    utofu_stadd_t from, stale, fresh;
    int mrq;

    (void)arg;
    open_vcq();
    from = reg(source, 4096);
    source[0] = 0x55;
    stale = reg(old_mem, 4096);
    check_copies(UT_PUT, from, stale, 1);
    CHECK_OK(dereg(stale));
    fresh = reg(new_mem, 4096);
    CHECK(fresh != stale);
    CHECK_RC(dereg(stale), UTOFU_ERR_INVALID_STADD);
    CHECK_OK(tcq_of(UT_PUT, from, stale, 1, &mrq));
    CHECK_RC(mrq, UTOFU_ERR_MRQ_RMT_STADD);
    CHECK_EQ(new_mem[0], 0);
    check_copies(UT_PUT, from, fresh, 1);
    CHECK_EQ(new_mem[0], 0x55);
    CHECK_OK(dereg(fresh));
    CHECK_OK(dereg(from));
    close_vcq();
}

Test(stadd, stadd_of_a_region_that_is_gone_does_not_name_a_newer_one)
{
    run_one(generations);
}

/* Do they only differ in the generation? */
static bool same_stag(utofu_stadd_t a, utofu_stadd_t b)
{
    return ((a ^ b) & ~(UINT64_C(0x3f) << 58)) == 0;
}

/* Registers and deregisters something until its STag is that of the stale STADD again. */
static utofu_stadd_t take_stag_again(utofu_stadd_t stale, uint8_t *mem)
{
    for (int i = 0; i < 5000; i++) {
        utofu_stadd_t fresh = reg(mem, 4096);
        if (same_stag(fresh, stale))
            return fresh;
        CHECK_OK(dereg(fresh));
    }
    ut_fail(__FILE__, __LINE__, "no STag is used again", " in 5000 registrations");
}

static void used_again(void *arg)
{
    uint8_t *mem = ut_pages(3 * 65536);
    uint8_t *old_mem = mem + (-(uintptr_t)mem & 0xffff), *new_mem = old_mem + 65536;
    uint8_t *other = ut_pages(4096);
    utofu_stadd_t good, stale, fresh;
    int mrq;

    (void)arg;
    open_vcq();
    good = reg(other, 4096);
    stale = reg(old_mem, 4096);
    check_copies(UT_PUT, good, stale, 1);
    CHECK_OK(dereg(stale));
    fresh = take_stag_again(stale, new_mem);
    CHECK(fresh != stale);
    other[0] = 0x66;
    check_copies(UT_PUT, good, fresh + 8, 1);
    new_mem[0] = 0x77;
    CHECK_OK(tcq_of(UT_PUT, good, stale, 1, &mrq));
    CHECK_RC(mrq, UTOFU_ERR_MRQ_RMT_STADD);
    CHECK_OK(tcq_of(UT_GET, good, stale, 1, &mrq));
    CHECK_RC(mrq, UTOFU_ERR_MRQ_RMT_STADD);
    CHECK_RC(tcq_of(UT_PUT, stale, good, 1, &mrq), UTOFU_ERR_TCQ_STADD);
    CHECK_OK(tcq_of(UT_GET, stale, good, 1, &mrq));
    CHECK_RC(mrq, UTOFU_ERR_MRQ_LCL_STADD);
    CHECK(new_mem[0] == 0x77 && new_mem[8] == 0x66 && other[0] == 0x66);
    CHECK_RC(dereg(stale), UTOFU_ERR_INVALID_STADD);
    check_copies(UT_PUT, fresh, good, 1); /* the STag used last */
    CHECK_OK(dereg(fresh));
    CHECK_RC(tcq_of(UT_PUT, fresh, good, 1, &mrq), UTOFU_ERR_TCQ_STADD);
    CHECK_OK(dereg(good));
    close_vcq();
}

Test(stadd, stadd_of_a_region_that_is_gone_is_refused_when_its_stag_is_used_again)
{
    run_one(used_again);
}

static void overlapping(void *arg)
{
    uint8_t *mem = ut_pages(65536);
    utofu_stadd_t whole, middle, tail;
    int mrq;

    (void)arg;
    open_vcq();
    whole = reg(mem, 65536);
    middle = reg(mem + 1000, 3000);
    tail = reg(mem + 3500, 10000);
    memset(mem, 0x11, 100);
    check_copies(UT_PUT, whole, middle + 10, 100);
    CHECK_EQ(mem[1009], 0);
    CHECK_EQ(mem[1010], 0x11);
    CHECK_EQ(mem[1109], 0x11);
    check_copies(UT_PUT, middle + 10, tail, 100);
    CHECK_EQ(mem[3500], 0x11);
    CHECK_OK(dereg(middle));
    check_copies(UT_GET, tail + 9000, whole, 100);
    CHECK_EQ(mem[12500], 0x11);
    CHECK_OK(tcq_of(UT_PUT, whole, middle, 1, &mrq));
    CHECK_RC(mrq, UTOFU_ERR_MRQ_RMT_STADD);
    CHECK_OK(dereg(whole));
    CHECK_OK(dereg(tail));
    close_vcq();
}

Test(stadd, regions_may_overlap)
{
    run_one(overlapping);
}

static void low_bits(void *arg)
{
    uint8_t *mem = ut_pages(1 << 20);
    static const size_t offsets[] = {0, 1, 2, 7, 255, 256, 4095, 4096, 65535, 65536, 65537, 131072};

    (void)arg;
    open_vcq();
    for (size_t i = 0; i < NUM(offsets); i++) {
        utofu_stadd_t stadd = reg(mem + offsets[i], 1000 + i);

        CHECK_EQ(stadd & 0xffff, (uintptr_t)(mem + offsets[i]) & 0xffff);
        CHECK_OK(dereg(stadd));
    }
    for (int i = 0; i < 500; i++) {
        size_t offset = ut_random_below(1 << 19);
        utofu_stadd_t stadd = reg(mem + offset, 1 + ut_random_below(1 << 19));

        CHECK_EQ(stadd & 0xffff, (uintptr_t)(mem + offset) & 0xffff);
        CHECK_OK(dereg(stadd));
    }
    close_vcq();
}

Test(stadd, low_sixteen_bits_are_those_of_the_address)
{
    run_one(low_bits);
}

static void reg_bad(void *arg)
{
    uint8_t *mem = ut_pages(8192);
    void *not_there = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    utofu_stadd_t stadd;

    (void)arg;
    open_vcq();
    CHECK_RC(utofu_reg_mem(vcq, mem, 0, 0, &stadd), UTOFU_ERR_INVALID_SIZE);
    CHECK_RC(utofu_reg_mem(vcq, mem, 8192, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_reg_mem(vcq, NULL, 8192, 0, &stadd), UTOFU_ERR_INVALID_ADDRESS);
    CHECK_RC(utofu_reg_mem(vcq, not_there, 4096, 0, &stadd), UTOFU_ERR_INVALID_ADDRESS);
    int rc = utofu_reg_mem(vcq, mem, SIZE_MAX, 0, &stadd); /* both codes are correct */
    CHECK(rc == UTOFU_ERR_INVALID_SIZE || rc == UTOFU_ERR_INVALID_ADDRESS, "%s", ut_rc_name(rc));
    for (int bit = 1; bit < 64; bit++)
        CHECK_RC(utofu_reg_mem(vcq, mem, 8192, 1ul << bit, &stadd), UTOFU_ERR_INVALID_FLAGS);
    CHECK_OK(munmap(not_there, 4096));
    CHECK_RC(utofu_reg_mem(vcq, not_there, 4096, 0, &stadd), UTOFU_ERR_INVALID_ADDRESS);
    close_vcq();
}

Test(stadd, reg_refuses_bad_arguments)
{
    run_one(reg_bad);
}

static void one_byte(void *arg)
{
    uint8_t *mem = ut_pages(4096);
    utofu_stadd_t from, to;
    int mrq;

    (void)arg;
    open_vcq();
    from = reg(mem + 17, 1);
    to = reg(mem + 77, 1);
    mem[17] = 9;
    check_copies(UT_PUT, from, to, 1);
    CHECK(mem[76] == 0 && mem[77] == 9 && mem[78] == 0);
    CHECK_RC(tcq_of(UT_PUT, from, to, 2, &mrq), UTOFU_ERR_TCQ_LENGTH);
    CHECK(mem[78] == 0);
    CHECK_OK(dereg(from));
    CHECK_OK(dereg(to));
    close_vcq();
}

Test(stadd, region_of_one_byte_is_one_byte)
{
    run_one(one_byte);
}

/* READ_ONLY */

static void read_only(void *arg)
{
    uint8_t *mem = ut_pages(8192), *text = ut_pages(4096);
    utofu_stadd_t writable, protected, again, page;
    int mrq;

    (void)arg;
    memset(text, 0x77, 4096);
    CHECK_OK(mprotect(text, 4096, PROT_READ));
    open_vcq();
    writable = reg(mem, 8192);
    CHECK_RC(utofu_reg_mem(vcq, text, 4096, 0, &page), UTOFU_ERR_INVALID_ADDRESS);
    CHECK_OK(utofu_reg_mem(vcq, text, 4096, UTOFU_REG_MEM_FLAG_READ_ONLY, &page));
    /* writable memory both ways at once */
    CHECK_OK(utofu_reg_mem(vcq, mem, 8192, UTOFU_REG_MEM_FLAG_READ_ONLY, &protected));
    CHECK(protected != writable);
    CHECK_OK(utofu_reg_mem(vcq, mem, 8192, UTOFU_REG_MEM_FLAG_READ_ONLY, &again));
    CHECK_EQ(again, protected);
    CHECK_OK(dereg(again));
    /* reading is allowed on both sides */
    check_copies(UT_PUT, page, writable + 100, 50);
    check_copies(UT_GET, writable + 200, page, 50);
    check_copies(UT_PUT, protected + 100, writable + 300, 50);
    CHECK(mem[100] == 0x77 && mem[249] == 0x77 && mem[349] == 0x77 && mem[350] == 0);
    /* writing is not */
    CHECK_OK(tcq_of(UT_PUT, writable, page, 8, &mrq));
    CHECK_RC(mrq, UTOFU_ERR_MRQ_RMT_MEMORY);
    CHECK_OK(tcq_of(UT_PUT, writable + 100, protected + 4096, 8, &mrq));
    CHECK_RC(mrq, UTOFU_ERR_MRQ_RMT_MEMORY);
    int tcq = tcq_of(UT_GET, protected + 4096, writable + 100, 8, &mrq);
    CHECK(tcq == UTOFU_ERR_TCQ_MEMORY || (tcq == UTOFU_SUCCESS && mrq == UTOFU_ERR_MRQ_LCL_MEMORY),
          "%s, %s", ut_rc_name(tcq), ut_rc_name(mrq));
    CHECK(mem[4096] == 0 && text[0] == 0x77);
    check_copies(UT_PUT, writable + 100, writable + 4096, 8);
    CHECK_EQ(mem[4096], 0x77);
    CHECK_OK(dereg(protected));
    CHECK_OK(dereg(writable));
    CHECK_OK(dereg(page));
    close_vcq();
}

Test(stadd, read_only_region_is_read_and_not_written)
{
    run_one(read_only);
}

/* Chosen STags */

static void stag_layout(void *arg)
{
    uint8_t *mem = ut_pages(65536 * 2);

    (void)arg;
    for (utofu_cmp_id_t cmp = 0; cmp < 8; cmp++) {
        CHECK_OK(utofu_create_vcq_with_cmp_id(0, cmp, 0, &vcq));
        CHECK_OK(utofu_query_vcq_id(vcq, &id));
        for (unsigned int stag = 0; stag < 256; stag++) {
            utofu_stadd_t asked, given = reg_stag(mem + 256 * stag, 512, stag);

            CHECK_OK(utofu_query_stadd(id, stag, &asked));
            CHECK_EQ(given, asked);
            CHECK_EQ(given, (0x800ull + 0x100ull * cmp + stag) << 40);
        }
        CHECK(reg(mem + 1, 100) >> 40 >= 0x1000); /* dynamic STags have other numbers */
        close_vcq();                              /* with its registrations */
    }
}

Test(stadd, chosen_stags_have_the_vendors_layout)
{
    run_one(stag_layout);
}

static void stag_again(void *arg)
{
    uint8_t *mem = ut_pages(8192);
    utofu_stadd_t stadd, unused;

    (void)arg;
    open_vcq();
    stadd = reg_stag(mem, 4096, 200);
    CHECK_RC(utofu_reg_mem_with_stag(vcq, mem, 4096, 200, 0, &unused), UTOFU_ERR_USED);
    CHECK_RC(utofu_reg_mem_with_stag(vcq, mem + 4096, 256, 200, 0, &unused), UTOFU_ERR_USED);
    CHECK_OK(dereg(reg_stag(mem, 4096, 199))); /* one region under two STags */
    mem[0] = 0x42;
    check_copies(UT_PUT, stadd, stadd + 100, 1);
    CHECK_EQ(mem[100], 0x42);
    CHECK_OK(dereg(stadd));
    CHECK_RC(dereg(stadd), UTOFU_ERR_INVALID_STADD);
    CHECK_EQ(reg_stag(mem + 4096, 4096, 200), stadd); /* another region, the same STADD */
    mem[4096] = 0x43;
    check_copies(UT_PUT, stadd, stadd + 100, 1);
    CHECK_EQ(mem[4196], 0x43);
    CHECK_EQ(mem[100], 0x42);
    CHECK_OK(dereg(stadd));
    close_vcq();
}

Test(stadd, stag_names_one_region_at_a_time)
{
    run_one(stag_again);
}

static void stag_per_vcq(void *arg)
{
    uint8_t *mem = ut_pages(4096);
    utofu_vcq_hdl_t other;
    utofu_stadd_t a, b;

    (void)arg;
    open_vcq();
    CHECK_OK(utofu_create_vcq(0, 0, &other));
    CHECK_OK(utofu_reg_mem_with_stag(vcq, mem, 4096, 3, 0, &a));
    CHECK_OK(utofu_reg_mem_with_stag(other, mem, 4096, 3, 0, &b));
    CHECK_OK(utofu_dereg_mem(vcq, a, 0));
    CHECK_RC(utofu_reg_mem_with_stag(other, mem, 4096, 3, 0, &b), UTOFU_ERR_USED);
    CHECK_OK(utofu_dereg_mem(other, b, 0));
    CHECK_OK(utofu_free_vcq(other));
    close_vcq();
}

Test(stadd, stags_belong_to_their_vcq)
{
    run_one(stag_per_vcq);
}

static void stag_bad(void *arg)
{
    uint8_t *mem = ut_pages(8192);
    static const size_t odd[] = {1, 2, 8, 64, 128, 255};
    utofu_stadd_t stadd;

    (void)arg;
    open_vcq();
    for (size_t i = 0; i < NUM(odd); i++) {
        CHECK_RC(utofu_reg_mem_with_stag(vcq, mem + odd[i], 4096, 0, 0, &stadd),
                 UTOFU_ERR_INVALID_ADDRESS);
        CHECK_RC(utofu_reg_mem_with_stag(vcq, mem, 4096 + odd[i], 0, 0, &stadd),
                 UTOFU_ERR_INVALID_SIZE);
        CHECK_RC(utofu_reg_mem_with_stag(vcq, mem, odd[i], 0, 0, &stadd), UTOFU_ERR_INVALID_SIZE);
    }
    CHECK_RC(utofu_reg_mem_with_stag(vcq, mem, 0, 0, 0, &stadd), UTOFU_ERR_INVALID_SIZE);
    CHECK_RC(utofu_reg_mem_with_stag(vcq, NULL, 4096, 0, 0, &stadd), UTOFU_ERR_INVALID_ADDRESS);
    CHECK_RC(utofu_reg_mem_with_stag(vcq, mem, 4096, 0, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_reg_mem_with_stag(vcq, mem, 4096, 256, 0, &stadd), UTOFU_ERR_INVALID_STAG);
    CHECK_RC(utofu_reg_mem_with_stag(vcq, mem, 4096, ~0u, 0, &stadd), UTOFU_ERR_INVALID_STAG);
    for (int bit = 1; bit < 64; bit++)
        CHECK_RC(utofu_reg_mem_with_stag(vcq, mem, 4096, 0, 1ul << bit, &stadd),
                 UTOFU_ERR_INVALID_FLAGS);
    CHECK_RC(utofu_query_stadd(id, 256, &stadd), UTOFU_ERR_INVALID_STAG);
    CHECK_RC(utofu_query_stadd(id, ~0u, &stadd), UTOFU_ERR_INVALID_STAG);
    CHECK_RC(utofu_query_stadd(id, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_RC(utofu_query_stadd(id ^ 4, 0, &stadd), UTOFU_ERR_INVALID_VCQ_ID);
    CHECK_RC(utofu_query_stadd(0, 0, &stadd), UTOFU_ERR_INVALID_VCQ_ID);
    close_vcq();
}

Test(stadd, chosen_stags_refuse_bad_arguments)
{
    run_one(stag_bad);
}

static void asked_before(void *arg)
{
    utofu_vcq_id_t ids[2];
    utofu_stadd_t asked, given[2] = {0};
    uint8_t *mem = ut_pages(4096);

    (void)arg;
    CHECK_OK(utofu_create_vcq_with_cmp_id(ut_rank == 0 ? 1 : 4, 5, 0, &vcq));
    CHECK_OK(utofu_query_vcq_id(vcq, &id));
    ut_allgather(&id, ids, sizeof(id));
    /* no memory is registered yet, and the path in the id does not matter */
    CHECK_OK(utofu_set_vcq_id_path(&ids[!ut_rank], (uint8_t[]){1, 2, 1}));
    CHECK_OK(utofu_query_stadd(ids[!ut_rank], 17, &asked));
    ut_barrier();
    utofu_stadd_t mine = reg_stag(mem, 4096, 17);
    ut_allgather(&mine, given, sizeof(mine));
    CHECK_EQ(given[!ut_rank], asked);
    ut_barrier();
    CHECK_OK(dereg(mine));
    close_vcq();
}

Test(stadd, asked_stadd_of_another_process_is_what_it_gets)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2}, asked_before, NULL);
}

/* Many and large */

/*
 * A reserved STag is registered repeatedly, while a peer puts continuously to it and to other
 * memory. The puts to the STag arrive or fail, each independently; the others always arrive, in
 * order. UT_REREGISTRATIONS: number of registrations.
 */
enum { ANEW_STAG = 9, ANEW_STEADY = 64, ANEW_AREA = 4096 };

static void register_anew(const struct ut_end *end, uint64_t times)
{
    uint8_t *areas[2] = {ut_pages(ANEW_AREA), ut_pages(ANEW_AREA)};
    utofu_stadd_t stadd;

    for (uint64_t i = 1; i <= times; i++) {
        ut_step("registration %llu", (unsigned long long)i);
        CHECK_OK(utofu_reg_mem_with_stag(end->vcq, areas[i % 2], ANEW_AREA, ANEW_STAG, 0, &stadd));
        *ut_cell(0) = i;
        /* one put of the peer must succeed before deregistration */
        for (uint64_t seen = *ut_cell(1); *ut_cell(1) == seen;) {
            ut_expect_nothing(end->vcq);
            ut_relax();
        }
        if (i < times)
            CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
    }
    *ut_cell(2) = 1;
    ut_barrier(); /* the last put has arrived */
    CHECK_EQ(areas[times % 2][512], 0x77);
    CHECK_OK(utofu_dereg_mem(end->vcq, stadd, 0));
}

static void put_without_end(const struct ut_end *end, const struct ut_peer *to)
{
    struct ut_comm steady = {.kind = UT_PIGGYBACK8,
                             .vcq = end->vcq,
                             .rmt = to->id,
                             .rmt_stadd = to->stadd + ANEW_STEADY,
                             .length = 8,
                             .edata = 1,
                             .flags = UT_LCL};
    struct ut_comm anew = {.kind = UT_PUT,
                           .vcq = end->vcq,
                           .rmt = to->id,
                           .lcl_stadd = end->stadd,
                           .length = 1000,
                           .edata = 2,
                           .flags = UT_LCL};
    uint64_t arrived = 0, failed = 0;
    bool last = false;

    memset(end->mem, 0x77, 1000);
    CHECK_OK(utofu_query_stadd(to->id, ANEW_STAG, &anew.rmt_stadd));
    while (!last) {
        struct utofu_mrq_notice notice;

        last = *ut_cell(2) != 0;
        arrived++;
        steady.data = &arrived;
        ut_submit(&anew);
        ut_submit(&steady);
        int rc = ut_await_mrq(end->vcq, &notice);
        CHECK(notice.edata == 2 && (rc == UTOFU_SUCCESS || rc == UTOFU_ERR_MRQ_RMT_STADD ||
                                    rc == UTOFU_ERR_MRQ_RMT_MEMORY),
              "the put to the STag gave %s", ut_rc_name(rc));
        failed += rc != UTOFU_SUCCESS;
        *ut_cell(1) += rc == UTOFU_SUCCESS;
        CHECK_OK(ut_await_mrq(end->vcq, &notice));
        CHECK_EQ(notice.edata, 1);
    }
    printf("%llu puts, of which %llu found nothing registered\n", (unsigned long long)arrived,
           (unsigned long long)failed);
    ut_barrier();
    *ut_cell(3) = arrived;
}

static void anew_under_traffic(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[2];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    if (ut_rank == 0)
        put_without_end(&end, &peers[1]);
    else
        register_anew(&end, ut_env_number("UT_REREGISTRATIONS", 100));
    ut_barrier();
    if (ut_rank == 1)
        CHECK_EQ(*(const uint64_t *)(const void *)(end.mem + ANEW_STEADY), *ut_cell(3));
    ut_close_all(&end);
}

Test(stadd, reserved_stag_is_registered_anew_under_traffic)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .timeout_s = 120}, anew_under_traffic, NULL);
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 1, .timeout_s = 120}, anew_under_traffic, NULL);
}

static void ten_thousand(void *arg)
{
    enum { COUNT = 10000, STEP = 100 };
    static utofu_stadd_t stadd[COUNT];
    uint8_t *mem = ut_pages(COUNT * STEP);

    (void)arg;
    open_vcq();
    for (int i = 0; i < COUNT; i++) {
        ut_step("region %d", i);
        stadd[i] = reg(mem + (size_t)i * STEP, STEP);
    }
    for (int i = 0; i < 300; i++) {
        size_t from = ut_random_below(COUNT);
        size_t to = (from + 1 + ut_random_below(COUNT - 1)) % COUNT;

        memset(mem + from * STEP, i, STEP);
        check_copies(UT_PUT, stadd[from], stadd[to] + 30, STEP - 30);
        CHECK(memcmp(mem + from * STEP, mem + to * STEP + 30, STEP - 30) == 0);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK_OK(dereg(stadd[(i * 7919) % COUNT]));
    CHECK_RC(dereg(stadd[0]), UTOFU_ERR_INVALID_STADD);
    close_vcq();
}

Test(stadd, ten_thousand_regions_at_once)
{
    run_one(ten_thousand);
}

static void sparse(void *arg)
{
    const size_t size = (size_t)5 << 30;
    uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct ut_end end;
    struct ut_peer peers[2];
    int mrq;

    (void)arg;
    CHECK(mem != MAP_FAILED);
    ut_end_open(&end, 0, 0, 4096);
    vcq = end.vcq;
    id = end.id;
    utofu_stadd_t large = reg(mem, size);
    ut_allgather(&(struct ut_peer){end.id, large, 0}, peers, sizeof(peers[0]));
    static const size_t at[] = {0, 0xfffffff0, 0xffffffff, 0x100000000, 0x12345678a};

    for (size_t i = 0; i <= NUM(at); i++) {
        size_t where = i < NUM(at) ? at[i] : size - 32;
        struct ut_comm comm = {.kind = UT_PUT,
                               .vcq = vcq,
                               .rmt = peers[!ut_rank].id,
                               .lcl_stadd = end.stadd,
                               .rmt_stadd = peers[!ut_rank].stadd + where,
                               .length = 32,
                               .flags = UT_RMT};
        struct utofu_mrq_notice want = ut_rmt_notice(&comm, 0, peers[!ut_rank].id);

        memset(end.mem, 0x40 + (int)i, 32);
        ut_submit(&comm);
        want.rmt_stadd = large + where + 32;
        ut_expect_notice(vcq, &want);
        CHECK(mem[where] == 0x40 + i && mem[where + 31] == 0x40 + i);
        ut_barrier();
    }
    CHECK_OK(tcq_of(UT_PUT, end.stadd, large + size - 31, 32, &mrq));
    CHECK_RC(mrq, UTOFU_ERR_MRQ_RMT_LENGTH);
    ut_barrier();
    CHECK_OK(dereg(large));
    ut_end_close(&end);
}

/* A device without on-demand paging pins registered memory: all five gigabytes, twice. */
static bool memory_can_be_pinned(void)
{
    const char *provider = getenv("UTOFU_PROVIDER");
    unsigned long long kib = 0;
    char line[128];

    if (!provider || strcmp(provider, "shm") == 0)
        return true;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof(line), f) && sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return kib > 12ull << 20;
}

Test(stadd, five_gigabytes_are_reached_to_their_end)
{
    if (!memory_can_be_pinned())
        ut_skip("verbs pins registered memory, and less than 12 GiB are available");
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2}, sparse, NULL);
}

static void many_vcqs(void *arg)
{
    uint8_t *mem = ut_pages(1 << 16);
    utofu_vcq_hdl_t vcqs[12];
    utofu_stadd_t stadd[12];

    (void)arg;
    for (size_t i = 0; i < 12; i++) {
        CHECK_OK(utofu_create_vcq((utofu_tni_id_t)(i % UT_TNIS), 0, &vcqs[i]));
        CHECK_OK(utofu_reg_mem(vcqs[i], mem, 1 << 16, 0, &stadd[i]));
    }
    CHECK_OK(utofu_dereg_mem(vcqs[3], stadd[3], 0));
    CHECK_RC(utofu_dereg_mem(vcqs[3], stadd[3], 0), UTOFU_ERR_INVALID_STADD);
    for (size_t i = 0; i < 12; i++) {
        vcq = vcqs[i];
        CHECK_OK(utofu_query_vcq_id(vcq, &id));
        if (i != 3) {
            mem[i] = (uint8_t)i;
            check_copies(UT_PUT, stadd[i] + i, stadd[i] + 1000 + i, 1);
            CHECK_EQ(mem[1000 + i], i);
            CHECK_OK(dereg(stadd[i]));
        }
        close_vcq();
    }
}

Test(stadd, memory_is_registered_on_each_vcq_by_itself)
{
    run_one(many_vcqs);
}
