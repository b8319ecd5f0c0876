/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for progress from a VCQ to the background thread, which runtime has.
 * Uses vcq.
 */
#ifndef UT_VCQ_WAKE_H
#define UT_VCQ_WAKE_H

#include <stdbool.h>

struct ut_vcq;

extern bool ut_vcq_thread; /* atomic: the background thread runs */
static inline bool ut_vcq_has_thread(void)
{
    return __atomic_load_n(&ut_vcq_thread, __ATOMIC_RELAXED);
}

/* The eventfd on which the thread sleeps. The first call creates it. Negative: an error, see errno.
 */
int ut_vcq_wake_fd(void);

/* Makes the eventfd readable, if it exists. */
void ut_vcq_wake_thread(void);

/* A link of this VCQ, whose lock the caller holds, waits for a time or a queue entry: the thread
 * makes progress on the VCQ unless the program does. */
void ut_vcq_request_progress(struct ut_vcq *vcq);

#endif
