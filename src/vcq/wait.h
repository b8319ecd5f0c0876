/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the program that sleep until a VCQ has something to poll. A waiter stands in the list
 * of each VCQ that it waits for; whoever finds something there, with the VCQ's lock held, ends all
 * waits in its list. While the list is not empty the VCQ takes the slow path, where communications
 * that are complete at once are noticed.
 *
 * Uses vcq.
 */
#ifndef UT_VCQ_WAIT_H
#define UT_VCQ_WAIT_H

#include <stdint.h>

#include "vcq/vcq.h"

/* A thread that sleeps. */
struct ut_waiter {
    bool ended; /* atomic */
    int fd;     /* an eventfd that it sleeps on, with others */
    uint64_t since_ms;
};

/* Its place in the list of one VCQ. All fields but the first are accessed with the lock held. */
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

/* With the lock of wait->vcq held. The second does nothing where the wait was ended. */
void ut_wait_enter(struct ut_wait *wait, struct ut_waiter *waiter);
void ut_wait_leave(struct ut_wait *wait);

/* Ends all waits for the VCQ, whose lock the caller holds. */
void ut_vcq_end_waits(struct ut_vcq *vcq) __attribute__((cold));

#endif
