/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a job in shared memory: what a reader sees during writes, and what it cannot do
 * with the descriptor. */
#include "bootstrap/job.h"
#include "bootstrap/records.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 1000, BYTES = 1000 * (4 + 256), READS = 2000000 };

static struct ut_job_records server, reader;

static void make(void)
{
    ut_job_records_create(&server, SIZE);
    cr_assert_geq(server.fd, 0);
    cr_assert(ut_job_records_map(&reader, server.fd, SIZE));
}

static void drop(void)
{
    ut_job_records_free(&reader);
    ut_job_records_free(&server);
}

TestSuite(records, .init = make, .fini = drop);

/* Each record is one byte, repeated by its value. */
static bool is_whole(const uint8_t *record, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (record[i] != size)
            return false;
    }
    return true;
}

Test(records, of_every_length_and_rank)
{
    uint8_t record[UT_JOB_RECORD_MAX];
    size_t size;

    for (uint32_t i = 0; i < SIZE; i++)
        cr_assert(!ut_job_records_read(&reader, i, record, &size));
    for (uint32_t i = 0; i < SIZE; i++) {
        uint16_t n = (uint16_t)(i % (UT_JOB_RECORD_MAX + 1));
        memset(record, n, n);
        ut_job_records_write(&server, i, record, n);
    }
    for (uint32_t i = 0; i < SIZE; i++) {
        cr_assert(ut_job_records_read(&reader, i, record, &size));
        cr_assert_eq(size, i % (UT_JOB_RECORD_MAX + 1));
        cr_assert(is_whole(record, size));
    }
    cr_assert(!ut_job_records_read(&reader, SIZE, record, &size));
    cr_assert(!ut_job_records_read(&reader, UINT32_MAX, record, &size));
    ut_job_records_write(&server, 7, NULL, 0);
    cr_assert(!ut_job_records_read(&reader, 7, record, &size));
    cr_assert(ut_job_records_read(&reader, 6, record, &size));
}

static atomic_bool ending;

static void *write_again_and_again(void *unused)
{
    uint8_t record[UT_JOB_RECORD_MAX];

    (void)unused;
    for (unsigned int i = 0; !ending; i++) {
        uint16_t n = (uint16_t)(i % (UT_JOB_RECORD_MAX + 1));
        memset(record, n, n);
        ut_job_records_write(&server, 3, i % 5 ? record : NULL, n);
    }
    return NULL;
}

Test(records, are_never_seen_half_written)
{
    uint8_t record[UT_JOB_RECORD_MAX];
    pthread_t thread;
    size_t size;

    cr_assert_eq(pthread_create(&thread, NULL, write_again_and_again, NULL), 0);
    for (int i = 0, n = 0; n < READS; i++) {
        if (!ut_job_records_read(&reader, 3, record, &size))
            continue;
        n++;
        cr_assert(is_whole(record, size), "read %d: %zu bytes", i, size);
    }
    ending = true;
    pthread_join(thread, NULL);
}

Test(records, are_written_by_their_maker_only)
{
    cr_assert_eq(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, server.fd, 0), MAP_FAILED);
    cr_assert_eq(errno, EPERM);
    cr_assert_eq(mprotect(reader.slots, 4096, PROT_READ | PROT_WRITE), -1);
    cr_assert_eq(pwrite(server.fd, "x", 1, 0), -1);
    cr_assert_eq(errno, EPERM);
    cr_assert_eq(ftruncate(server.fd, 4096), -1);
    cr_assert_eq(ftruncate(server.fd, 2 * BYTES), -1);
    cr_assert_eq(fcntl(server.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

Test(records, other_files_are_not_believed)
{
    struct ut_job_records other;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    cr_assert_eq(ftruncate(fd, BYTES), 0);
    cr_assert(!ut_job_records_map(&other, fd, SIZE), "its maker could cut it off");
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    cr_assert(!ut_job_records_map(&other, fd, SIZE), "others could write to it");
    close(fd);
    cr_assert(!ut_job_records_map(&other, server.fd, SIZE + 1), "of another job");
    cr_assert(!ut_job_records_map(&other, server.fd, SIZE - 1), "of another job");
    cr_assert(!ut_job_records_map(&other, -1, SIZE));
    cr_assert(!ut_job_records_map(&other, STDIN_FILENO, SIZE));
    cr_assert_eq(other.size, 0);
    ut_job_records_free(&other);
}
