/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way to put is offered to the recording, which may hold it: with which target, length and
 * flags. The linker puts this test's function in the place of the library's (--wrap); the process
 * is alone, and puts to itself.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/format.h"
#include "record/hold.h"
#include "record/tape.h"
#include "utofu.h"

TestSuite(offered);

enum { FLAGS = UTOFU_ONESIDED_FLAG_TCQ_NOTICE, DESC = 64 };

static struct {
    utofu_vcq_id_t remote;
    utofu_stadd_t stadd;
    uint64_t length;
    unsigned long flags;
    unsigned int count;
} offered;

void __wrap_ut_record_hold(utofu_vcq_id_t remote, utofu_stadd_t stadd, uint64_t length,
                           unsigned long flags);
void __wrap_ut_record_hold(utofu_vcq_id_t remote, utofu_stadd_t stadd, uint64_t length,
                           unsigned long flags)
{
    offered.remote = remote;
    offered.stadd = stadd;
    offered.length = length;
    offered.flags = flags;
    offered.count++;
}

/* The last communication that was recorded. */
static struct ut_tape_comm recorded;
static utofu_stadd_t recorded_stadd;

void __real_ut_record_comm(struct ut_tape *t, const struct ut_tape_comm *comm, utofu_stadd_t stadd,
                           unsigned long vcq_flags, unsigned int same_call, uint64_t now);
void __wrap_ut_record_comm(struct ut_tape *t, const struct ut_tape_comm *comm, utofu_stadd_t stadd,
                           unsigned long vcq_flags, unsigned int same_call, uint64_t now);
void __wrap_ut_record_comm(struct ut_tape *t, const struct ut_tape_comm *comm, utofu_stadd_t stadd,
                           unsigned long vcq_flags, unsigned int same_call, uint64_t now)
{
    recorded = *comm;
    recorded_stadd = stadd;
    __real_ut_record_comm(t, comm, stadd, vcq_flags, same_call, now);
}

static uint8_t memory[8192] __attribute__((aligned(256)));
static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t id;
static utofu_stadd_t stadd;
static char path[64];

static void open_vcq(bool is_recorded)
{
    char value[100];

    snprintf(path, sizeof(path), "/tmp/test_offered.%d.bin", (int)getpid());
    snprintf(value, sizeof(value), "%s,record=1", path);
    if (is_recorded)
        setenv("UTOFU_TRACE", value, 1);
    cr_assert_eq(utofu_create_vcq(0, 0, &vcq), 0);
    cr_assert_eq(utofu_query_vcq_id(vcq, &id), 0);
    cr_assert_eq(utofu_reg_mem(vcq, memory, sizeof(memory), 0, &stadd), 0);
}

static void close_vcq(void)
{
    snprintf(path, sizeof(path), "/tmp/test_offered.%d.0.bin", (int)getpid());
    unlink(path);
}

static void poll_tcq(void)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        ;
    cr_assert_eq(rc, 0);
}

/* The call succeeds, and one put of it is offered. */
#define OFFERS(call, at, bytes)                                                                    \
    do {                                                                                           \
        offered.count = 0;                                                                         \
        cr_assert_eq(call, 0);                                                                     \
        cr_assert_eq(offered.count, 1, #call);                                                     \
        cr_assert(offered.remote == id && offered.stadd == (at) && offered.length == (bytes) &&    \
                      (offered.flags & FLAGS) == FLAGS,                                            \
                  #call);                                                                          \
        poll_tcq();                                                                                \
    } while (0)

Test(offered, puts_in_all_their_ways)
{
    uint64_t desc[2 * DESC / sizeof(uint64_t)];
    size_t size;

    open_vcq(true);
    OFFERS(utofu_put(vcq, id, stadd, stadd + 4096, 24, 0, FLAGS, NULL), stadd + 4096, 24);
    OFFERS(utofu_put_piggyback(vcq, id, memory, stadd + 4104, 9, 0, FLAGS, NULL), stadd + 4104, 9);
    OFFERS(utofu_put_piggyback8(vcq, id, 5, stadd + 4112, 8, 0, FLAGS, NULL), stadd + 4112, 8);
    cr_assert_eq(utofu_prepare_put(vcq, id, stadd, stadd + 4120, 16, 0, FLAGS, desc, &size), 0);
    OFFERS(utofu_post_toq(vcq, desc, size, NULL), stadd + 4120, 16);
    close_vcq();
}

/* Kind, EDATA and flags of a communication are in one word. */
Test(offered, kind_edata_and_flags_are_recorded)
{
    const unsigned long flags =
        FLAGS | UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_CACHE_INJECTION;

    open_vcq(true);
    cr_assert_eq(utofu_put(vcq, id, stadd, stadd + 4096, 24, 0xab, flags, NULL), 0);
    poll_tcq();
    cr_assert_eq(recorded.head, flags << 16 | 0xab00 | UT_RECORD_PUT, "%x", recorded.head);
    cr_assert(recorded.remote == id && recorded_stadd == stadd + 4096 && recorded.pace == 0);
    cr_assert_eq(utofu_put_gap(vcq, id, stadd, stadd + 4096, 24, 1, FLAGS, 256, 3, NULL), 0);
    poll_tcq();
    cr_assert_eq(recorded.pace, 256u | 3u << 16, "%x", recorded.pace);
    cr_assert_eq(utofu_get(vcq, id, stadd, stadd + 4096, 24, 0, FLAGS, NULL), 0);
    poll_tcq();
    cr_assert_eq(recorded.head, FLAGS << 16 | UT_RECORD_GET, "%x", recorded.head);
    close_vcq();
}

/* Of several descriptors the last one counts. */
Test(offered, last_of_several_descriptors)
{
    uint64_t desc[2 * DESC / sizeof(uint64_t)];
    size_t first, second;

    open_vcq(true);
    cr_assert_eq(utofu_prepare_put(vcq, id, stadd, stadd + 4096, 8, 0, 0, desc, &first), 0);
    cr_assert_eq(first, DESC);
    cr_assert_eq(utofu_prepare_put(vcq, id, stadd, stadd + 5120, 32, 0, FLAGS, (char *)desc + first,
                                   &second),
                 0);
    OFFERS(utofu_post_toq(vcq, desc, first + second, NULL), stadd + 5120, 32);
    offered.count = 0;
    cr_assert_eq(utofu_post_toq(vcq, desc, 0, NULL), 0);
    cr_assert_eq(offered.count, 0, "nothing is posted");
    close_vcq();
}

Test(offered, nothing_without_a_recording)
{
    uint64_t desc[DESC / sizeof(uint64_t)];
    size_t size;

    open_vcq(false);
    cr_assert_eq(utofu_put(vcq, id, stadd, stadd + 4096, 24, 0, FLAGS, NULL), 0);
    poll_tcq();
    cr_assert_eq(utofu_prepare_put(vcq, id, stadd, stadd + 4120, 16, 0, FLAGS, desc, &size), 0);
    cr_assert_eq(utofu_post_toq(vcq, desc, size, NULL), 0);
    poll_tcq();
    cr_assert_eq(offered.count, 0);
}

static uint64_t take_number(const uint8_t **at)
{
    uint64_t value = 0;

    for (unsigned int shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

/* What the program does between two calls is told by the record of the second one. The third put of
 * a loop has no site of its own to tell. */
Test(offered, time_before_a_put_is_in_its_record)
{
    const uint64_t computed = 1ull << 30;

    open_vcq(true);
    for (int i = 0; i < 4; i++) {
        ut_tape_clock.off_cpu = UINT64_MAX; /* nothing is long enough for the thread's CPU time */
        if (ut_tape_own)
            ut_tape_own->last_end -= computed;
        uint32_t used = ut_tape_own ? ut_tape_own->used : 0;
        cr_assert_eq(utofu_put(vcq, id, stadd, stadd + 4096, 24, 0, FLAGS, NULL), 0);
        const uint8_t *at = ut_tape_own->bytes + used;
        if (i == 3) {
            cr_assert_eq(*at++, UT_RECORD_PUT | UT_RECORD_AGAIN);
            take_number(&at); /* since the call before */
            cr_assert_geq(take_number(&at), computed);
        }
        cr_assert_eq(ut_tape_own->pending, 0, "nothing is left for the next call");
        poll_tcq();
    }
    close_vcq();
}

/* The entries that are not polled stay, where another put has no room. */
Test(offered, full_toq_of_a_recorded_vcq_is_busy)
{
    enum { ENTRIES = 2048 };
    void *cbdata;
    int rc;

    open_vcq(true);
    for (uintptr_t i = 1; i <= ENTRIES; i++)
        cr_assert_eq(utofu_put(vcq, id, stadd, stadd + 4096, 8, 0, FLAGS, (void *)i), 0, "%zu", i);
    for (uintptr_t i = 1; i <= 3; i++)
        cr_assert_eq(utofu_put(vcq, id, stadd, stadd + 4096, 8, 0, FLAGS, (void *)(ENTRIES + i)),
                     UTOFU_ERR_BUSY);
    for (uintptr_t i = 1; i <= ENTRIES; i++) {
        while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
            ;
        cr_assert(rc == 0 && cbdata == (void *)i, "%zu", i);
    }
    close_vcq();
}
