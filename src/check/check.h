/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check mode, UTOFU_CHECK: reports use that the uTofu manual forbids or leaves undefined.
 * docs/guide/check.md lists the findings.
 *
 * Communications are held, as with DELAY_START, until the program waits for something (an empty
 * poll starts one, the next one two...), until others are queued behind them, or for a millisecond
 * or two. On free-mode VCQs they are held when they are submitted; on session-mode VCQs when the
 * puts that start them have arrived. A held communication has not left the process, so no other
 * process can know of it. Therefore any action of the program meanwhile that is wrong during a
 * communication is certainly wrong: a correct program gets no reports, but wrong actions after the
 * start are not found.
 *
 * Without the mode, a VCQ has no struct ut_check, and no function of this module is called: a
 * checked VCQ is marked in fields that are tested anyway (ut_vcq.slow_path, watched, posted_at).
 *
 * Uses shuffle, link, vcq, stag, peers, process, bootstrap, desc, ident, util. api, engine and
 * runtime call it with the VCQ's lock held, unless it says otherwise. rules.c: what is looked for.
 * hold.c: what is held, and for how long. origins.c and table.c: what other processes hold.
 * target.c: who else writes the memory of a put. memory.c: the memory of this process. report.c:
 * lines on standard error. symbolize.c: addresses to lines of source files. module.c: places of the
 * program for other processes. notes.c: what differs there, told at the end.
 */
#ifndef UT_CHECK_CHECK_H
#define UT_CHECK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "utofu.h"

struct ut_job_info;
struct ut_slot;
struct ut_vcq;

/* The mode is on. Set by ut_check_open(), before any VCQ exists. */
extern bool ut_check_on;

/* Reads UTOFU_CHECK. Called once, by set-up. */
void ut_check_open(const struct ut_job_info *job);

/* The place of the table that the processes of the node share, for the address record: 0 and 0, or,
 * in the process of local rank 0, which has made the table, its process id and a descriptor. */
void ut_check_table(uint32_t *pid, uint32_t *fd);
/* For the background thread, each millisecond: opens the shared table, once it is available. */
void ut_check_serve(void);

/* Begins to check a new VCQ of the program, if the mode is on; false: no memory. */
bool ut_check_attach(struct ut_vcq *vcq);
void ut_check_detach(struct ut_vcq *vcq);

/* The n descriptors at the tail of the TOQ were submitted by the call that returns to `caller`.
 * Returns how many of the oldest held communications must start now. */
uint32_t ut_check_submitted(struct ut_vcq *vcq, uint32_t n, const void *caller);

/* Of a session-mode VCQ: puts have arrived for descriptors that were submitted. Returns how many of
 * the oldest descriptors must start now. */
uint32_t ut_check_scheduled(struct ut_vcq *vcq);

/* The communication in the slot was held, and is about to start. */
void ut_check_start(struct ut_vcq *vcq, const struct ut_slot *slot);

/* A poll of the program was empty. Returns how many held communications must start now. */
uint32_t ut_check_polled(struct ut_vcq *vcq);

/* Does this thread also hold communications on other VCQs? Without locks. */
bool ut_check_others_have_held(const struct ut_vcq *vcq);
/* A poll of another VCQ was empty. Returns how many held communications of this VCQ must start now,
 * if they were submitted by this thread. */
uint32_t ut_check_polled_elsewhere(struct ut_vcq *vcq);

/* Is a communication held for a millisecond or longer? For the background thread, each
 * millisecond. */
bool ut_check_is_overdue(struct ut_vcq *vcq);

/* The memory of this STADD is about to be deregistered. */
void ut_check_dereg(struct ut_vcq *vcq, utofu_stadd_t stadd, const void *caller);

/* The VCQ is about to be freed by the call that returns to `caller`; NULL: the process ends. */
void ut_check_on_free(struct ut_vcq *vcq, const void *caller);
/* The VCQ is about to be freed, and all communications on it are complete: reports entries that
 * were not polled. `tcq_error`, `mrq_error`: the first error code in each of the queues, or 0. */
void ut_check_unread(struct ut_vcq *vcq, int tcq_error, int mrq_error);

/* Gates of this TNI were allocated (positive numbers) or freed (negative): start/end gates and
 * relay gates. Without a lock. */
void ut_check_gates(unsigned int tni, int starts, int relays);
/* These gates were set. Without a lock. */
void ut_check_set_gates(const struct utofu_vbg_setting *settings, size_t count);
/* The program called a function that the real machine does not have. Without a lock. */
void ut_check_extension(void);

/* At the end of the process, without a lock: prints the sums and the notes. */
void ut_check_close(void);

/* Rows of findings.h, for utofu-info; NULL after the last one. */
struct ut_check_finding {
    const char *id, *what, *instead, *sections;
};
const struct ut_check_finding *ut_check_finding(unsigned int number);

#endif
