/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of the layer.
 *
 * Everything below LAPI_*() runs with the lock held: in a call of the program, in the thread for
 * interrupts, or in the thread for completion handlers. LAPI_*() take the lock with
 * la_lock_if_valid(); la_*() expect it unless their comment says otherwise. Header handlers run
 * with the lock held, so the lock is recursive. The program may hold it too (LAPI_Util()); a call
 * that waits releases it completely meanwhile.
 */
#ifndef LA_LOCK_H
#define LA_LOCK_H

#include "context.h"

#pragma GCC visibility push(hidden)

/* Takes the lock. False: the handle is not valid, and the lock is not taken. */
bool la_lock_if_valid(lapi_handle_t hndl);
void la_lock(void);
void la_unlock(void);
void la_unlock_all(void); /* also locks that the program has taken */
bool la_trylock(void);    /* false: a thread holds the lock, maybe this one */
/* la_lock_release_all() releases all levels of the lock; la_lock_restore() takes as many again. */
struct la_lock_depth {
    uint32_t depth, program_depth;
};
struct la_lock_depth la_lock_release_all(void);
void la_lock_restore(struct la_lock_depth saved);
void la_lock_yield(void); /* lets a waiting thread have the lock */
static inline void la_lock_yield_if_contended(void)
{
    if (__builtin_expect(__atomic_load_n(&la.lock.waiters, __ATOMIC_RELAXED) != 0, 0))
        la_lock_yield();
}
bool la_may_wait(void); /* false in a header handler, or any other that runs with the lock held */
lapi_thread_func_t la_lock_functions_for_program(void); /* for LAPI_Util() */

#pragma GCC visibility pop

#endif
