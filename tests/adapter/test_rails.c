/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long puts in parts, by both ports of a device, by two devices, or by both links of a bond:
 * UT_RAILS_DEVICES, UT_ADAPTER_PROFILE. The faults `hold` and `cut` of the software adapter hold
 * one of the two up, and break its connections.
 *
 * Whether a put went in parts is seen with the second port held up: gets by the first port find the
 * put's first word, but not its last one.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"
#include "harness.h"
#include "fault.h"

enum {
    LONG = 64 << 10,  /* bytes of a put in parts */
    AREA = 512 << 10, /* the target's, of the origin's puts */
    SOURCE = AREA,    /* behind it: the sources of puts */
    SIZE = 2 * AREA,
    FIRST = 1, /* port */
    SECOND,
    ALL = 99,
    PUTS = 60,
};

static struct ut_end end, looker;
static struct ut_peer peers[3];

static void fault(enum ad_fault what, uint32_t count)
{
    CHECK(adapter_fault_set(what, count));
}

static uint64_t word_of(uint8_t byte)
{
    return byte * UINT64_C(0x0101010101010101);
}

/* Starts a put of the source to the beginning of the area. */
static void start_put(size_t length, uint64_t edata, unsigned long int flags)
{
    struct ut_comm comm = {.kind = UT_PUT,
                           .vcq = end.vcq,
                           .rmt = peers[1].id,
                           .lcl_stadd = end.stadd + SOURCE,
                           .rmt_stadd = peers[1].stadd,
                           .length = length,
                           .edata = edata,
                           .flags = flags};

    ut_submit(&comm);
}

static void expect_local(uint64_t edata, int rc)
{
    struct utofu_mrq_notice notice;

    CHECK_RC(ut_await_mrq(end.vcq, &notice), rc);
    CHECK(notice.edata == edata);
}

/* What the target has at this place, by a get of another VCQ over the first port, which waits for
 * nothing. */
static uint64_t fetch_word(size_t at)
{
    struct utofu_mrq_notice notice;

    CHECK_OK(
        utofu_get(looker.vcq, peers[1].id, looker.stadd, peers[1].stadd + at, 8, 0, UT_LCL, NULL));
    CHECK_OK(ut_await_mrq(looker.vcq, &notice));
    return *(uint64_t *)(void *)looker.mem;
}

/* What the latest put has in all of its bytes; the target may ask, too. */
static uint8_t value(void)
{
    return (uint8_t)atomic_load(ut_cell(0));
}

/* Starts a put of LONG bytes with the second port held up, and waits until the first part is there.
 * Returns whether the last part is there, too. */
static bool arrives_at_once(uint64_t edata, unsigned long int flags)
{
    void *cbdata;

    atomic_store(ut_cell(0), value() % 99 + 1);
    memset(end.mem + SOURCE, value(), AREA);
    fault(AD_FAULT_HOLD, SECOND);
    start_put(LONG, edata, flags);
    while (fetch_word(0) != word_of(value()))
        CHECK_RC(utofu_poll_tcq(end.vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
    return fetch_word(LONG - 8) == word_of(value());
}

/* Puts until one goes in parts: the connection by the second port is made meanwhile. */
static void await_rails(void)
{
    bool at_once;

    ut_step("puts until one goes in parts");
    do {
        at_once = arrives_at_once(0, UT_LCL);
        fault(AD_FAULT_HOLD, 0);
        expect_local(0, UTOFU_SUCCESS);
    } while (at_once);
}

/* A put in parts whose second part is held up. */
static void start_held_put(uint64_t edata, unsigned long int flags)
{
    ut_step("a put in parts, one of them held up");
    CHECK(!arrives_at_once(edata, flags));
}

/* The VCQ that looks is on a TNI of the first port. */
static void open_ends(void)
{
    if (ut_rank == 0) { /* an earlier test may have failed */
        fault(AD_FAULT_HOLD, 0);
        fault(AD_FAULT_CUT, 0);
    }
    ut_open_all(&end, SIZE, peers);
    ut_end_open(&looker, 2, 0, 8);
}

static void close_ends(void)
{
    ut_barrier();
    ut_expect_nothing(end.vcq);
    ut_end_close(&looker);
    ut_end_close(&end);
}

static void check_area(size_t from, size_t to)
{
    for (size_t at = from; at < to; at++)
        CHECK(end.mem[at] == value());
}

static void expect_remote(uint64_t edata, size_t length)
{
    struct utofu_mrq_notice notice;

    CHECK_OK(ut_await_mrq(end.vcq, &notice));
    CHECK(notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT && notice.edata == edata);
    CHECK(notice.rmt_stadd == end.stadd + length);
}

static bool is_profile(const char *name)
{
    const char *profile = getenv("UT_ADAPTER_PROFILE");

    return profile && strcmp(profile, name) == 0;
}

/* For the adapter's bond: the file that says how many links it has. */
static void make_bond(const char *root, const char *links)
{
    char command[256];

    snprintf(command, sizeof(command),
             "mkdir -p %s/sys/class/net/bond0/bonding && echo %s > "
             "%s/sys/class/net/bond0/bonding/ad_num_ports",
             root, links, root);
    cr_assert_eq(system(command), 0);
}

static void run_opts(ut_body_fn *body, void *arg, const char *setting, uint32_t may_die,
                     unsigned int n, const char *links)
{
    char root[] = "/tmp/test_rails.XXXXXX", devices[64], sys[64], command[64];
    const char *names = getenv("UT_RAILS_DEVICES");

    if (!getenv("UT_ADAPTER_SOCKET"))
        cr_skip_test("not over the software adapter");
    cr_assert(mkdtemp(root));
    make_bond(root, links);
    snprintf(sys, sizeof(sys), "UT_ADAPTER_SYS=%s", root);
    snprintf(devices, sizeof(devices), "UTOFU_VERBS_DEVICES=%s", names ? names : "rxe0");
    ut_run(&(struct ut_run_opts){.n = n,
                                 .may_die = may_die,
                                 .env = {"UTOFU_PROVIDER=verbs", devices,
                                         "UTOFU_VERBS_TUNE=rails=8192", "UTOFU_PEER_TIMEOUT=10",
                                         sys, setting}},
           body, arg);
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    cr_assert_eq(system(command), 0);
}

static void run_with(ut_body_fn *body, const char *setting, uint32_t may_die)
{
    run_opts(body, NULL, setting, may_die, 2, "2");
}

static void run(ut_body_fn *body)
{
    run_with(body, NULL, 0);
}

/*
 * Data
 */

struct random_put {
    size_t src, dst, length;
};

static void start_random_put(struct random_put p)
{
    struct ut_comm comm = {.kind = UT_PUT,
                           .vcq = end.vcq,
                           .rmt = peers[1].id,
                           .lcl_stadd = end.stadd + SOURCE + p.src,
                           .rmt_stadd = peers[1].stadd + p.dst,
                           .length = p.length,
                           .flags = UT_LCL};

    ut_submit(&comm);
}

static void put_at_random(uint8_t *model)
{
    for (int i = 0; i < PUTS; i++) {
        struct random_put p = {.length = 1 + ut_random_below(AREA / 2)};
        p.src = ut_random_below(AREA - p.length + 1);
        p.dst = ut_random_below(AREA - p.length + 1);
        start_random_put(p);
        memcpy(model + p.dst, end.mem + SOURCE + p.src, p.length);
        expect_local(0, UTOFU_SUCCESS);
    }
}

/* Whether it went in parts is known; then no port is held up any more. */
static void put_and_check(uint64_t edata, bool at_once)
{
    CHECK(arrives_at_once(edata, UT_LCL) == at_once);
    fault(AD_FAULT_HOLD, 0);
    expect_local(edata, UTOFU_SUCCESS);
}

static void check_random(void *arg)
{
    uint8_t *model = ut_pages(AREA);

    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        await_rails();
        for (uint64_t n = 1; n <= 3; n++)
            put_and_check(n, false); /* no part has broken a port's connection */
        for (size_t at = 0; at < AREA; at++)
            end.mem[SOURCE + at] = (uint8_t)ut_random_below(256);
        start_random_put((struct random_put){.length = AREA});
        memcpy(model, end.mem + SOURCE, AREA);
        expect_local(0, UTOFU_SUCCESS);
        put_at_random(model);
        /* fetched in one piece */
        memset(end.mem + SOURCE, 0, AREA);
        CHECK_OK(utofu_get(end.vcq, peers[1].id, end.stadd + SOURCE, peers[1].stadd, AREA, 0,
                           UT_LCL, NULL));
        expect_local(0, UTOFU_SUCCESS);
        CHECK(memcmp(end.mem + SOURCE, model, AREA) == 0);
    }
    close_ends();
}

Test(rails, data_of_all_parts_is_right)
{
    run(check_random);
}

/*
 * Notices and order
 */

static void check_notices(void *arg)
{
    struct utofu_mrq_notice notice;
    void *cbdata;

    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        await_rails();
        start_held_put(1, UT_TCQ | UT_LCL | UT_RMT);
        start_put(8, 2, UT_LCL | UT_RMT);
        start_put(LONG, 3, UT_LCL | UT_RMT);
    }
    ut_barrier();
    for (int i = 0; i < 200; i++) {
        CHECK_RC(utofu_poll_mrq(end.vcq, 0, &notice), UTOFU_ERR_NOT_FOUND);
        CHECK_RC(utofu_poll_tcq(end.vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
    }
    ut_barrier();
    if (ut_rank == 0) {
        fault(AD_FAULT_HOLD, 0);
        for (uint64_t n = 1; n <= 3; n++)
            expect_local(n, UTOFU_SUCCESS);
        ut_expect_tcq(end.vcq, UTOFU_SUCCESS, NULL);
    } else {
        expect_remote(1, LONG);
        check_area(0, LONG);
        expect_remote(2, 8);
        expect_remote(3, LONG);
    }
    close_ends();
}

Test(rails, notices_come_in_order_when_all_parts_are_there)
{
    run(check_notices);
}

/* As the manual's guarantee goes beyond its own data here (porting.md, "Order"). */
static void check_flag_put(void *arg)
{
    struct utofu_mrq_notice notice;

    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        await_rails();
        start_held_put(1, UT_LCL);
        start_put(8, 2, UT_RMT);
    }
    ut_barrier();
    for (int i = 0; i < 200; i++)
        CHECK_RC(utofu_poll_mrq(end.vcq, 0, &notice), UTOFU_ERR_NOT_FOUND);
    ut_barrier();
    if (ut_rank == 0) {
        fault(AD_FAULT_HOLD, 0);
        expect_local(1, UTOFU_SUCCESS);
    } else {
        expect_remote(2, 8);
        check_area(0, LONG);
    }
    close_ends();
}

Test(rails, a_notice_comes_behind_the_parts_of_puts_before_it)
{
    run(check_flag_put);
}

static void check_strong(void *arg)
{
    static const uint64_t other = 7;

    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        await_rails();
        start_held_put(1, UT_LCL);
        CHECK_OK(utofu_put_piggyback8(end.vcq, peers[1].id, other, peers[1].stadd + LONG - 8, 8, 2,
                                      UT_LCL | UT_STRONG, NULL));
        CHECK(fetch_word(LONG - 8) != other);
        fault(AD_FAULT_HOLD, 0);
        expect_local(1, UTOFU_SUCCESS);
        expect_local(2, UTOFU_SUCCESS);
        CHECK(fetch_word(LONG - 8) == other);
        CHECK(fetch_word(LONG - 16) == word_of(value()));
    }
    close_ends();
}

Test(rails, a_strong_put_comes_behind_all_parts)
{
    run(check_strong);
}

/* The rails are there, and a put without STRONG_ORDER uses them. */
static void check_long_strong(void *arg)
{
    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        await_rails();
        for (uint64_t n = 1; n <= 3; n++) {
            CHECK(arrives_at_once(n, UT_LCL | UT_STRONG));
            fault(AD_FAULT_HOLD, 0);
            expect_local(n, UTOFU_SUCCESS);
        }
        put_and_check(4, false);
    }
    close_ends();
}

Test(rails, a_long_strong_put_goes_in_one_piece)
{
    run(check_long_strong);
}

/* The schedule pointer of a target in session mode moves when all parts are there, and it moves
 * although the put asks for no remote notice: rank 1's descriptor puts a word back. */
static void check_schedule(void *arg)
{
    struct ut_peer targets[2];
    struct utofu_mrq_notice notice;
    struct ut_end target;

    (void)arg;
    open_ends();
    ut_end_open(&target, 0, ut_rank == 1 ? UTOFU_VCQ_FLAG_SESSION_MODE : 0, AREA);
    ut_end_gather(&target, targets);
    if (ut_rank == 1) {
        CHECK_OK(
            utofu_put(target.vcq, peers[0].id, target.stadd, peers[0].stadd, 8, 9, UT_RMT, NULL));
        ut_barrier();
    } else {
        ut_barrier();
        peers[1] = targets[1];
        await_rails();
        start_held_put(1, UT_LCL | UTOFU_ONESIDED_FLAG_SPS(1));
        for (int i = 0; i < 200; i++)
            CHECK_RC(utofu_poll_mrq(end.vcq, 0, &notice), UTOFU_ERR_NOT_FOUND);
        fault(AD_FAULT_HOLD, 0);
        for (int i = 0; i < 2; i++) {
            CHECK_OK(ut_await_mrq(end.vcq, &notice));
            CHECK(notice.edata == (notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT ? 9 : 1));
        }
        CHECK(fetch_word(LONG - 8) == word_of(value()));
    }
    ut_barrier();
    ut_end_close(&target);
    close_ends();
}

Test(rails, a_schedule_pointer_moves_behind_all_parts)
{
    run(check_schedule);
}

/*
 * What breaks
 */

static void break_port(uint32_t port)
{
    fault(AD_FAULT_CUT, port);
    fault(AD_FAULT_HOLD, 0);
}

static void check_broken_rail(void *arg)
{
    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        await_rails();
        start_held_put(1, UT_TCQ | UT_LCL | UT_RMT);
        break_port(SECOND);
        expect_local(1, UTOFU_SUCCESS);
        ut_expect_tcq(end.vcq, UTOFU_SUCCESS, NULL);
        ut_barrier();
        ut_step("puts without rails");
        start_put(LONG, 2, UT_LCL);
        expect_local(2, UTOFU_SUCCESS);
        fault(AD_FAULT_CUT, 0);
        await_rails();
        ut_step("a put without remote notice");
        start_held_put(3, UT_LCL);
        break_port(SECOND);
        expect_local(3, arg ? UTOFU_ERR_MRQ_OTHER : UTOFU_SUCCESS);
        fault(AD_FAULT_CUT, 0);
    } else {
        expect_remote(1, LONG);
        check_area(0, LONG);
        ut_barrier();
    }
    close_ends();
}

Test(rails, a_put_whose_second_port_breaks_goes_by_the_first)
{
    run(check_broken_rail);
}

Test(rails, a_put_whose_second_port_breaks_ends_in_doubt_where_that_is_wanted)
{
    static int reports;

    run_opts(check_broken_rail, &reports, "UTOFU_AFTER_BREAK=report", 0, 2, "2");
}

/* The first port's connection breaks twice: while the second part is held up, which is complete
 * before the link is connected again, or after that. */
static void check_broken_link(void *arg)
{
    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        await_rails();
        for (uint64_t n = 1; n <= 4; n += 2) {
            start_held_put(n, UT_LCL | UT_RMT);
            fault(AD_FAULT_CUT, FIRST);
            start_put(8, n + 1, UT_LCL); /* finds the connection broken */
            ut_random_delay(20000);
            fault(AD_FAULT_CUT, 0);
            if (n == 1)
                CHECK(fetch_word(LONG - 8) != 0);
            fault(AD_FAULT_HOLD, 0);
            expect_local(n, UTOFU_SUCCESS);
            expect_local(n + 1, UTOFU_SUCCESS);
            ut_barrier();
        }
    } else {
        for (uint64_t n = 1; n <= 4; n += 2) {
            expect_remote(n, LONG);
            check_area(0, LONG);
            ut_barrier();
        }
    }
    close_ends();
}

Test(rails, a_put_whose_first_port_breaks_is_notified_once)
{
    run(check_broken_link);
}

static void poll_for_a_while(void)
{
    void *cbdata;

    for (int i = 0; i < 100; i++) {
        CHECK_RC(utofu_poll_tcq(end.vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
        ut_random_delay(200);
    }
}

/* An ARMW behind the put is a message, which has arrived when both connections break. */
static void check_armw_behind(void *arg)
{
    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        await_rails();
        start_held_put(1, UT_LCL);
        CHECK_OK(utofu_armw8(end.vcq, peers[1].id, UTOFU_ARMW_OP_ADD, 1, peers[1].stadd + SOURCE, 0,
                             0, NULL));
        while (fetch_word(SOURCE) != 1)
            ut_relax();
        fault(AD_FAULT_CUT, ALL);
        start_put(8, 2, UT_LCL);
        fault(AD_FAULT_HOLD, 0);
        poll_for_a_while();
        fault(AD_FAULT_CUT, 0);
        expect_local(1, UTOFU_SUCCESS);
        expect_local(2, UTOFU_SUCCESS);
        CHECK(fetch_word(LONG - 8) == word_of(value()));
    }
    close_ends();
}

Test(rails, a_part_is_not_taken_for_there_because_a_later_message_is)
{
    run_with(check_armw_behind, "UTOFU_ARMW=cpu", 0);
}

static void check_deregistered(void *arg)
{
    struct utofu_mrq_notice notice;

    (void)arg;
    open_ends();
    if (ut_rank == 0)
        await_rails();
    ut_barrier();
    if (ut_rank == 1) {
        CHECK_OK(utofu_dereg_mem(end.vcq, end.stadd, 0));
        ut_barrier();
        ut_barrier();
        CHECK_OK(utofu_reg_mem(end.vcq, end.mem, end.size, 0, &end.stadd));
    } else {
        ut_barrier();
        start_put(LONG, 1, UT_LCL | UT_RMT);
        int rc = ut_await_mrq(end.vcq, &notice);
        CHECK(rc == UTOFU_ERR_MRQ_RMT_STADD || rc == UTOFU_ERR_MRQ_RMT_MEMORY);
        CHECK(notice.edata == 1);
        ut_barrier();
    }
    ut_end_gather(&end, peers);
    if (ut_rank == 0) {
        await_rails();
        start_put(LONG, 2, UT_LCL | UT_RMT);
        expect_local(2, UTOFU_SUCCESS);
    } else {
        expect_remote(2, LONG);
    }
    close_ends();
}

Test(rails, a_put_to_memory_that_is_deregistered_ends_with_an_error)
{
    run(check_deregistered);
}

static void check_dead_target(void *arg)
{
    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        await_rails();
        start_held_put(1, UT_TCQ | UT_LCL | UT_RMT);
    }
    ut_barrier();
    if (ut_rank == 1)
        _exit(0);
    ut_mark_dead(1);
    fault(AD_FAULT_HOLD, 0);
    struct utofu_mrq_notice notice;
    int rc = ut_await_mrq(end.vcq, &notice);
    /* the second part, and the notice, may have been faster */
    CHECK(rc == UTOFU_ERR_MRQ_PEER || rc == UTOFU_SUCCESS);
    CHECK(notice.edata == 1);
    ut_expect_tcq(end.vcq, UTOFU_SUCCESS, NULL);
    ut_expect_nothing(end.vcq);
    ut_end_close(&looker);
    ut_end_close(&end);
}

Test(rails, a_put_whose_target_ends_ends_once)
{
    run_with(check_dead_target, NULL, 2);
}

/*
 * When puts go by one port
 */

static void check_two_tnis(void *arg)
{
    struct ut_end other;

    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        await_rails();
        ut_end_open(&other, 1, 0, 8);
        CHECK(arrives_at_once(1, UT_LCL));
        expect_local(1, UTOFU_SUCCESS);
        ut_end_close(&other);
        start_held_put(2, UT_LCL);
        fault(AD_FAULT_HOLD, 0);
        expect_local(2, UTOFU_SUCCESS);
    }
    close_ends();
}

Test(rails, puts_of_a_process_with_vcqs_on_both_ports_go_by_one)
{
    if (is_profile("lag"))
        cr_skip_test("there is one port");
    run(check_two_tnis);
}

static void check_one_link(void *arg)
{
    (void)arg;
    open_ends();
    if (ut_rank == 0)
        for (uint64_t n = 1; n <= 100; n++)
            put_and_check(n, true);
    close_ends();
}

Test(rails, puts_by_a_bond_with_one_link_go_in_one_piece)
{
    if (!is_profile("lag"))
        cr_skip_test("no bond");
    run_opts(check_one_link, NULL, NULL, 0, 2, "1");
}

/* A rail is not made while addresses are not resolved; the link was connected before. */
static void check_unreached(void *arg)
{
    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        start_put(8, 1, UT_LCL);
        expect_local(1, UTOFU_SUCCESS);
        CHECK(fetch_word(0) == 0);
        fault(AD_FAULT_ADDR, 1000000);
        for (uint64_t n = 2; n <= 60; n++)
            put_and_check(n, true);
        fault(AD_FAULT_ADDR, 0);
        await_rails();
    }
    close_ends();
}

Test(rails, puts_go_by_one_port_where_the_others_do_not_reach_each_other)
{
    run(check_unreached);
}

/*
 * Queue pairs that are short
 */

enum { FEW = 3 }; /* the link and its rail, and the link of the VCQ that looks */

static int count_connections(void)
{
    int (*count)(uint32_t *) = (int (*)(uint32_t *))dlsym(RTLD_DEFAULT, "adapter_classes");
    uint32_t classes;

    CHECK(count);
    return count(&classes);
}

static void put_to(const struct ut_peer *peer, uint64_t edata)
{
    CHECK_OK(utofu_put(end.vcq, peer->id, end.stadd + SOURCE, peer->stadd, 8, edata, UT_LCL, NULL));
    expect_local(edata, UTOFU_SUCCESS);
}

/* The connection to a third process needs a place. Which one gave up its own is seen: the next long
 * put goes in one piece, and nothing has to be connected again for that. */
static void check_few(void *arg)
{
    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        await_rails();
        put_and_check(1, false);
        CHECK(count_connections() == FEW);
        put_to(&peers[2], 2);
        CHECK(count_connections() == FEW);
        fault(AD_FAULT_ADDR, 1000000);
        put_and_check(3, true);
        put_to(&peers[2], 4);
        fault(AD_FAULT_ADDR, 0);
    }
    close_ends();
}

Test(rails, a_rail_is_closed_before_other_connections)
{
    if (is_profile("twins"))
        cr_skip_test("each device has its own queue pairs");
    run_opts(check_few, NULL, "UTOFU_VERBS_MAX_QPS=3", 0, 3, "2");
}

/* There is no place for a rail: it takes none from others. */
static void check_full(void *arg)
{
    (void)arg;
    open_ends();
    if (ut_rank == 0) {
        put_to(&peers[1], 1);
        put_to(&peers[2], 2);
        CHECK(fetch_word(0) == 0);
        fault(AD_FAULT_ADDR, 1000000); /* what is closed is not connected again */
        for (uint64_t n = 3; n <= 60; n++)
            put_and_check(n, true);
        put_to(&peers[2], 61);
        fault(AD_FAULT_ADDR, 0);
    }
    close_ends();
}

Test(rails, a_rail_takes_no_place_from_other_connections)
{
    if (is_profile("twins"))
        cr_skip_test("each device has its own queue pairs");
    run_opts(check_full, NULL, "UTOFU_VERBS_MAX_QPS=3", 0, 3, "2");
}

/*
 * Memory on the other device
 */

static int count_regions(void)
{
    int (*count)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "adapter_regions");

    CHECK(count);
    return count();
}

/* Registers the memory of both anew. */
static void register_anew(void)
{
    ut_barrier();
    CHECK_OK(utofu_dereg_mem(end.vcq, end.stadd, 0));
    CHECK_OK(utofu_reg_mem(end.vcq, end.mem, end.size, 0, &end.stadd));
    ut_end_gather(&end, peers);
}

static void check_registered(void *arg)
{
    int regions;

    (void)arg;
    open_ends();
    if (ut_rank == 0)
        await_rails();
    register_anew();
    regions = count_regions();
    ut_barrier();
    if (ut_rank == 0)
        put_and_check(1, true); /* far fewer bytes than the memory has */
    ut_barrier();
    CHECK(count_regions() == regions);
    ut_barrier();
    if (ut_rank == 0)
        await_rails();
    ut_barrier();
    CHECK(count_regions() == regions + 1);
    register_anew();
    CHECK(count_regions() == regions);
    close_ends();
}

Test(rails, memory_is_registered_on_the_other_device_when_enough_was_put)
{
    if (!is_profile("twins"))
        cr_skip_test("one device");
    run(check_registered);
}

/* The origin's memory, or the target's, cannot be registered on the other device: 1 or 2 more
 * objects are made when enough was put, in this order. */
static void check_refused(void *arg)
{
    const uint32_t *object = arg;

    open_ends();
    if (ut_rank == 0)
        await_rails();
    register_anew();
    if (ut_rank == 0) {
        fault(AD_FAULT_CREATE, *object);
        for (uint64_t n = 1; n <= 4 * SIZE / LONG; n++)
            put_and_check(n, true);
        fault(AD_FAULT_CREATE, 0);
    }
    close_ends();
}

Test(rails, puts_go_by_one_device_where_the_other_does_not_take_their_memory)
{
    static uint32_t object;

    if (!is_profile("twins"))
        cr_skip_test("one device");
    for (object = 1; object <= 2; object++)
        run_opts(check_refused, &object, NULL, 0, 2, "2");
}
