/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check mode, UTOFU_CHECK: reports use that the uTofu manual forbids or leaves undefined.
 * docs/guide/check.md lists the findings.
 *
 * Communications are held back, as with DELAY_START, until the program waits for something (an
 * empty poll starts one, the next one two...), until others are behind them, or for a millisecond
 * or two: those of free-mode VCQs when they are submitted, those of session-mode VCQs when the puts
 * have arrived for which they wait. One that is held has not left the process, so nobody can have
 * been told of it: whatever the program does meanwhile that is wrong while a communication is under
 * way is wrong for certain. So nothing is reported of a right program, and what is only done after
 * that is not seen.
 *
 * Where the mode is off, a VCQ has no struct ut_check, and nothing here is called: VCQs that have
 * it are marked in fields that are tested anyway (ut_vcq.slow_path, watched, posted_at).
 *
 * Uses shuffle, link, vcq, stag, peers, process, bootstrap, desc, ident, util. api, engine and
 * runtime call it with the VCQ's lock held, unless it says otherwise. what.c: what is looked for.
 * hold.c: what is held, and for how long. origins.c and table.c: what other processes hold.
 * target.c: who else writes the memory of a put. memory.c: the memory of this process. report.c:
 * lines on standard error. place.c: addresses to lines of source files. module.c: places of the
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

/* The mode is on. Set by ut_check_open(), before there is any VCQ. */
extern bool ut_check_on;

/* Reads UTOFU_CHECK. Once, by set-up. */
void ut_check_open(const struct ut_job_info *job);

/* Where the table that the processes of the node share is, for the address record: 0 and 0, or, in
 * the process of local rank 0, which has made it, its process id and a descriptor. */
void ut_check_table(uint32_t *pid, uint32_t *fd);
/* For the background thread, each millisecond: opens that table, if it can be had by now. */
void ut_check_serve(void);

/* A new VCQ of the program is checked from here on, if the mode is on; false: no memory. */
bool ut_check_attach(struct ut_vcq *vcq);
void ut_check_detach(struct ut_vcq *vcq);

/* The n descriptors at the tail of the TOQ were submitted, by the call that returns to `caller`.
 * Returns how many of the oldest ones that are held are to start now. */
uint32_t ut_check_submitted(struct ut_vcq *vcq, uint32_t n, const void *caller);

/* Of a session-mode VCQ: puts have arrived for descriptors that were submitted. Returns how many of
 * the oldest of these are to start now. */
uint32_t ut_check_scheduled(struct ut_vcq *vcq);

/* The slot, which was held, is about to start. */
void ut_check_start(struct ut_vcq *vcq, const struct ut_slot *slot);

/* The program has polled and found nothing: how many are to start now. */
uint32_t ut_check_polled(struct ut_vcq *vcq);

/* This thread holds communications on other VCQs than this one, too. Without locks. */
bool ut_check_others_hold(const struct ut_vcq *vcq);
/* A poll of another VCQ was empty: how many are to start now of this one, if it is this thread
 * that has submitted what the VCQ holds. */
uint32_t ut_check_polled_elsewhere(struct ut_vcq *vcq);

/* Something is held for a millisecond or longer; for the background thread, which calls it every
 * millisecond. */
bool ut_check_is_overdue(struct ut_vcq *vcq);

/* The memory of this STADD is about to be deregistered. */
void ut_check_dereg(struct ut_vcq *vcq, utofu_stadd_t stadd, const void *caller);

/* The VCQ is about to be freed by the call that returns to `caller`; NULL: the process ends. */
void ut_check_end(struct ut_vcq *vcq, const void *caller);
/* The same, when everything on it is complete: what nobody has polled. `tcq_error`, `mrq_error`:
 * the first error code in each of the queues, or 0. */
void ut_check_left(struct ut_vcq *vcq, int tcq_error, int mrq_error);

/* Gates of this TNI were allocated (1 and more) or freed (-1 and less): start/end gates and relay
 * gates. Without a lock. */
void ut_check_gates(unsigned int tni, int starts, int relays);
/* These gates were set. Without a lock. */
void ut_check_set_gates(const struct utofu_vbg_setting *settings, size_t count);
/* A function was called that the real machine does not have. Without a lock. */
void ut_check_extension(void);

/* At the end of the process, without a lock: the sums, and the notes. */
void ut_check_close(void);

/* Rows of findings.h, for utofu-info; NULL behind the last one. */
struct ut_check_finding {
    const char *id, *what, *instead, *sections;
};
const struct ut_check_finding *ut_check_finding(unsigned int number);

#endif
