/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the program that sleep until a VCQ has an entry to poll. A waiter is in the list of
 * each VCQ that it waits for. The thread that finds an entry, with the lock of the VCQ held, ends
 * all waits in the list. While the list is not empty, the VCQ uses the slow path, which notices
 * communications that complete immediately.
 * Uses vcq.
 */
#ifndef UT_VCQ_WAIT_H
#define UT_VCQ_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "vcq/vcq.h"

/* A sleeping thread. */
struct ut_waiter {
    bool ended; /* atomic */
    int fd;     /* the thread sleeps on this eventfd, and on others */
    uint64_t since_ms;
};

/* The entry of a waiter in the list of one VCQ. All fields but the first are accessed with the lock
 * held. */
struct ut_wait {
    struct ut_vcq *vcq;
    utofu_vcq_hdl_t handle; /* of the VCQ, when the wait began */
    struct ut_waiter *waiter;
    struct ut_wait *next;
    bool listed;
};

static inline bool ut_waiter_has_ended(const struct ut_waiter *waiter)
{
    return __atomic_load_n(&waiter->ended, __ATOMIC_ACQUIRE);
}

/* With the lock of wait->vcq held. ut_wait_leave() does nothing if the wait has ended already. */
void ut_wait_enter(struct ut_wait *wait, struct ut_waiter *waiter);
void ut_wait_leave(struct ut_wait *wait);

/* Ends all waits for the VCQ, whose lock the caller holds. */
void ut_vcq_end_waits(struct ut_vcq *vcq) __attribute__((cold));

/*
 * Requests for progress from a VCQ to the background thread (runtime/thread.c). Uses vcq.
 */

struct ut_vcq;

/* The background thread. Both fields are atomic. */
extern struct ut_vcq_thread {
    bool runs;
    int wake_fd; /* the eventfd on which it sleeps; -1: not created yet */
} ut_vcq_thread;

static inline bool ut_vcq_has_thread(void)
{
    return __atomic_load_n(&ut_vcq_thread.runs, __ATOMIC_RELAXED);
}

/* Returns the eventfd on which the thread sleeps; creates it at the first call. Negative: an error,
 * see errno. */
int ut_vcq_wake_fd(void);

/* Makes the eventfd readable, if it exists. */
void ut_vcq_wake_thread(void);

/* Makes the thread poll the VCQ unless the program does: a link waits for a time or a queue entry.
 * The caller holds the lock of the VCQ. */
void ut_vcq_request_progress(struct ut_vcq *vcq);

#endif
