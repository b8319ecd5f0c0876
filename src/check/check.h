/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check mode, UTOFU_CHECK: reports use that the uTofu manual forbids or leaves undefined.
 * docs/guide/check.md lists the findings.
 * The mode holds communications back, as DELAY_START does, until the program waits for something
 * (the first empty poll starts one communication, the next one two...), until others are queued
 * behind them, or for one or two milliseconds. On a free-mode VCQ a communication is held from its
 * submission on; on a session-mode VCQ from the arrival of the puts that start it. A held
 * communication has not left the process, so no other process can know of it. If the program does
 * something meanwhile that is wrong during a communication, this is certainly wrong. So a correct
 * program gets no reports, but wrong actions after the start are not found.
 * Without the mode, a VCQ has no struct ut_check, and no function of this module is called. A
 * checked VCQ is marked in fields that are tested anyway (ut_vcq.slow_path, watched, posted_at).
 * Uses shuffle, link, vcq, stag, peers, process, bootstrap, desc, ident, util. api, engine and
 * runtime call this module with the lock of the VCQ held, unless a comment says otherwise. The
 * files: hold.c: which communications are held, and for how long. rules.c: the rules that held
 * communications must satisfy. origins.c, table.c: held communications of other processes.
 * target.c: other writers of the memory of a put. memory.c: memory of this process. report.c: lines
 * on standard error. symbolize.c: source lines of addresses. module.c: code addresses that other
 * processes can use. notes.c: notes on differences to the real machine, printed at the end.
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

/* The mode is on. ut_check_open() sets this before any VCQ exists. */
extern bool ut_check_on;

/* Reads UTOFU_CHECK. Called once, by set-up. */
void ut_check_open(const struct ut_job_info *job);

/* Identifies the table that the processes of the node share, for the address record. In the process
 * of local rank 0, which has made the table: its process id and a descriptor; elsewhere 0 and 0. */
void ut_check_table(uint32_t *pid, uint32_t *fd);
/* Called by the background thread each millisecond: opens the shared table, once it exists. */
void ut_check_serve(void);

/* Starts to check a new VCQ of the program, if the mode is on. False: no memory. */
bool ut_check_attach(struct ut_vcq *vcq);
void ut_check_detach(struct ut_vcq *vcq);

/* The call that returns to `caller` has submitted the n descriptors at the tail of the TOQ. Returns
 * how many of the oldest held communications must start now. */
uint32_t ut_check_submitted(struct ut_vcq *vcq, uint32_t n, const void *caller);

/* Session mode: puts have arrived for submitted descriptors. Returns how many of the oldest
 * descriptors must start now. */
uint32_t ut_check_scheduled(struct ut_vcq *vcq);

/* A held communication is about to start. */
void ut_check_start(struct ut_vcq *vcq, const struct ut_slot *slot);

/* A poll of the program was empty. Returns how many held communications must start now. */
uint32_t ut_check_polled(struct ut_vcq *vcq);

/* Does this thread also hold communications on other VCQs? Needs no lock. */
bool ut_check_others_have_held(const struct ut_vcq *vcq);
/* A poll of another VCQ was empty. Returns how many held communications of this VCQ, submitted by
 * this thread, must start now. */
uint32_t ut_check_polled_elsewhere(struct ut_vcq *vcq);

/* Called by the background thread each millisecond: is a communication held for a millisecond or
 * longer? */
bool ut_check_is_overdue(struct ut_vcq *vcq);

/* The memory of this STADD is about to be deregistered. */
void ut_check_dereg(struct ut_vcq *vcq, utofu_stadd_t stadd, const void *caller);

/* The call that returns to `caller` is about to free the VCQ. NULL: the process ends. */
void ut_check_on_free(struct ut_vcq *vcq, const void *caller);
/* The VCQ is about to be freed, and all communications on it are complete: reports unread entries.
 * `tcq_error`, `mrq_error`: the first error code in each queue, or 0. */
void ut_check_unread(struct ut_vcq *vcq, int tcq_error, int mrq_error);

/* Counts start/end gates and relay gates of this TNI that were allocated (positive) or freed
 * (negative). Needs no lock. */
void ut_check_gates(unsigned int tni, int starts, int relays);
/* These gates were set. Needs no lock. */
void ut_check_set_gates(const struct utofu_vbg_setting *settings, size_t count);
/* The program has called a function that the real machine does not have. Needs no lock. */
void ut_check_extension(void);

/* At the end of the process: prints the sums and the notes. Needs no lock. */
void ut_check_close(void);

/* Rows of findings.h, for utofu-info; NULL after the last one. */
struct ut_check_finding {
    const char *id, *what, *instead, *sections;
};
const struct ut_check_finding *ut_check_finding(unsigned int number);

#endif
