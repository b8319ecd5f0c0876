/* SPDX-License-Identifier: Apache-2.0 */
#include "record/record.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "bootstrap/mpi.h"
#include "record/mpi.h"
#include "record/tape.h"
#include "util/env.h"
#include "util/file.h"
#include "util/log.h"

bool ut_record_on;

/*
 * Communications
 */

void ut_record_attach(struct ut_vcq *vcq)
{
    vcq->recorded = vcq->slow_path = vcq->watched = true;
}

static const uint8_t ops[] = {[UT_DESC_NOP] = UT_RECORD_NOP,
                              [UT_DESC_PUT] = UT_RECORD_PUT,
                              [UT_DESC_PIGGYBACK] = UT_RECORD_PUT,
                              [UT_DESC_GET] = UT_RECORD_GET,
                              [UT_DESC_ARMW] = UT_RECORD_ARMW};

/* MTU and gap in one number. 0: the largest MTU, no gap. */
static inline uint32_t pace_of(const struct ut_desc *d)
{
    if (d->kind != UT_DESC_PUT && d->kind != UT_DESC_GET)
        return 0;
    return d->mtu == 0 || (d->mtu == UT_MAX_MTU && d->gap == 0) ? 0u
                                                                : d->mtu | (uint32_t)d->gap << 16;
}

static inline void record_one(struct ut_tape *t, const struct ut_vcq *vcq, const struct ut_desc *d,
                              uint32_t pace, unsigned int same_call, uint64_t now)
{
    const struct ut_tape_comm comm = {.vcq = vcq->id,
                                      .remote = d->rmt_vcq_id,
                                      .word = d->word,
                                      .pace = pace,
                                      .head = (uint32_t)d->flags << 16 | (uint32_t)d->edata << 8 |
                                              ops[d->kind]};

    ut_record_comm(t, &comm, d->rmt_stadd, vcq->flags, same_call, now);
}

void ut_record_submit(struct ut_vcq *vcq, uint32_t n)
{
    uint64_t now = ut_tape_time();
    struct ut_tape *t = ut_tape_enter();

    if (!t)
        return;
    ut_tape_begin_call(t, now);
    for (uint32_t i = 0; i < n; i++) {
        if (t->used > UT_TAPE_SIZE - UT_TAPE_RECORD_MAX)
            ut_tape_flush(t);
        const struct ut_desc *d = &ut_vcq_slot(vcq, vcq->toq_tail + i)->desc;
        record_one(t, vcq, d, pace_of(d), i ? UT_RECORD_SAME_CALL : 0, now);
    }
    t->last_end = now;
}

void ut_record_submitted(void)
{
    struct ut_tape *t = ut_tape_enter();

    if (t)
        ut_tape_end_call(t, t->last_begin, ut_tape_time());
}

void ut_record_direct(const struct ut_vcq *vcq, const struct ut_desc *d, uint64_t begin)
{
    struct ut_tape *t = ut_tape_enter();

    if (!t)
        return;
    ut_tape_begin_call(t, begin);
    /* piggyback data share storage with the MTU; direct puts have no MTU */
    record_one(t, vcq, d, 0, 0, begin);
    ut_record_end_comm(t, begin, ut_desc_length(d));
}

static bool has_mpi(void)
{
    enum ut_job_mpi state = ut_job_mpi_state();

    return state == UT_JOB_MPI_ACTIVE || state == UT_JOB_MPI_OVER;
}

int ut_record_open(const struct ut_process *process)
{
    const char *pattern = ut_env_str(UT_ENV_TRACE);
    const struct ut_tape_job job = {.rank = process->job->rank,
                                    .size = process->job->size,
                                    .id = process->job->id,
                                    .host = process->host,
                                    .coords = process->coords.at,
                                    .has_mpi = has_mpi};
    char path[PATH_MAX], why[UT_FILE_WHY] = "";

    if (!*pattern || !ut_env_num(UT_ENV_TRACE_RECORD))
        return 0;
    int rc = ut_file_of_rank(pattern, process->job->rank, path);
    if (rc == 0)
        rc = ut_tape_open(path, ut_env_num(UT_ENV_TRACE_LIMIT) << 20, &job, why);
    if (rc != 0) {
        ut_error("record",
                 "environment variable UTOFU_TRACE: '%s' is not allowed: cannot write %s: %s",
                 pattern, path, *why ? why : strerror(-rc));
        return UTOFU_ERR_FATAL;
    }
    ut_record_on = true;
    ut_record_mpi_open();
    return 0;
}
