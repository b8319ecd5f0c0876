/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of the check mode: what a report says, that a place is reported once, and the sums.
 * The linker puts functions of this test in the place of those that write, look up names, and tell
 * the time (--wrap).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../harness/held_locks.h"
#include "../harness/limit.h"
#include "bootstrap/job.h"
#include "check/inner.h"
#include "check/origins.h"
#include "ident/ident.h"
#include "peers/peers.h"
#include "util/env.h"

TestSuite(report);

enum { NOW = 5000000, PLACES = 1024 };

static char written[1 << 20];
static size_t used;
static unsigned int pieces;

int __wrap_ut_write_all(int fd, const char *text, size_t size);
int __wrap_ut_write_all(int fd, const char *text, size_t size)
{
    cr_assert_eq(fd, 2);
    cr_assert(used + size < sizeof(written));
    memcpy(written + used, text, size);
    used += size;
    written[used] = '\0';
    pieces++;
    return 0;
}

void __wrap_ut_check_symbolize(const void *address, char *buf, size_t size);
void __wrap_ut_check_symbolize(const void *address, char *buf, size_t size)
{
    snprintf(buf, size, "f%u() at x.c:7", (unsigned int)(uintptr_t)address);
}

static int owner = -1;
int __wrap_ut_peers_find_owner(const struct ut_vcq_ident *vcq, struct ut_peer *peer);
int __wrap_ut_peers_find_owner(const struct ut_vcq_ident *vcq, struct ut_peer *peer)
{
    (void)vcq;
    if (owner < 0)
        return -EAGAIN;
    peer->rank = (uint32_t)owner;
    return 0;
}

uint64_t __wrap_ut_clock_ns(void);
uint64_t __wrap_ut_clock_ns(void)
{
    return NOW;
}

static struct ut_job_info job = {.rank = 4, .size = 9};
static utofu_vcq_id_t target;

static void begin(const char *mode)
{
    setenv("UTOFU_CHECK", mode, 1);
    cr_assert_eq(ut_env_load(), 0);
    ut_check_job = &job;
    target = ut_vcq_id_pack(&(struct ut_vcq_ident){.tni = 2, .cq = 3, .cmp = 1});
}

static const char *take(void)
{
    static char text[sizeof(written)];

    memcpy(text, written, used + 1);
    used = pieces = 0;
    written[0] = '\0';
    return text;
}

static const void *at(unsigned int place)
{
    return (const void *)(uintptr_t)place;
}

static void say(char *out, size_t size, const char *kind, unsigned int length, unsigned int number,
                unsigned int vcq, const char *rank, const char *ago, unsigned int place)
{
    snprintf(
        out, size,
        "%s of %u bytes, number %u of VCQ %016x, to VCQ %016llx%s, %s ms ago in f%u() at x.c:7\n",
        kind, length, number, vcq, (unsigned long long)target, rank, ago, place);
}

static struct ut_vcq mine = {.id = 0x70001}, others = {.id = 0x70002};

static void make(struct ut_slot *slot, struct ut_check_op *op, unsigned int kind,
                 unsigned int length, unsigned int place)
{
    *slot = (struct ut_slot){.desc = {.kind = (uint8_t)kind, .rmt_vcq_id = target}};
    slot->desc.word = length;
    *op = (struct ut_check_op){.caller = at(place), .number = 10 + place, .at = NOW - 1500000};
}

Test(report, of_two_communications)
{
    struct ut_slot slot, other;
    struct ut_check_op op, other_op;
    char want[2048], first[512], second[512];

    begin("1");
    make(&slot, &op, UT_DESC_GET, 16, 1);
    make(&other, &other_op, UT_DESC_PUT, 24, 2);
    other_op.at = NOW - 2000000;
    struct ut_check_report r = {.id = UT_CHECK_UNORDERED,
                                .vcq = &mine,
                                .slot = &slot,
                                .op = &op,
                                .other_vcq = &others,
                                .other = &other,
                                .other_op = &other_op};
    owner = 6;
    ut_check_report(&r);
    cr_assert_eq(pieces, 1, "in one piece");
    say(first, sizeof(first), "get", 16, 11, 0x70001, " (rank 6)", "1.500", 1);
    say(second, sizeof(second), "put", 24, 12, 0x70002, " (rank 6)", "2.000", 2);
    const struct ut_check_finding *f = ut_check_finding(UT_CHECK_UNORDERED);
    snprintf(
        want, sizeof(want),
        "utofu: check: [rank 4] unordered: %s\n    %s    behind %s    instead: %s (manual %s)\n",
        f->what, first, second, f->instead, f->sections);
    cr_assert_str_eq(take(), want);

    ut_check_report(&r);
    cr_assert_str_eq(take(), "", "a place is reported once");
    other_op.caller = at(3);
    owner = -1;
    ut_check_report(&r);
    const char *text = take();
    cr_assert_not_null(strstr(text, "f3() at"), "another place: %s", text);
    cr_assert_null(strstr(text, "rank 6"), "%s", text);
    r.id = UT_CHECK_LOCAL;
    ut_check_report(&r);
    cr_assert_not_null(strstr(take(), "] local-overlap: "), "another finding");
    op.caller = at(4);
    ut_check_report(&r);
    cr_assert_not_null(strstr(take(), "f4() at"), "another place");

    ut_check_print_sums();
    cr_assert_str_eq(
        take(), "utofu: check: [rank 4] 5 findings at 4 places: local-overlap 2 unordered 3\n");
}

Test(report, of_a_call)
{
    struct ut_slot slot;
    struct ut_check_op op;
    char want[2048], line[512];

    begin("1");
    make(&slot, &op, UT_DESC_ARMW, 8, 1);
    struct ut_check_report r = {
        .id = UT_CHECK_SOURCE, .vcq = &mine, .slot = &slot, .op = &op, .caller = at(9)};
    ut_check_report(&r);
    const struct ut_check_finding *f = ut_check_finding(UT_CHECK_SOURCE);
    say(line, sizeof(line), "ARMW", 8, 11, 0x70001, "", "1.500", 1);
    snprintf(want, sizeof(want),
             "utofu: check: [rank 4] source-written: %s, in f9() at x.c:7\n    %s    instead: %s "
             "(manual %s)\n",
             f->what, line, f->instead, f->sections);
    cr_assert_str_eq(take(), want);
    ut_check_report(&r);
    cr_assert_str_eq(take(), "");
    r.caller = at(8);
    ut_check_report(&r);
    cr_assert_not_null(strstr(take(), "in f8() at"));
    op.caller = at(2);
    ut_check_report(&r);
    cr_assert_not_null(strstr(take(), "in f2() at"));
}

/* Findings without a communication. */
Test(report, of_codes_and_of_threads)
{
    begin("1");
    struct ut_check_report code = {.id = UT_CHECK_UNREAD, .vcq = &mine, .rc = UTOFU_ERR_MRQ_PEER};
    ut_check_report(&code);
    cr_assert_not_null(strstr(take(), ": UTOFU_ERR_MRQ_PEER on VCQ 0000000000070001\n"));
    struct ut_check_report threads = {.id = UT_CHECK_CONCURRENT, .vcq = &mine};
    ut_check_report(&threads);
    cr_assert_not_null(strstr(take(), ": VCQ 0000000000070001\n"));
}

/* One that another process holds, of a file that this process has not loaded. */
Test(report, beside_a_communication_of_another_process)
{
    struct ut_slot slot;
    struct ut_check_op op;
    struct ut_table_found found = {.comm = {.at = NOW - 250000,
                                            .number = 21,
                                            .vcq_id = 0x70003,
                                            .length = 40,
                                            .module = 5,
                                            .offset = 0x1234,
                                            .name = "other",
                                            .rank = 8,
                                            .kind = UT_DESC_GET}};
    char want[400];

    begin("1");
    found.comm.rmt_vcq_id = target;
    make(&slot, &op, UT_DESC_PUT, 8, 1);
    struct ut_check_report r = {
        .id = UT_CHECK_ORIGINS, .vcq = &mine, .slot = &slot, .op = &op, .origin = &found};
    ut_check_report(&r);
    snprintf(want, sizeof(want),
             "    beside get of 40 bytes, number 21 of VCQ 0000000000070003 of rank 8, to VCQ "
             "%016llx, 0.250 ms ago in other+0x1234\n    instead: ",
             (unsigned long long)target);
    const char *text = take();
    cr_assert_not_null(strstr(text, want), "%s", text);
    ut_check_report(&r);
    cr_assert_str_eq(take(), "", "a place is reported once");
    found.comm.offset++;
    ut_check_report(&r);
    cr_assert_not_null(strstr(take(), "other+0x1235"), "another place of the other process");
}

/* Also those at the ends of the table, and where nothing is known of the place. */
Test(report, each_finding_is_told_and_counted)
{
    char want[1000] = "utofu: check: [rank 4] ", part[100];
    size_t size = strlen(want);

    begin("1");
    size += (size_t)snprintf(want + size, sizeof(want) - size,
                             "%d findings at %d places:", UT_CHECK_FINDINGS, UT_CHECK_FINDINGS);
    for (unsigned int id = 0; id < UT_CHECK_FINDINGS; id++) {
        const struct ut_check_finding *f = ut_check_finding(id);
        ut_check_report(&(struct ut_check_report){.id = (enum ut_check_id)id, .vcq = &mine});
        snprintf(part, sizeof(part), "[rank 4] %s: %.40s", f->id, f->what);
        const char *text = take();
        cr_assert_not_null(strstr(text, part), "%u: %s", id, text);
        size += (size_t)snprintf(want + size, sizeof(want) - size, " %s 1", f->id);
    }
    ut_check_print_sums();
    snprintf(want + size, sizeof(want) - size, "\n");
    cr_assert_str_eq(take(), want);
}

Test(report, one_finding_is_no_findings)
{
    begin("1");
    ut_check_print_sums();
    cr_assert_str_eq(take(), "", "nothing was found");
    ut_check_report(&(struct ut_check_report){.id = UT_CHECK_CONCURRENT, .vcq = &mine});
    take();
    ut_check_print_sums();
    char want[200];
    snprintf(want, sizeof(want), "utofu: check: [rank 4] 1 finding at 1 place: %s 1\n",
             ut_check_finding(UT_CHECK_CONCURRENT)->id);
    cr_assert_str_eq(take(), want);
}

/* Beyond a thousand places findings are counted, and no more lines are written. */
Test(report, places_are_limited)
{
    struct ut_slot slot;
    struct ut_check_op op;

    begin("1");
    make(&slot, &op, UT_DESC_PUT, 8, 0);
    struct ut_check_report r = {.id = UT_CHECK_SOURCE, .vcq = &mine, .slot = &slot, .op = &op};
    for (unsigned int i = 0; i < PLACES + 2; i++) {
        op.caller = at(100 + i);
        ut_check_report(&r);
        cr_assert_eq(pieces, i < PLACES, "%u", i);
        take();
    }
    ut_check_print_sums();
    cr_assert_str_eq(take(),
                     "utofu: check: [rank 4] 1026 findings at 1024 places: source-written 1026\n");
}

Test(report, findings_end_with_the_table)
{
    cr_assert_not_null(ut_check_finding(UT_CHECK_FINDINGS - 1));
    cr_assert_null(ut_check_finding(UT_CHECK_FINDINGS));
}

/* The first finding ends the process, if that is wanted, after its lines. */
Test(report, abort_ends_the_process, .signal = 6)
{
    begin("abort");
    ut_check_report(&(struct ut_check_report){.id = UT_CHECK_CONCURRENT, .vcq = &mine});
    _exit(3);
}
