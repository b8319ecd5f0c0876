/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock, lines on standard error, counters, and errors for the program's error handler.
 *
 * Everything below LAPI_*() runs with the lock held, in a call of the program, in the thread for
 * interrupts, or in that for completion handlers. LAPI_*() take it with la_lock_handle(), la_*()
 * expect it unless they say so. Handlers in the dispatcher run with it held, so it is recursive.
 * The program may hold it too (LAPI_Util()): a call that waits gives all of it away meanwhile.
 */
#ifndef LA_BASE_H
#define LA_BASE_H

#include "context.h"

#pragma GCC visibility push(hidden)

/*
 * lock.c
 */
bool la_lock_handle(lapi_handle_t hndl); /* false: it is not valid, and the lock is not held */
void la_lock(void);
void la_unlock(void);
void la_unlock_all(void); /* also what the program has taken */
bool la_trylock(void);
/* All of the lock, given away and taken back as it was. */
struct la_lock_depth {
    uint32_t depth, program_depth;
};
struct la_lock_depth la_lock_release_all(void);
void la_lock_restore(struct la_lock_depth saved);
void la_lock_yield(void); /* that wait for it have it */
static inline void la_lock_yield_if_contended(void)
{
    if (__builtin_expect(__atomic_load_n(&la.lock.waiters, __ATOMIC_RELAXED) != 0, 0))
        la_lock_yield();
}
bool la_may_wait(void); /* not in a handler: may wait */
lapi_thread_func_t la_lock_program_functions(void);

/*
 * Lines on standard error.
 */
#define la_log(...)           lc_log("lapi", la.job.log_rank, __VA_ARGS__)
#define la_check_rc(rc, call) lc_check_rc("lapi", la.job.log_rank, rc, call)

/*
 * errors.c
 */
void la_errors_setup(LAPI_err_hndlr *handler);
void la_errors_close(void);
/* Has something failed since, or before and no call that waits has returned it? */
bool la_errors_pending(uint64_t failures);
int la_errors_take(void);          /* the code that such a call returns */
void la_errors_call_handler(void); /* to the error handler, outside of everything else */
void la_report_error(int code, uint32_t rank);   /* tells the error handler, later */
void la_report_failure(int code, uint32_t rank); /* and who waits: what this task has started */

/* A counter of the program, which any thread may change. */
static inline void la_cntr_increment(lapi_cntr_t *cntr)
{
    __atomic_fetch_add(&cntr->value, 1, __ATOMIC_RELEASE);
}

#pragma GCC visibility pop

#endif
