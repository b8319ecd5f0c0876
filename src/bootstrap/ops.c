/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for all launchers: see ops.h. */
#include "bootstrap/ops.h"
#include "util/env.h"
#include "util/sha256.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint64_t questions;

void ut_job_count_question(void)
{
    __atomic_add_fetch(&questions, 1, __ATOMIC_RELAXED);
}

uint64_t ut_job_num_questions(void)
{
    return __atomic_load_n(&questions, __ATOMIC_RELAXED);
}

int64_t ut_job_launcher_number(const char *name)
{
    const char *text = ut_env_text(name);
    char *end;

    if (!text || *text < '0' || *text > '9')
        return -1;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    return errno || *end || n > UINT32_MAX ? -1 : (int64_t)n;
}

int ut_job_retry(int (*ask)(uint32_t rank, void *record, size_t *size), uint32_t rank, void *record,
                 size_t *size, int wait_ms)
{
    int64_t deadline = ut_clock_us() + (int64_t)wait_ms * 1000, left;
    int64_t delay = UT_JOB_BACKOFF_MIN_US;
    int rc;

    while ((rc = ask(rank, record, size)) == -EAGAIN) {
        left = deadline - ut_clock_us();
        if (left <= 0)
            break;
        usleep((useconds_t)(delay < left ? delay : left));
        delay = delay * 2 < UT_JOB_BACKOFF_MAX_US ? delay * 2 : UT_JOB_BACKOFF_MAX_US;
    }
    return rc;
}

uint32_t ut_job_mark(const void *identity, size_t size)
{
    enum { MARKS = 1023 };
    uint8_t digest[UT_SHA256_SIZE];
    struct ut_sha256 sha;
    uint64_t number = 0;

    if (size > 0) {
        ut_sha256_init(&sha);
        ut_sha256_add(&sha, identity, size);
        ut_sha256_end(&sha, digest);
        memcpy(&number, digest, sizeof(number));
        number = le64toh(number);
    } else if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
        number = ut_clock_ns() ^ (uint64_t)getpid() << 32;
    }
    return (uint32_t)(number % MARKS) + 1;
}
