/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording of UTOFU_TRACE=FILE,record=1: the calls of each thread in order, for utofu-model.
 * Without it no function of this module is called. A recorded VCQ is marked in fields that are
 * tested anyway (slow_path, watched). Its handle has the bit UT_HANDLE_RECORDED, with which
 * ut_vcq_try_enter() fails: so its calls leave the fast path as if the VCQ were locked, and the
 * fast path needs no instruction for it. A plain put or get still takes the direct path, which
 * ut_record_open_direct() opens, and ut_record_direct() reports.
 * Uses util, ident, desc, process, vcq. api and engine report calls; engine reports submissions.
 * record.c reports what the library's objects do to calls.c, which has the records; tape.c has the
 * buffer of each thread and the file, hold.c delays puts. tools/observe compiles all but record.c.
 */
#ifndef UT_RECORD_RECORD_H
#define UT_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "process/process.h"
#include "record/calls.h"
#include "record/hold.h"
#include "vcq/vcq.h"

/* Called once, when the coordinates are known. 0, or UTOFU_ERR_FATAL after an error line. */
int ut_record_open(const struct ut_process *process);
/* Is this process recorded? */
extern bool ut_record_on;

/* Marks a new VCQ of the program. Called with its lock held, or before it has a handle. */
void ut_record_attach(struct ut_vcq *vcq);

/* Opens the direct path for one communication on a recorded VCQ, whose lock the caller holds.
 * False: the communication must take the queued path, and the engine reports it. */
static inline bool ut_record_open_direct(struct ut_vcq *vcq)
{
    if (!vcq->recorded || vcq->toq_tail != vcq->toq_exec ||
        vcq->toq_tail - vcq->toq_head > vcq->toq_mask || vcq->shuffled || vcq->stats ||
        vcq->check || vcq->waits || (vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE))
        return false;
    vcq->slow_path = false;
    ut_toq_limit_direct(vcq);
    return true;
}

static inline void ut_record_close_direct(struct ut_vcq *vcq)
{
    vcq->slow_path = true;
    ut_toq_limit_direct(vcq);
}

/* A communication that began at `begin` has taken the direct path. */
void ut_record_direct(const struct ut_vcq *vcq, const struct ut_desc *desc, uint64_t begin);

/* ut_record_submit(): a call is about to submit the n slots behind the tail. ut_record_submitted():
 * the call is about to end. */
void ut_record_submit(struct ut_vcq *vcq, uint32_t n);
void ut_record_submitted(void);

#endif
