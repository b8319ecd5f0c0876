/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of a launcher, and helpers for all launchers. Private to src/bootstrap: other
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
    /* Are the variables of this launcher set? Cheap, without side effects or messages. */
    bool (*present)(void);
    /* Fills info before ut_clock_ms() reaches the deadline; fills the mark only if the launcher
     * identifies the job better than by its id. 0; -ENODEV: not a job of this launcher (one warning
     * was logged), try the next launcher; -EBUSY: not possible now, a later call may succeed;
     * another negative errno: give up. Every failure logs one line. */
    int (*open)(struct ut_job_info *info, int64_t deadline);
    /* As in job.h; never called for the own rank or for a rank outside the job. */
    int (*publish)(const void *record, size_t size);
    int (*lookup)(uint32_t rank, void *record, size_t *size, int wait_ms);
    int64_t (*rank_at)(uint32_t node, uint32_t local_rank);
};

extern const struct ut_job_ops ut_job_envvar; /* UTOFU_RANK, UTOFU_SIZE, UTOFU_ROOT */
extern const struct ut_job_ops ut_job_pmi1;   /* the PMI-1 wire protocol on PMI_FD */
extern const struct ut_job_ops ut_job_pmix;
extern const struct ut_job_ops ut_job_step; /* UTOFU_ROOT, rank and size from the launcher */
extern const struct ut_job_ops ut_job_solo;

/* ut_job_explain_absence() of the two launchers that use UTOFU_ROOT. */
bool ut_job_envvar_explain_absence(uint32_t rank, char *text, size_t size);

/* Minimum and maximum delay between retries; it doubles each time. */
enum { UT_JOB_BACKOFF_MIN_US = 500, UT_JOB_BACKOFF_MAX_US = 20000 };

/* The milliseconds left, for poll(); never negative, which would mean no timeout. */
static inline int ut_job_left_ms(int64_t deadline)
{
    int64_t left = deadline - (int64_t)ut_clock_ms();

    return left < 0 ? 0 : left > 86400000 ? 86400000 : (int)left;
}

/* Retries with backoff until the answer is not -EAGAIN or wait_ms are over. For launchers that
 * answer at once. */
int ut_job_retry(int (*ask)(uint32_t rank, void *record, size_t *size), uint32_t rank, void *record,
                 size_t *size, int wait_ms);

/* A mark of the job for struct ut_job_info: a hash of an identity that all processes of the job
 * know, or a random mark if size is 0. */
uint32_t ut_job_mark(const void *identity, size_t size);

/* For ut_job_num_questions(): counts a question that was sent to the launcher. */
void ut_job_count_question(void);

/* Launcher's environment variables: a decimal number, or -1 if it is missing or not a number. */
int64_t ut_job_launcher_number(const char *name);

#endif
