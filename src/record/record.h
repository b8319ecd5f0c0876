/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording of UTOFU_TRACE=FILE,record=1: the calls of each thread in order, for utofu-model.
 * Without it no function of this module is called. A recorded VCQ is marked in fields that are
 * tested anyway (slow_path, watched). Its handle has the bit UT_HANDLE_RECORDED, with which
 * ut_vcq_try_enter() fails: so its calls leave the fast path as if the VCQ were locked, and the
 * fast path needs no instruction for it. A plain put or get still takes the direct path, which
 * ut_record_open_direct() opens, and ut_record_direct() reports.
 * Uses util, ident, desc, process, vcq. api and engine report calls; engine reports submissions.
 * record.c has the records, tape.c the buffer of each thread and the file, hold.c delays puts.
 */
#ifndef UT_RECORD_RECORD_H
#define UT_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "process/process.h"
#include "vcq/vcq.h"

/* Called once, when the coordinates are known. 0, or UTOFU_ERR_FATAL after an error line. */
int ut_record_open(const struct ut_process *process);
/* Is this process recorded? */
extern bool ut_record_on;

/* Marks a new VCQ of the program. Called with its lock held, or before it has a handle. */
void ut_record_attach(struct ut_vcq *vcq);
void ut_record_made(const struct ut_vcq *vcq);
void ut_record_freed(const struct ut_vcq *vcq);

/* Called before a put starts: delays some puts for a moment, so that the recording shows how their
 * targets behave without them. */
void ut_record_hold(utofu_vcq_id_t remote, utofu_stadd_t stadd, uint64_t length,
                    unsigned long flags);

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
/* The next communication of a session-mode VCQ is about to start. */
void ut_record_started(const struct ut_vcq *vcq);

/* A poll has ended with this result. The id of the VCQ is taken before the poll, because the VCQ
 * may be freed by then. */
struct ut_record_of {
    utofu_vcq_id_t id;
    unsigned long flags;
};
void ut_record_tcq(const struct ut_record_of *vcq, int rc);
void ut_record_mrq(const struct ut_record_of *vcq, int rc, const struct utofu_mrq_notice *notice);

/* The time at which a communication or barrier call begins. */
uint64_t ut_record_now(void);
/* Barriers: ut_record_set(): gates were set. ut_record_start(): a communication was started.
 * ut_record_result(): its poll has ended. */
void ut_record_set(const struct utofu_vbg_setting *settings, size_t n);
void ut_record_start(utofu_vbg_id_t gate, unsigned int op, uint64_t since);
void ut_record_result(utofu_vbg_id_t gate, uint64_t since, int rc);

/* Regions of the program, and memory whose change the program has seen. */
void ut_record_region(const char *name, bool enter);
void ut_record_seen(utofu_stadd_t stadd, uint64_t length);

#endif
