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
    /* Fills in info before ut_clock_ms() reaches the deadline; fills in the mark only if the
     * launcher identifies the job better than by its id. 0; -ENODEV: no job of this launcher (one
     * warning was logged), try the next launcher; -EBUSY: not possible now, a later call may
     * succeed; another negative errno: fatal. Every failure logs one line. */
    int (*open)(struct ut_job_info *info, int64_t deadline);
    /* As in job.h. Never called in a job of one process, for the own rank, or for a rank outside
     * the job. */
    int (*publish)(const void *record, size_t size);
    int (*lookup)(uint32_t rank, void *record, size_t *size, int wait_ms);
    int64_t (*rank_at)(uint32_t node, uint32_t local_rank);
    /* As in job.h; NULL: nothing to explain, nothing to wait for. */
    bool (*explain_absence)(uint32_t rank, char *text, size_t size);
    void (*leave_together)(int wait_ms);
};

extern const struct ut_job_ops ut_job_envvar; /* UTOFU_RANK, UTOFU_SIZE, UTOFU_ROOT */
extern const struct ut_job_ops ut_job_pmi1;   /* the PMI-1 wire protocol on PMI_FD */
extern const struct ut_job_ops ut_job_pmix;
extern const struct ut_job_ops ut_job_step; /* UTOFU_ROOT; rank and size from variables of the
                                             * launcher */

/* Minimum and maximum delay between retries. The delay doubles each time. */
enum { UT_JOB_BACKOFF_MIN_US = 500, UT_JOB_BACKOFF_MAX_US = 20000 };

/* The milliseconds left until the deadline, for poll(). Never negative, which would mean no
 * timeout. */
static inline int ut_job_left_ms(int64_t deadline)
{
    int64_t left = deadline - (int64_t)ut_clock_ms();

    return left < 0 ? 0 : left > 86400000 ? 86400000 : (int)left;
}

/* Retries with back-off until `ask` returns something else than -EAGAIN, or wait_ms have passed.
 * For launchers that answer immediately. */
int ut_job_retry(int (*ask)(uint32_t rank, void *record, size_t *size), uint32_t rank, void *record,
                 size_t *size, int wait_ms);

/* A mark of the job for struct ut_job_info: a hash of an identity that all processes of the job
 * know. size 0: a random mark. */
uint32_t ut_job_mark(const void *identity, size_t size);

/* Counts a query that was sent to the launcher, for ut_job_num_questions(). */
void ut_job_count_question(void);

/* The decimal number in a launcher's environment variable; -1: missing, or not a number. */
int64_t ut_job_launcher_number(const char *name);

#endif
