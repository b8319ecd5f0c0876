/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background thread. It sleeps until a provider has an event for a VCQ whose program does not
 * poll, and does not touch VCQs whose program polls.
 *
 * Uses util, process, vcq, engine, provider.h.
 */
#ifndef UT_RUNTIME_THREAD_H
#define UT_RUNTIME_THREAD_H

#include <poll.h>

#include "process/process.h"
#include "vcq/vcq.h"

/* Starts the thread at the first call (unless UTOFU_PROGRESS_THREAD=0). 0 or negative errno. */
int ut_thread_start(void);

/* Called by providers: the endpoint of this VCQ needs attention. From any thread. */
void ut_thread_wake(void *vcq);

/* Polls the VCQ, whose lock the caller holds, until there are no more events, ends the waits for
 * the VCQ if it has an entry to poll, and arms it. False: events keep arriving, and the function
 * must be called again. */
bool ut_thread_poll_and_arm(struct ut_vcq *vcq);

/* The program has posted to a session-mode VCQ, whose lock is held. If the program computed after
 * its previous post, the thread attends to the VCQ from now on, as to one that is not polled. */
void ut_thread_on_post(struct ut_vcq *vcq);

/* The program polls a queue for the first time since then (vcq->posted_at is not 0). */
void ut_thread_on_poll(struct ut_vcq *vcq);

/* Something had arrived before that poll: perhaps long before, as the program computed. */
void ut_thread_on_late_poll(struct ut_vcq *vcq);

/*
 * Threads of the program that wait do the same work as the background thread, concurrently: so an
 * arrival wakes the waiting thread directly. Without the background thread they do all of its work.
 */

/* One round; returns the milliseconds until the next call, or -1. */
int ut_thread_run_once(void);

/* The descriptors to sleep on, and their number. If one is readable, the caller calls
 * ut_thread_clear_wakeups() and ut_thread_run_once(). */
enum { UT_THREAD_FDS = PROV_COUNT + 1 };
nfds_t ut_thread_fds(struct pollfd fds[UT_THREAD_FDS]);
void ut_thread_clear_wakeups(void);

/* A thread that ends serving wakes the background thread, if work is due that the background thread
 * may not know of (`due`); without one, another serving thread. */
void ut_thread_begin_serving(void);
void ut_thread_end_serving(bool due);

#endif
