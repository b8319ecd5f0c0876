/* SPDX-License-Identifier: Apache-2.0 */
/* The board of a node: who may open it and which process is the last to write; and records of other
 * nodes that arrive together. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../harness/fake_clock.h"
#include "bootstrap/job.h"
#include "bootstrap/nodes.h"
#include "bootstrap/records.h"

enum { SIZE = 5 };

static struct ut_job_records first = {.fd = -1}, other = {.fd = -1};
static struct ut_job_board_key key;

static void make(void)
{
    cr_assert_eq(ut_job_board_create(&first, SIZE, &key), 0);
}

static void drop(void)
{
    ut_job_records_free(&other);
    ut_job_records_free(&first);
    ut_job_nodes_free();
}

TestSuite(board, .init = make, .fini = drop);
TestSuite(nodes, .init = make, .fini = drop);

static bool write_rank(struct ut_job_records *board, uint32_t local_rank)
{
    uint8_t record[100];

    memset(record, (int)local_rank + 1, sizeof(record));
    return ut_job_board_write(board, local_rank, record, sizeof(record));
}

static void write_all(void)
{
    for (uint32_t i = 0; i < SIZE; i++)
        write_rank(&first, i);
}

static bool is_record(const uint8_t *record, size_t size, uint32_t local_rank)
{
    return size == 100 && record[0] == local_rank + 1 && record[99] == local_rank + 1;
}

Test(board, everybody_reads_what_everybody_writes)
{
    uint8_t record[UT_JOB_RECORD_MAX];
    size_t size;

    cr_assert_eq(ut_job_board_open(&other, SIZE, &key), 0);
    cr_expect_not(write_rank(&other, 3));
    cr_expect_not(write_rank(&first, 0));
    cr_assert(ut_job_records_read(&first, 3, record, &size));
    cr_expect(is_record(record, size, 3));
    cr_assert(ut_job_records_read(&other, 0, record, &size));
    cr_expect(is_record(record, size, 0));
    cr_expect_not(ut_job_records_read(&other, 1, record, &size));
    cr_expect_not(ut_job_records_read(&other, SIZE, record, &size));
}

Test(board, who_writes_last_has_all_of_them)
{
    uint8_t record[UT_JOB_RECORD_MAX];
    struct ut_job_pack pack;
    size_t size;

    cr_assert_eq(ut_job_board_open(&other, SIZE, &key), 0);
    for (uint32_t i = 0; i < SIZE - 1; i++)
        cr_expect_not(write_rank(i % 2 ? &first : &other, i));
    cr_expect_eq(ut_job_records_pack(&other, &pack), -EAGAIN);
    cr_expect(write_rank(&other, SIZE - 1));
    cr_assert_eq(ut_job_records_pack(&other, &pack), 0);
    for (uint32_t i = 0; i < SIZE; i++) {
        cr_assert(ut_job_pack_read(&pack, i, record, &size));
        cr_expect(is_record(record, size, i));
    }
    ut_job_pack_free(&pack);
}

static void refused(struct ut_job_board_key wrong, uint32_t size)
{
    cr_expect_lt(ut_job_board_open(&other, size, &wrong), 0);
    cr_expect_eq(other.size, 0);
}

/* The descriptor number may belong to any file by now. */
Test(board, is_opened_by_nobody_with_another_key)
{
    struct ut_job_board_key wrong = key;
    char name[] = "/tmp/utofu.board.XXXXXX";
    int file = mkstemp(name), ends[2];

    unlink(name);
    cr_assert(file >= 0 && pipe(ends) == 0);
    struct {
        uint64_t cookie;
        uint32_t size;
    } head = {key.cookie, SIZE}; /* the only error is that the file could be truncated */
    cr_assert_eq(write(file, &head, sizeof(head)), sizeof(head));
    cr_assert_eq(ftruncate(file, 64 + SIZE * 260), 0);
    wrong.cookie++;
    refused(wrong, SIZE);
    refused(key, SIZE + 1);
    wrong = key;
    wrong.fd = (uint32_t)file;
    refused(wrong, SIZE);
    wrong.fd = (uint32_t)ends[1];
    refused(wrong, SIZE);
    wrong.fd = 1000000;
    refused(wrong, SIZE);
    wrong.fd = key.fd;
    wrong.pid = (uint32_t)getppid() + 1000000;
    refused(wrong, SIZE);
    close(file);
    close(ends[0]);
    close(ends[1]);
}

/* The file cannot be truncated while a reader has it mapped. */
Test(board, keeps_its_size)
{
    cr_expect(ftruncate(first.fd, 0) != 0 && errno == EPERM);
    cr_expect(ftruncate(first.fd, 1 << 20) != 0 && errno == EPERM);
}

static int take(uint32_t local_rank, uint8_t *record)
{
    size_t size = 0;
    int rc = ut_job_nodes_lookup(7, local_rank, SIZE, 1, record, &size);

    cr_expect(rc != 0 || is_record(record, size, local_rank));
    return rc;
}

/* Asked for at the second, third, fifth and ninth process, if fetching takes one question and the
 * node is missing. */
Test(nodes, are_asked_for_when_several_of_them_are_needed)
{
    uint8_t record[UT_JOB_RECORD_MAX];
    size_t size;

    for (uint32_t i = 1; i <= 9; i++) {
        cr_expect_eq(take(0, record), i == 2 || i == 3 || i == 5 || i == 9 ? -EAGAIN : -ENOENT,
                     "%u", i);
        ut_job_nodes_set_empty(7);
    }
    for (uint32_t i = 1; i <= 4; i++) /* two processes: the other one has been asked for already */
        cr_expect_eq(ut_job_nodes_lookup(8, 0, 2, 1, record, &size), -ENOENT);
    for (uint32_t i = 1; i <= 13;
         i++) { /* if fetching takes four questions: after four, after eight */
        cr_expect_eq(ut_job_nodes_lookup(9, 0, SIZE, 4, record, &size),
                     i == 5 || i == 9 ? -EAGAIN : -ENOENT, "%u", i);
        ut_job_nodes_set_empty(9);
    }
}

/* The first process of the node may never answer: 50 ms are enough. */
Test(nodes, are_waited_for_but_not_for_ever)
{
    uint8_t record[UT_JOB_RECORD_MAX];

    cr_expect_eq(take(0, record), -ENOENT);
    fake_clock_align();
    cr_expect_eq(take(1, record), -EAGAIN);
    cr_expect_eq(take(2, record), -EBUSY);
    fake_clock_pass_ms(49);
    cr_expect_eq(take(2, record), -EBUSY);
    fake_clock_pass_ms(1);
    cr_expect_eq(take(2, record), -EAGAIN);
    ut_job_nodes_set_empty(7);
    cr_expect_eq(take(3, record), -ENOENT);
}

Test(nodes, give_each_record_once_and_its_memory_back)
{
    uint8_t record[UT_JOB_RECORD_MAX];
    struct ut_job_pack pack;

    write_all();
    cr_assert_eq(ut_job_records_pack(&first, &pack), 0);
    cr_assert_eq(take(0, record), -ENOENT);
    cr_assert_eq(take(0, record), -EAGAIN);
    size_t before = ut_job_nodes_bytes();
    ut_job_nodes_add(7, pack.data, pack.size);
    cr_expect_eq(ut_job_nodes_bytes(), before + pack.size);
    for (uint32_t i = SIZE; i-- > 0;)
        cr_expect_eq(take(i, record), 0);
    cr_expect_eq(ut_job_nodes_bytes(), before);
    cr_expect_neq(take(0, record), 0);
    ut_job_pack_free(&pack);
}

/* Another node's bytes are not trusted. */
Test(nodes, that_are_damaged_have_no_records)
{
    uint8_t record[UT_JOB_RECORD_MAX], noise[64];

    memset(noise, 0xff, sizeof(noise));
    ut_job_nodes_add(7, noise, sizeof(noise));
    for (uint32_t i = 0; i < SIZE; i++)
        cr_expect_neq(take(i, record), 0);
    ut_job_nodes_free();
    ut_job_nodes_add(7, noise, 0);
    cr_expect_neq(take(0, record), 0);
}
