/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background thread. It sleeps until a provider has an event for a VCQ whose program does not
 * poll.
 * It does not touch VCQs whose program polls.
 * Uses util, process, vcq, engine, provider.h.
 */
#ifndef UT_RUNTIME_THREAD_H
#define UT_RUNTIME_THREAD_H

#include <poll.h>

#include "process/process.h"
#include "vcq/vcq.h"

/* Starts the thread at the first call, unless UTOFU_PROGRESS_THREAD=0. 0 or a negative errno. */
int ut_thread_start(void);

/* Providers call this function, from any thread: an endpoint of the VCQ has an event. */
void ut_thread_wake(void *vcq);

/* Polls the VCQ, whose lock the caller holds, until no events are left; ends the waits for the VCQ
 * if it has an entry to poll; and arms it. False: events keep arriving, and the caller must call
 * again. */
bool ut_thread_poll_and_arm(struct ut_vcq *vcq);

/* The program has posted to a session-mode VCQ, whose lock the caller holds. If the program
 * computed after its previous post, the thread serves the VCQ from now on, like a VCQ that nobody
 * polls. */
void ut_thread_on_post(struct ut_vcq *vcq);

/* The program polls for the first time since a post (vcq->posted_at is not 0). */
void ut_thread_on_poll(struct ut_vcq *vcq);

/* An entry was there before that poll, perhaps long before, because the program computed. */
void ut_thread_on_late_poll(struct ut_vcq *vcq);

/*
 * Threads of the program that wait do the same work as the background thread, concurrently, so that
 * an arrival wakes the waiting thread directly. Without the background thread they do all of its
 * work.
 */

/* Runs one round. Returns the milliseconds until the next round, or -1. */
int ut_thread_run_once(void);

/* Fills in the descriptors to sleep on, and returns their number. If one is readable, the caller
 * calls ut_thread_clear_wakeups() and ut_thread_run_once(). */
enum { UT_THREAD_FDS = PROV_COUNT + 1 };
nfds_t ut_thread_fds(struct pollfd fds[UT_THREAD_FDS]);
void ut_thread_clear_wakeups(void);

/* At its end a serving thread wakes the background thread, if work is due that the background
 * thread may not know of (`due`). Without a background thread it wakes another serving thread. */
void ut_thread_begin_serving(void);
void ut_thread_end_serving(bool due);

#endif
