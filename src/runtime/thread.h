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

enum ut_settled {
    UT_SETTLED,             /* nothing comes any more, and every endpoint is armed */
    UT_SETTLED_WAITS_ENDED, /* there was something that threads waited for */
    UT_SETTLED_NOT_YET,     /* it goes on and on: to be called again */
};
/* Polls the VCQ, whose lock the caller holds, and arms it for what is waited for. */
enum ut_settled ut_thread_settle(struct ut_vcq *vcq);

/*
 * Where the process has no such thread, its threads that wait do what it would do.
 */

/* One round; returns milliseconds until it is to be called again, or -1. */
int ut_thread_serve(void);

/* The descriptors to sleep on; returns how many. ut_thread_drain() is next where one is readable,
 * and ut_thread_serve(). */
enum { UT_THREAD_FDS = PROV_COUNT + 1 };
nfds_t ut_thread_fds(struct pollfd fds[UT_THREAD_FDS]);
void ut_thread_drain(void);

/* A thread begins (1) or ends (-1) to do that. Who ends wakes another one. */
void ut_thread_sleepers(int more);

#endif
