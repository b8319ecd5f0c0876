/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the program that sleep until a VCQ has an entry to poll. A waiter is in the list of
 * each VCQ that it waits for; the thread that finds an entry, with the VCQ's lock held, ends all
 * waits in the list. While the list is not empty, the VCQ uses the slow path, which notices
 * communications that complete at once.
 *
 * Uses vcq.
 */
#ifndef UT_VCQ_WAIT_H
#define UT_VCQ_WAIT_H

#include <stdint.h>

#include "vcq/vcq.h"

/* A sleeping thread. */
struct ut_waiter {
    bool ended; /* atomic */
    int fd;     /* an eventfd on which it sleeps, besides others */
    uint64_t since_ms;
};

/* Its entry in the list of one VCQ. All fields but the first are accessed with the lock held. */
struct ut_wait {
    struct ut_vcq *vcq;
    struct ut_waiter *waiter;
    struct ut_wait *next;
    bool listed;
};

static inline bool ut_waiter_has_ended(const struct ut_waiter *waiter)
{
    return __atomic_load_n(&waiter->ended, __ATOMIC_ACQUIRE);
}

/* With the lock of wait->vcq held. ut_wait_leave() does nothing if the wait was ended. */
void ut_wait_enter(struct ut_wait *wait, struct ut_waiter *waiter);
void ut_wait_leave(struct ut_wait *wait);

/* Ends all waits for the VCQ, whose lock the caller holds. */
void ut_vcq_end_waits(struct ut_vcq *vcq) __attribute__((cold));

#endif
