/* SPDX-License-Identifier: Apache-2.0 */
/* Records stored compactly: inserted records are read back, few bytes are needed, and damaged packs
 * of other processes do no harm. */
#include "bootstrap/job.h"
#include "bootstrap/pack.h"
#include "bootstrap/store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Like an address record: most bytes are equal on one host, the others are random. */
enum { SIZE = 82, HOST = 28, LOCAL = 4, CQ = 12, PID = 54, KEYS = 66, SAME_MAX = 48 };

static size_t make(uint32_t rank, uint32_t per_host, uint8_t record[UT_JOB_RECORD_MAX])
{
    memset(record, 0x5a, SIZE);
    memset(record + HOST, (int)(rank / per_host), 8);
    record[LOCAL] = (uint8_t)(rank % per_host);
    record[CQ] = (uint8_t)(rank % per_host * 3);
    record[PID] = (uint8_t)rank;
    record[PID + 1] = (uint8_t)(rank >> 8);
    srand(rank);
    for (int i = KEYS; i < SIZE; i++)
        record[i] = (uint8_t)rand();
    return SIZE;
}

static void check(const struct ut_job_store *store, uint32_t rank, uint32_t per_host)
{
    uint8_t want[UT_JOB_RECORD_MAX], got[UT_JOB_RECORD_MAX];
    size_t size, n = make(rank, per_host, want);

    cr_assert(ut_job_store_read(store, rank, got, &size), "rank %u", rank);
    cr_assert(size == n && memcmp(got, want, n) == 0, "rank %u", rank);
}

static void add(struct ut_job_store *store, uint32_t rank, uint32_t per_host)
{
    uint8_t record[UT_JOB_RECORD_MAX];
    size_t n = make(rank, per_host, record);

    cr_assert_eq(ut_job_store_add(store, rank, record, n), 0);
}

/* In an order that is neither ascending nor descending. */
Test(store, keeps_all_in_48_bytes_a_rank)
{
    for (uint32_t ranks = 8; ranks <= 8192; ranks *= 4) {
        struct ut_job_store store = {0};
        for (uint32_t i = 0; i < ranks; i++)
            add(&store, i * 5 % ranks, 32);
        for (uint32_t i = 0; i < ranks; i++)
            check(&store, i, 32);
        cr_assert_eq(store.num_records, ranks);
        size_t each = ut_job_store_bytes(&store) / ranks;
        cr_expect_leq(each, SAME_MAX, "%zu bytes for each of %u ranks", each, ranks);
        ut_job_store_free(&store);
    }
}

/* The twin: records without common bytes need more than their length. */
Test(store, needs_more_for_records_that_have_nothing_in_common)
{
    struct ut_job_store store = {0};
    uint8_t record[UT_JOB_RECORD_MAX];

    for (uint32_t rank = 0; rank < 256; rank++) {
        for (int i = 0; i < SIZE; i++)
            record[i] = (uint8_t)rand();
        cr_assert_eq(ut_job_store_add(&store, rank, record, SIZE), 0);
    }
    cr_expect_gt(ut_job_store_bytes(&store) / 256, SIZE);
    ut_job_store_free(&store);
}

Test(store, memory_is_for_who_is_known_not_for_the_job)
{
    struct ut_job_store store = {0};

    cr_assert_eq(ut_job_store_bytes(&store), 0);
    for (uint32_t i = 0; i < 8; i++)
        add(&store, i * 500000000u, 4);
    for (uint32_t i = 0; i < 8; i++)
        check(&store, i * 500000000u, 4);
    cr_expect_leq(ut_job_store_bytes(&store), 8 * 256);
    ut_job_store_free(&store);
}

Test(store, has_what_was_added_last_and_nothing_else)
{
    struct ut_job_store store = {0};
    uint8_t record[UT_JOB_RECORD_MAX + 1] = {1, 2, 3}, got[UT_JOB_RECORD_MAX];
    uint64_t place = 0;
    size_t size;

    cr_expect_not(ut_job_store_read(&store, 0, got, &size));
    add(&store, 7, 4);
    add(&store, 9, 4);
    cr_assert_eq(ut_job_store_add(&store, 7, record, 3), 0);
    cr_assert(ut_job_store_read(&store, 7, got, &size));
    cr_expect(size == 3 && memcmp(got, record, 3) == 0);
    cr_assert_eq(ut_job_store_add(&store, 7, record, 0), 0);
    cr_assert(ut_job_store_read(&store, 7, got, &size));
    cr_expect_eq(size, 0);
    check(&store, 9, 4);
    cr_expect_not(ut_job_store_read(&store, 8, got, &size));
    cr_expect_not(ut_job_store_read(&store, 7 + 64, got, &size));
    cr_expect_eq(ut_job_store_next(&store, &place), 7);
    cr_expect_eq(ut_job_store_next(&store, &place), 9);
    cr_expect_eq(ut_job_store_next(&store, &place), -1);
    cr_expect_eq(ut_job_store_add(&store, 7, record, sizeof(record)), -EINVAL);
    ut_job_store_free(&store);
}

/* Of every length, and with differences at every distance. */
/* For any number of known ranks: 64, 128... A search without result ends. */
Test(store, says_no_for_who_is_not_known, .timeout = 20)
{
    struct ut_job_store store = {0};
    uint8_t record[UT_JOB_RECORD_MAX];
    size_t size;

    for (uint32_t group = 0; group < 40; group++) {
        for (uint32_t other = group; other < 80; other++)
            cr_assert(!ut_job_store_read(&store, other * 64, record, &size), "group %u", other);
        add(&store, group * 64, 32);
    }
    ut_job_store_free(&store);
}

Test(pack, gives_back_what_was_inserted)
{
    uint8_t records[256][UT_JOB_RECORD_MAX], got[UT_JOB_RECORD_MAX];
    struct ut_job_pack pack = {NULL, 0};
    size_t size;

    memset(records, 0, sizeof(records));
    for (unsigned int i = 0; i < 256; i++) {
        for (unsigned int at = 0; at < UT_JOB_RECORD_MAX; at += i + 1)
            memset(&records[i][at], (int)i, at + i / 2 < UT_JOB_RECORD_MAX ? i / 2 : 1);
        cr_assert_eq(ut_job_pack_insert(&pack, 0, records[i], i), 0);
    }
    for (unsigned int i = 0; i < 256; i++) {
        cr_assert(ut_job_pack_read(&pack, 255 - i, got, &size));
        cr_assert(size == i && memcmp(got, records[i], i) == 0, "%u", i);
    }
    cr_expect_not(ut_job_pack_read(&pack, 256, got, &size));
    cr_expect_eq(ut_job_pack_insert(&pack, 258, records[1], 1), -EINVAL);
    ut_job_pack_remove(&pack, 0);
    cr_assert(ut_job_pack_read(&pack, 0, got, &size));
    cr_expect_eq(size, 254);
    ut_job_pack_remove(&pack, 255);
    cr_expect_not(ut_job_pack_read(&pack, 255, got, &size));
    ut_job_pack_free(&pack);
}

/* A record is read or not: the sanitizers detect anything else. */
Test(pack, survives_every_byte_changed_and_every_cut)
{
    static struct {
        uint8_t record[UT_JOB_RECORD_MAX], behind[1024];
    } got, none;
    struct ut_job_pack pack = {NULL, 0};
    unsigned int refused = 0;
    size_t size;

    for (uint32_t i = 0; i < 4; i++) {
        uint8_t record[UT_JOB_RECORD_MAX];
        size_t n = make(i, 4, record);
        cr_assert_eq(ut_job_pack_insert(&pack, i, record, n), 0);
    }
    for (size_t cut = 0; cut < pack.size; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1);
        memcpy(copy, pack.data, cut);
        refused += !ut_job_pack_read(&(struct ut_job_pack){copy, cut}, 3, got.record, &size);
        free(copy);
    }
    cr_expect_eq(refused, pack.size);
    for (size_t at = 0; at < pack.size; at++) {
        for (int value = 0; value < 256; value++) {
            uint8_t *copy = malloc(pack.size);
            memcpy(copy, pack.data, pack.size);
            copy[at] = (uint8_t)value;
            for (unsigned int i = 0; i < 5; i++)
                refused +=
                    !ut_job_pack_read(&(struct ut_job_pack){copy, pack.size}, i, got.record, &size);
            free(copy);
        }
    }
    cr_expect_gt(refused, pack.size);
    cr_expect(memcmp(got.behind, none.behind, sizeof(none.behind)) == 0);
    ut_job_pack_free(&pack);
}
