/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enhancements of connections (ECE) between two processes whose adapters differ: options supported
 * by both are used by both, and connections are established even after refusals. Queue pairs of the
 * software adapter with different options do not understand each other.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "ends.h"
#include "harness.h"
#include "fault.h"

enum { ROUNDS = 16, SIZE = 4096, VENDOR = 0x15b3 };

struct sides {
    bool as_device;
    struct {
        struct ad_ece can;
        uint32_t how; /* AD_ECE_... */
    } of[2];          /* the first one connects */
    uint32_t want;    /* options in use at the end */
};

static void can(const struct ad_ece *ece, uint32_t how)
{
    void (*set)(const struct ad_ece *, uint32_t) =
        (void (*)(const struct ad_ece *, uint32_t))dlsym(RTLD_DEFAULT, "adapter_ece");

    CHECK(set, "no adapter_ece()");
    set(ece, how);
}

/* Connections that were given up may remain for a moment. */
static void await_options(uint32_t want)
{
    int (*get)(uint32_t *) = (int (*)(uint32_t *))dlsym(RTLD_DEFAULT, "adapter_enhanced");
    uint32_t options;
    int num;

    CHECK(get, "no adapter_enhanced()");
    do {
        ut_relax();
        num = get(&options);
        CHECK(num >= 0);
        ut_step("%d queue pairs use %#x, not %#x", num, options, want);
    } while (num == 0 || options != want);
}

static void put_rounds(const struct ut_end *end, const struct ut_peer *to)
{
    struct utofu_mrq_notice notice;

    for (int i = 0; i < ROUNDS; i++) {
        struct ut_comm put = {.kind = UT_PUT,
                              .vcq = end->vcq,
                              .rmt = to->id,
                              .lcl_stadd = end->stadd,
                              .rmt_stadd = to->stadd + SIZE / 2,
                              .length = 8,
                              .flags = UT_LCL};
        ut_submit(&put);
        CHECK_OK(ut_await_mrq(end->vcq, &notice));
    }
}

static void check_sides(void *arg)
{
    const struct sides *s = arg;
    struct ut_peer peers[2];
    struct ut_end end;

    if (!s->as_device)
        can(&s->of[ut_rank].can, s->of[ut_rank].how);
    ut_open_all(&end, SIZE, peers);
    for (int turn = 0; turn < 2; turn++) {
        if (ut_rank == turn)
            put_rounds(&end, &peers[!ut_rank]);
        ut_barrier();
    }
    await_options(s->want);
    ut_close_all(&end);
}

static void run(struct sides s)
{
    if (!getenv("UT_ADAPTER_SOCKET"))
        cr_skip_test("not over the software adapter");
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_PROVIDER=verbs"}}, check_sides, &s);
}

Test(ece, what_the_device_can)
{
    const char *options = getenv("UT_ADAPTER_ECE"); /* of the profile */

    run((struct sides){.as_device = true,
                       .want = options ? (uint32_t)strtoul(options, NULL, 0) : 0});
}

Test(ece, what_both_can)
{
    run((struct sides){.of = {{{VENDOR, 0x73}, 0}, {{VENDOR, 0xb1}, 0}}, .want = 0x31});
}

Test(ece, the_accepting_side_can_less)
{
    run((struct sides){.of = {{{VENDOR, 0x73}, 0}, {{VENDOR, 0x20}, 0}}, .want = 0x20});
}

Test(ece, nothing_that_both_can)
{
    run((struct sides){.of = {{{VENDOR, 0x70}, 0}, {{VENDOR, 0x03}, 0}}});
}

Test(ece, of_different_vendors)
{
    run((struct sides){.of = {{{VENDOR, 0x73}, 0}, {{VENDOR + 1, 0x73}, 0}}});
}

Test(ece, the_asking_side_has_none)
{
    run((struct sides){.of = {{{0, 0}, 0}, {{VENDOR, 0x73}, 0}}});
}

Test(ece, the_accepting_side_has_none)
{
    run((struct sides){.of = {{{VENDOR, 0x73}, 0}, {{0, 0}, 0}}});
}

Test(ece, the_asking_side_refuses)
{
    run((struct sides){.of = {{{VENDOR, 0x73}, AD_ECE_REFUSES}, {{VENDOR, 0x73}, 0}}});
}

Test(ece, the_accepting_side_refuses)
{
    run((struct sides){.of = {{{VENDOR, 0x73}, 0}, {{VENDOR, 0x73}, AD_ECE_REFUSES}}});
}

/* In ibv_modify_qp(), after ibv_set_ece(). */
Test(ece, the_asking_side_fails)
{
    run((struct sides){.of = {{{VENDOR, 0x73}, AD_ECE_FAILS}, {{VENDOR, 0x73}, 0}}});
}

Test(ece, the_accepting_side_fails)
{
    run((struct sides){.of = {{{VENDOR, 0x73}, 0}, {{VENDOR, 0x73}, AD_ECE_FAILS}}});
}
