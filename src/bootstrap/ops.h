/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of a launcher, and helpers that all of them share. Private to src/bootstrap: other
 * modules use job.h.
 */
#ifndef UT_BOOTSTRAP_OPS_H
#define UT_BOOTSTRAP_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap/job.h"
#include "util/clock.h"

struct ut_job_ops {
    const char *name;
    /* Are the variables of this launcher set? Cheap, no side effect, no message. */
    bool (*present)(void);
    /* Fills info, at the latest when ut_clock_ms() reaches the deadline; the mark only if it knows
     * more of the job than its id. 0; -ENODEV: not such a job after all (one warning was printed),
     * try the next; -EBUSY: not now, a later call may succeed; another negative errno: give up.
     * Every failure prints one line. */
    int (*open)(struct ut_job_info *info, int64_t deadline);
    /* As in job.h; never called for the own rank or for one beyond the job. */
    int (*publish)(const void *record, size_t size);
    int (*lookup)(uint32_t rank, void *record, size_t *size, int wait_ms);
    int64_t (*rank_at)(uint32_t node, uint32_t local_rank);
};

extern const struct ut_job_ops ut_job_hand; /* UTOFU_RANK, UTOFU_SIZE, UTOFU_ROOT */
extern const struct ut_job_ops ut_job_pmi1; /* the PMI-1 wire protocol on PMI_FD */
extern const struct ut_job_ops ut_job_pmix;
extern const struct ut_job_ops ut_job_step; /* UTOFU_ROOT, rank and size from the launcher */
extern const struct ut_job_ops ut_job_solo;

/* The delay between retries doubles from the first to the second. */
enum { UT_JOB_BACKOFF_MIN_US = 500, UT_JOB_BACKOFF_MAX_US = 20000 };

/* The milliseconds that are left, for poll(): never negative, which would be no timeout. */
static inline int ut_job_left_ms(int64_t deadline)
{
    int64_t left = deadline - (int64_t)ut_clock_ms();

    return left < 0 ? 0 : left > 86400000 ? 86400000 : (int)left;
}

/* Retries with backoff until the answer is not -EAGAIN or wait_ms are over. For launchers that
 * answer at once. */
int ut_job_retry(int (*ask)(uint32_t rank, void *record, size_t *size), uint32_t rank, void *record,
                 size_t *size, int wait_ms);

/* A mark of the job, for struct ut_job_info: of what identifies it, as all its processes see it; or
 * if there is nothing (size 0), a random one. */
uint32_t ut_job_mark(const void *identity, size_t size);

/* For ut_job_questions(): another question was sent to the launcher. */
void ut_job_count_question(void);

/* Environment variables of launchers: a decimal number, or -1 when absent or not one. */
int64_t ut_job_launcher_number(const char *name);

#endif
