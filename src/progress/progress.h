/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one background thread. It sleeps until a provider has something for a VCQ whose program does
 * not poll, and keeps away from VCQs whose program does.
 *
 * Uses util, process, vcq, engine, provider.h.
 */
#ifndef UT_PROGRESS_PROGRESS_H
#define UT_PROGRESS_PROGRESS_H

#include <stdbool.h>

struct ut_vcq;

/* Starts the thread at the first call (unless UTOFU_PROGRESS_THREAD=0). 0 or negative errno. */
int ut_progress_start(void);
extern bool ut_progress_thread; /* atomic: it runs */
static inline bool ut_progress_has_thread(void)
{
    return __atomic_load_n(&ut_progress_thread, __ATOMIC_RELAXED);
}

/* What the thread would do for the providers, done by the caller. */
void ut_progress_inline(void);

/* For providers: the endpoint of this VCQ needs attention. From any thread. */
void ut_progress_wake(void *vcq);

/* The VCQ, whose lock the caller holds, has something that waits for time or room: the thread looks
 * after it if the program does not. */
void ut_progress_need(struct ut_vcq *vcq);

#endif
