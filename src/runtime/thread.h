/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one background thread. It sleeps until a provider has something for a VCQ whose program does
 * not poll, and leaves VCQs alone whose program does.
 *
 * Uses util, process, vcq, engine, provider.h.
 */
#ifndef UT_RUNTIME_THREAD_H
#define UT_RUNTIME_THREAD_H

/* Starts the thread at the first call (unless UTOFU_PROGRESS_THREAD=0). 0 or negative errno. */
int ut_thread_start(void);

/* For providers: the endpoint of this VCQ needs attention. From any thread. */
void ut_thread_wake(void *vcq);

#endif
