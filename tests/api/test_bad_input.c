/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong arguments and garbage: a specific code, or an error of that one communication; never a
 * crash, never damage elsewhere. The wrong calls of other functions are in their own files; this
 * file has the start and prepare functions, descriptors, and random calls.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(bad_input);

/* Bits that no UTOFU_ONESIDED_FLAG_ value has. */
static const unsigned long int undefined_flags =
    ~(UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_PACKET_RESPONSE |
      UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_PADDING |
      UTOFU_ONESIDED_FLAG_CACHE_INJECTION | UTOFU_ONESIDED_FLAG_DELAY_START |
      UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |
      UTOFU_ONESIDED_FLAG_SPS(15) | UTOFU_ONESIDED_FLAG_PATH(255));

/* A valid call, to its own VCQ. */
static struct ut_comm good_comm(const struct ut_end *end, enum ut_kind kind)
{
    return (struct ut_comm){.kind = kind,
                            .vcq = end->vcq,
                            .rmt = end->id,
                            .lcl_stadd = end->stadd,
                            .rmt_stadd = end->stadd + 2048,
                            .data = end->mem,
                            .length = 8,
                            .stride = 16,
                            .blocks = 2,
                            .mtu = 1920,
                            .flags = UT_TCQ | UT_LCL};
}

static void check_start(const struct ut_comm *comm, int rc, const char *what)
{
    struct ut_comm copy = *comm;

    for (int prepared = 0; prepared < 2; prepared++) {
        ut_step("%s: %s", ut_kind_name(comm->kind), what);
        copy.prepared = prepared;
        CHECK_RC(ut_start(&copy), rc);
    }
}

static void bad_flags_of(struct ut_comm comm)
{
    for (int bit = 0; bit < 64; bit++) {
        if (!(undefined_flags >> bit & 1))
            continue;
        comm.flags = 1ul << bit;
        check_start(&comm, UTOFU_ERR_INVALID_FLAGS, "an undefined flag");
        comm.flags |= UT_TCQ;
        check_start(&comm, UTOFU_ERR_INVALID_FLAGS, "an undefined flag among good ones");
    }
}

static void bad_ids_of(struct ut_comm comm)
{
    utofu_vcq_id_t good = comm.rmt, bad[] = {0, 1, UINT64_MAX, (uint64_t)comm.vcq, comm.lcl_stadd};

    for (size_t i = 0; i < NUM(bad); i++) {
        comm.rmt = bad[i];
        check_start(&comm, UTOFU_ERR_INVALID_VCQ_ID, "an id of nothing");
    }
    for (int bit = 0; bit < 64; bit++) {
        comm.rmt = good ^ 1ull << bit;
        check_start(&comm, UTOFU_ERR_INVALID_VCQ_ID, "a damaged id");
    }
}

static void bad_handles_of(struct ut_comm comm, utofu_vcq_hdl_t stale)
{
    utofu_vcq_hdl_t bad[] = {0, stale, UINTPTR_MAX, (utofu_vcq_hdl_t)comm.rmt,
                             comm.vcq ^ (utofu_vcq_hdl_t)1 << 40};

    for (size_t i = 0; i < NUM(bad); i++) {
        comm.vcq = bad[i];
        check_start(&comm, UTOFU_ERR_INVALID_VCQ_HDL, "a handle of nothing");
    }
}

static void bad_numbers_of(struct ut_comm good)
{
    struct ut_comm comm = good;

    comm.length = ut_max_length(good.kind) + 1;
    check_start(&comm, UTOFU_ERR_INVALID_SIZE, "a length above the limit");
    comm.length = SIZE_MAX;
    check_start(&comm, UTOFU_ERR_INVALID_SIZE, "the greatest length");
    comm = good;
    comm.edata = 256;
    check_start(&comm, UTOFU_ERR_INVALID_EDATA, "an EDATA of nine bits");
    comm.edata = 1ull << 63;
    check_start(&comm, UTOFU_ERR_INVALID_EDATA, "an EDATA of 64 bits");
    if (good.kind == UT_PIGGYBACK) {
        comm = good;
        comm.data = NULL;
        check_start(&comm, UTOFU_ERR_INVALID_POINTER, "data at NULL");
    }
}

static void start_bad(void *arg)
{
    struct ut_end end;
    utofu_vcq_hdl_t stale;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    CHECK_OK(utofu_create_vcq(0, 0, &stale));
    CHECK_OK(utofu_free_vcq(stale));
    for (enum ut_kind kind = 0; kind < UT_NUM_KINDS; kind++) {
        struct ut_comm comm = good_comm(&end, kind);

        bad_flags_of(comm);
        bad_handles_of(comm, stale);
        if (kind != UT_NOP) {
            bad_ids_of(comm);
            bad_numbers_of(comm);
        }
    }
    struct ut_peer self = ut_end_peer(&end);
    ut_flush(&end, &self); /* nothing was started */
    for (size_t i = 0; i < end.size; i++)
        CHECK_EQ(end.mem[i], 0);
    ut_end_close(&end);
}

Test(bad_input, start_and_prepare_functions_name_the_wrong_argument)
{
    ut_run(&(struct ut_run_opts){.n = 1}, start_bad, NULL);
}

/* The thread that alone uses a VCQ starts communications in a shorter way: util/lock.h. */
static void bad_ids_of_the_owner(void *arg)
{
    struct ut_end end;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    struct ut_peer self = ut_end_peer(&end);
    for (enum ut_kind kind = 0; kind < UT_NUM_KINDS; kind++) {
        struct ut_comm comm = good_comm(&end, kind);

        if (kind == UT_NOP)
            continue;
        ut_flush(&end, &self);
        for (int i = 0; i < 200; i++)
            ut_expect_nothing(end.vcq);
        bad_ids_of(comm);
    }
    ut_flush(&end, &self);
    ut_end_close(&end);
}

Test(bad_input, owner_of_a_vcq_gives_ids_of_nothing)
{
    ut_run(&(struct ut_run_opts){.n = 1}, bad_ids_of_the_owner, NULL);
}

static void path_ids(void *arg)
{
    struct ut_end end;
    bool good[256] = {true};

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    for (int i = 0; i < UT_PATHS; i++) {
        uint8_t coords[3] = {(uint8_t)(i / 6), (uint8_t)(i / 2 % 3), (uint8_t)(i % 2)}, home[6];
        utofu_path_id_t path;

        CHECK_OK(utofu_get_path_id(end.id, coords, &path));
        CHECK_OK(utofu_query_my_coords(home));
        /* 0 in the flags means no path, and then the path of the id is used */
        CHECK(path != 0 || memcmp(coords, home + 3, 3) == 0, "path id 0 for path %d", i);
        good[path] = true;
    }
    for (unsigned int id = 0; id < 256; id++) {
        struct ut_comm comm = good_comm(&end, UT_PUT);
        struct utofu_mrq_notice want = ut_lcl_notice(&comm, 0);

        comm.flags |= UTOFU_ONESIDED_FLAG_PATH(id);
        if (!good[id]) {
            check_start(&comm, UTOFU_ERR_INVALID_PATH_ID, "no path id");
            continue;
        }
        ut_submit(&comm);
        ut_expect_tcq(end.vcq, UTOFU_SUCCESS, NULL);
        ut_expect_notice(end.vcq, &want);
    }
    ut_expect_nothing(end.vcq);
    ut_end_close(&end);
}

Test(bad_input, path_in_flags_is_one_of_twelve)
{
    ut_run(&(struct ut_run_opts){.n = 1}, path_ids, NULL);
}

/* Garbage. Two processes: what is accepted may be executed, within the registered memory. */

enum { AREA = 4096, GUARD = 4096 };

/* Memory with guards around the part that is registered. */
struct guarded {
    uint8_t *mem;
    utofu_stadd_t stadd;
};

static struct guarded guarded_area(utofu_vcq_hdl_t vcq)
{
    struct guarded area = {.mem = ut_pages(AREA + 2 * GUARD)};

    memset(area.mem, 0x99, AREA + 2 * GUARD);
    CHECK_OK(utofu_reg_mem(vcq, area.mem + GUARD, AREA, 0, &area.stadd));
    return area;
}

static void check_guards(const struct guarded *area)
{
    for (size_t i = 0; i < GUARD; i++)
        CHECK(area->mem[i] == 0x99 && area->mem[GUARD + AREA + i] == 0x99,
              "byte %zu outside was written", i);
}

/* Takes all entries: any result of a communication is accepted. Returns whether the TCQ contained
 * the marker. */
static bool drain(utofu_vcq_hdl_t vcq, const void *marker)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    bool seen = false;
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) != UTOFU_ERR_NOT_FOUND) {
        CHECK(rc == UTOFU_SUCCESS || (rc <= UTOFU_ERR_TCQ_OTHER && rc >= UTOFU_ERR_TCQ_LENGTH),
              "poll_tcq gave %s", ut_rc_name(rc));
        seen = seen || cbdata == marker;
    }
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) != UTOFU_ERR_NOT_FOUND)
        CHECK(rc == UTOFU_SUCCESS || (rc <= UTOFU_ERR_MRQ_OTHER && rc >= UTOFU_ERR_MRQ_RMT_LENGTH),
              "poll_mrq gave %s", ut_rc_name(rc));
    return seen;
}

/* After the garbage a good put still succeeds. */
static void check_alive(const struct ut_end *end, const struct ut_peer *peer)
{
    struct ut_comm comm = {.kind = UT_PIGGYBACK8,
                           .vcq = end->vcq,
                           .rmt = peer->id,
                           .data = &(uint64_t){0x600d},
                           .rmt_stadd = peer->scratch,
                           .length = 8,
                           .flags = UT_TCQ | UT_STRONG,
                           .cbdata = &comm};
    int rc;

    while ((rc = ut_start(&comm)) == UTOFU_ERR_BUSY) {
        drain(end->vcq, NULL);
        ut_relax();
    }
    CHECK_OK(rc);
    while (!drain(end->vcq, &comm))
        ut_relax();
}

static void finish(struct ut_end *end, const struct ut_peer *peer, struct guarded *area)
{
    ut_step("a good put after the garbage");
    check_alive(end, peer);
    while (__atomic_load_n((uint64_t *)(void *)(end->mem + end->size), __ATOMIC_ACQUIRE) !=
           0x600d) {
        drain(end->vcq, NULL); /* so that the other's garbage does not overflow the own MRQ */
        ut_relax();
    }
    ut_barrier();
    check_guards(area);
    CHECK_OK(utofu_dereg_mem(end->vcq, area->stadd, 0));
    ut_close_all(end);
}

/* A well-formed call with random contents, within the areas. */
static struct ut_comm random_comm(const struct ut_end *end, utofu_vcq_id_t rmt, utofu_stadd_t mine,
                                  utofu_stadd_t theirs)
{
    struct ut_comm comm = good_comm(end, (enum ut_kind)ut_random_below(UT_NUM_KINDS));

    comm.rmt = rmt;
    comm.lcl_stadd = mine + ut_random_below(1024);
    comm.rmt_stadd = theirs + ut_random_below(1024);
    comm.length = ut_random_below(ut_is_piggyback(comm.kind) ? 9 : 1024);
    comm.blocks = 1;
    comm.stride = ut_random_below(1024);
    comm.edata = ut_random_below(256);
    comm.flags = ut_random() & (UT_TCQ | UT_LCL | UT_RMT | UT_STRONG);
    return comm;
}

static void damage(uint64_t *desc, size_t words)
{
    for (uint64_t flips = 1 + ut_random_below(3); flips > 0; flips--)
        desc[ut_random_below(words)] ^= 1ull << ut_random_below(64);
}

static void random_descriptors(void *arg)
{
    uint64_t count = ut_env_number("UT_BAD_DESCRIPTORS", 20000);
    struct ut_end end;
    struct ut_peer peers[2], peer;
    uint64_t desc[UT_DESC / 8];

    (void)arg;
    ut_open_all(&end, 4096, peers);
    peer = peers[!ut_rank];
    struct guarded area = guarded_area(end.vcq);
    utofu_stadd_t stadds[2];
    ut_allgather(&area.stadd, stadds, sizeof(area.stadd));
    for (uint64_t i = 0; i < count; i++) {
        size_t size = UT_DESC;

        if (i % 2) {
            struct ut_comm comm = random_comm(&end, peer.id, area.stadd, stadds[!ut_rank]);

            CHECK_OK(ut_prepare(&comm, desc, &size));
            damage(desc, size / 8);
        } else {
            for (size_t k = 0; k < NUM(desc); k++)
                desc[k] = ut_random() >> ut_random_below(64);
        }
        ut_step("descriptor %llu: %016llx %016llx %016llx %016llx ...", (unsigned long long)i,
                (unsigned long long)desc[0], (unsigned long long)desc[1],
                (unsigned long long)desc[2], (unsigned long long)desc[3]);
        int rc = utofu_post_toq(end.vcq, desc, size, NULL);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_INVALID_DESC || rc == UTOFU_ERR_INVALID_SIZE ||
                  rc == UTOFU_ERR_BUSY,
              "post_toq gave %s", ut_rc_name(rc));
        drain(end.vcq, NULL);
    }
    finish(&end, &peer, &area);
}

Test(bad_input, random_and_damaged_descriptors_are_errors_and_no_more)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .timeout_s = 120}, random_descriptors, NULL);
}

/* A number near a meaningful one, or any number. */
static uint64_t odd_number(const uint64_t *known, size_t count)
{
    uint64_t number = known[ut_random_below(count)];

    switch (ut_random_below(5)) {
    case 0:
        return ut_random() >> ut_random_below(64);
    case 1:
        return number + ut_random_below(20000) - 10000;
    case 2:
        return number ^ 1ull << ut_random_below(64);
    default:
        return number;
    }
}

static void random_arguments(void *arg)
{
    enum { COUNT = 50000 };
    struct ut_end end;
    struct ut_peer peers[2], peer;

    (void)arg;
    ut_open_all(&end, 4096, peers);
    peer = peers[!ut_rank];
    struct guarded area = guarded_area(end.vcq);
    utofu_stadd_t stadds[2], reserved;
    ut_allgather(&area.stadd, stadds, sizeof(area.stadd));
    CHECK_OK(utofu_query_stadd(peer.id, 3, &reserved));
    const uint64_t ids[] = {peer.id, peer.id, end.id},
                   lcl[] = {area.stadd, area.stadd + 4000, reserved, 0},
                   rmt[] = {stadds[!ut_rank], stadds[!ut_rank] + 4095, reserved, 0},
                   lengths[] = {0, 1, 8, 32, 4096, UT_MAX_PUTGET},
                   flags[] = {0, UT_TCQ, UT_LCL, UT_RMT, UT_TCQ | UT_LCL | UT_RMT | UT_STRONG};
    /* Random handles are tried elsewhere: here the handle is valid. */
    for (int i = 0; i < COUNT; i++) {
        struct ut_comm comm = random_comm(&end, peer.id, area.stadd, stadds[!ut_rank]);

        comm.prepared = ut_random_below(2);
        comm.rmt = odd_number(ids, NUM(ids));
        comm.lcl_stadd = odd_number(lcl, NUM(lcl));
        comm.rmt_stadd = odd_number(rmt, NUM(rmt));
        comm.stride = odd_number(lengths, NUM(lengths));
        comm.edata = ut_random_below(300);
        comm.flags = odd_number(flags, NUM(flags));
        comm.mtu = ut_random_below(2000);
        comm.gap = ut_random_below(300);
        comm.blocks = 1 + ut_random_below(5);
        comm.length = odd_number(lengths, NUM(lengths));
        uint8_t data[32] = {0};
        comm.data = data;
        if (ut_is_piggyback(comm.kind) && comm.length > sizeof(data))
            comm.length = ut_max_length(comm.kind) + 1 + ut_random_below(1000);
        ut_step("call %d: %s, lcl 0x%llx rmt 0x%llx length %zu flags 0x%lx", i,
                ut_kind_name(comm.kind), (unsigned long long)comm.lcl_stadd,
                (unsigned long long)comm.rmt_stadd, comm.length, comm.flags);
        int rc = ut_start(&comm);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY ||
                  (rc <= UTOFU_ERR_INVALID_ARG && rc >= UTOFU_ERR_INVALID_DATA),
              "%s", ut_rc_name(rc));
        drain(end.vcq, NULL);
    }
    finish(&end, &peer, &area);
}

Test(bad_input, random_arguments_are_errors_and_no_more)
{
    ut_run(&(struct ut_run_opts){.n = 2, .nodes = 2, .timeout_s = 120}, random_arguments, NULL);
}

/* Random handles, ids and STADDs for functions other than the start functions. */
static void random_management(void *arg)
{
    struct ut_end end;

    (void)arg;
    ut_end_open(&end, 0, 0, 4096);
    const uint64_t known[] = {end.vcq, end.id, end.stadd, 0, UINT64_MAX};

    for (int i = 0; i < 50000; i++) {
        uint64_t number = odd_number(known, NUM(known));
        uint8_t coords[6] = {0}, path[3];
        utofu_tni_id_t tni;
        utofu_cq_id_t cq;
        uint16_t extra;
        utofu_vcq_id_t id = number;
        utofu_stadd_t stadd;
        utofu_path_id_t path_id;

        for (size_t k = 0; k < 6; k++)
            coords[k] = (uint8_t)(ut_random() >> ut_random_below(8));
        if (number != end.stadd)
            CHECK_RC(utofu_dereg_mem(end.vcq, number, 0), UTOFU_ERR_INVALID_STADD);
        if (number != end.vcq)
            CHECK_RC(utofu_free_vcq((utofu_vcq_hdl_t)number), UTOFU_ERR_INVALID_VCQ_HDL);
        (void)utofu_query_stadd(number, (unsigned int)ut_random_below(300), &stadd);
        (void)utofu_set_vcq_id_path(&id, ut_random_below(3) ? coords : NULL);
        (void)utofu_get_path_id(number, ut_random_below(3) ? coords : NULL, &path_id);
        (void)utofu_get_path_coords(number, (utofu_path_id_t)ut_random(), path);
        if (utofu_query_vcq_info(number, coords, &tni, &cq, &extra) == UTOFU_SUCCESS)
            CHECK(tni < UT_TNIS && coords[3] < 2 && coords[4] < 3 && coords[5] < 2);
        (void)utofu_construct_vcq_id(coords, (utofu_tni_id_t)ut_random_below(8),
                                     (utofu_cq_id_t)ut_random(), (utofu_cmp_id_t)ut_random_below(9),
                                     &id);
    }
    struct ut_peer self = ut_end_peer(&end);
    ut_flush(&end, &self);
    ut_end_close(&end);
}

Test(bad_input, random_handles_ids_and_stadds_are_errors)
{
    ut_run(&(struct ut_run_opts){.n = 1}, random_management, NULL);
}
