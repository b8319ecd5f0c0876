/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of calls, in terms of the public interface: for record.c, which sees the library's
 * own objects, and for tools/observe, which sees calls only. The functions that place ids belong to
 * the user of this file: record.c has them for the library.
 * Uses util and the tape.
 */
#ifndef UT_RECORD_CALLS_H
#define UT_RECORD_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "utofu.h"

struct ut_tape;
struct ut_tape_comm;

/* A VCQ of this process. Polls take it before they begin, because the VCQ may be freed by then. */
struct ut_record_of {
    utofu_vcq_id_t id;
    unsigned long flags;
};
void ut_record_made(const struct ut_record_of *vcq);
void ut_record_freed(const struct ut_record_of *vcq);
/* The next communication of a session-mode VCQ is about to start. */
void ut_record_started(const struct ut_record_of *vcq);

/* One communication of a call, on the tape of this thread, which has room for it.
 * same_call: UT_RECORD_SAME_CALL for a further one of the same call. */
void ut_record_comm(struct ut_tape *tape, const struct ut_tape_comm *comm, utofu_stadd_t stadd,
                    unsigned long vcq_flags, unsigned int same_call, uint64_t now);
/* The call that began at `begin` is about to return. Assumes that a short put takes as long as the
 * last measured one, which saves a clock read. */
void ut_record_end_comm(struct ut_tape *tape, uint64_t begin, uint32_t length);

/* A poll has ended with this result. */
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
