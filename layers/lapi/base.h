/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock, lines on standard error, counters, and errors for the program's error handler.
 *
 * Everything below LAPI_*() runs with the lock held, in a call of the program, in the thread for
 * interrupts, or in that for completion handlers. LAPI_*() take it with la_enter(), la_*() expect
 * it unless they say so. Handlers in the dispatcher run with it held, so it is recursive. The
 * program may hold it too (LAPI_Util()): a call that waits gives all of it away meanwhile.
 */
#ifndef LA_BASE_H
#define LA_BASE_H

#include "context.h"

#pragma GCC visibility push(hidden)

/*
 * lock.c
 */
bool la_enter(lapi_handle_t hndl); /* false: it is not valid, and the lock is not held */
void la_take(void);
void la_leave(void);
void la_leave_all(void); /* also what the program has taken */
bool la_try(void);
/* All of the lock, given away and taken back as it was. */
struct la_hold {
    uint32_t depth, held;
};
struct la_hold la_give_away(void);
void la_take_back(struct la_hold hold);
void la_let_others(void); /* that wait for it have it */
static inline void la_give_way(void)
{
    if (__builtin_expect(__atomic_load_n(&la.lock.waiters, __ATOMIC_RELAXED) != 0, 0))
        la_let_others();
}
bool la_alone(void); /* not in a handler: may wait */
lapi_thread_func_t la_lock_functions(void);

/*
 * Lines on standard error.
 */
#define la_log(...)         lc_say("lapi", la.job.line_rank, __VA_ARGS__)
#define la_expect(rc, call) lc_expect("lapi", la.job.line_rank, rc, call)

/*
 * errors.c
 */
void la_errors_setup(LAPI_err_hndlr *handler);
void la_errors_close(void);
/* Has something failed since, or before and no call that waits has returned it? */
bool la_errors_untold(uint64_t losses);
int la_errors_tell(void);                 /* the code that such a call returns */
void la_errors_report(void);              /* to the error handler, outside of everything else */
void la_error(int code, uint32_t rank);   /* tells the error handler, later */
void la_failure(int code, uint32_t rank); /* and who waits: what this task has started */

/* A counter of the program, which any thread may change. */
static inline void la_bump(lapi_cntr_t *cntr)
{
    __atomic_fetch_add(&cntr->value, 1, __ATOMIC_RELEASE);
}

#pragma GCC visibility pop

#endif
