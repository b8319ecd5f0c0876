/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one background thread. It sleeps until a provider has something for a VCQ whose program does
 * not poll, and leaves VCQs alone whose program does.
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

/* For providers: the endpoint of this VCQ needs attention. From any thread. */
void ut_thread_wake(void *vcq);

/* Polls the VCQ, whose lock the caller holds, until nothing comes, ends the waits for it if there
 * is something to poll, and arms it. False: more and more comes, and it is to be called again. */
bool ut_thread_settle(struct ut_vcq *vcq);

/* The program has posted to a session-mode VCQ, whose lock is held. If it computed after doing so
 * the last time, the thread attends to the VCQ from now on, as to one that is not polled. */
void ut_thread_posted(struct ut_vcq *vcq);

/* The first look into a queue since then (vcq->posted_at is not 0). */
void ut_thread_polled(struct ut_vcq *vcq);

/*
 * Threads of the program that wait do the same as this one, beside it: so an arrival wakes them and
 * not another thread that wakes them. Without it they are the only ones.
 */

/* One round; returns milliseconds until it is to be called again, or -1. */
int ut_thread_serve(void);

/* The descriptors to sleep on; returns how many. ut_thread_drain() is next where one is readable,
 * and ut_thread_serve(). */
enum { UT_THREAD_FDS = PROV_COUNT + 1 };
nfds_t ut_thread_fds(struct pollfd fds[UT_THREAD_FDS]);
void ut_thread_drain(void);

/* Who ends wakes the thread where something is due that it may not know of (`due`); without it,
 * another one that serves. */
void ut_thread_begin_serving(void);
void ut_thread_end_serving(bool due);

#endif
