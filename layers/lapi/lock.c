/* SPDX-License-Identifier: Apache-2.0 */
/* The lock. It is recursive, because handlers call LAPI_*(). */
#include "lock.h"

#include <sched.h>

enum { MAX_YIELDS = 1000 /* until a waiting thread has taken the lock */ };

/* initial-exec: access without a call of the dynamic linker */
static _Thread_local char self __attribute__((tls_model("initial-exec")));

static bool is_lock_owner(void)
{
    return __atomic_load_n(&la.lock.owner, __ATOMIC_RELAXED) == &self;
}

/* Not recursive, and sets no owner. */
static bool try_lock_word(void)
{
    return __atomic_exchange_n(&la.lock.word, 1, __ATOMIC_ACQUIRE) == 0;
}

static __attribute__((noinline)) void wait_for_lock(void)
{
    __atomic_fetch_add(&la.lock.waiters, 1, __ATOMIC_RELAXED);
    while (!try_lock_word())
        lc_futex_wait(&la.lock.word, 1);
    __atomic_fetch_sub(&la.lock.waiters, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&la.lock.served, 1, __ATOMIC_RELAXED);
}

static void set_lock_owner(void)
{
    __atomic_store_n(&la.lock.owner, &self, __ATOMIC_RELAXED);
    la.lock.depth = 1;
}

bool la_trylock(void)
{
    if (!try_lock_word())
        return false;
    set_lock_owner();
    return true;
}

static inline void take_lock(void)
{
    if (__builtin_expect(is_lock_owner(), 0)) {
        la.lock.depth++;
        return;
    }
    if (__builtin_expect(!try_lock_word(), 0))
        wait_for_lock();
    set_lock_owner();
}

void la_lock(void)
{
    take_lock();
}

void la_unlock(void)
{
    if (--la.lock.depth > 0)
        return;
    __atomic_store_n(&la.lock.owner, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&la.lock.word, 0, __ATOMIC_RELEASE);
    if (__builtin_expect(__atomic_load_n(&la.lock.waiters, __ATOMIC_RELAXED) != 0, 0))
        lc_futex_wake(&la.lock.word);
}

void la_unlock_all(void)
{
    la.lock.depth = 1;
    la.lock.program_depth = 0;
    la_unlock();
}

struct la_lock_depth la_lock_release_all(void)
{
    const struct la_lock_depth saved = {.depth = la.lock.depth,
                                        .program_depth = la.lock.program_depth};

    la_unlock_all();
    return saved;
}

void la_lock_restore(struct la_lock_depth saved)
{
    la_lock();
    la.lock.depth = saved.depth;
    la.lock.program_depth = saved.program_depth;
}

void la_lock_yield(void)
{
    uint32_t served_before = __atomic_load_n(&la.lock.served, __ATOMIC_RELAXED);
    struct la_lock_depth saved;

    if (!la_may_wait())
        return;
    saved = la_lock_release_all();
    for (int i = 0;
         i < MAX_YIELDS && __atomic_load_n(&la.lock.served, __ATOMIC_RELAXED) == served_before; i++)
        sched_yield();
    la_lock_restore(saved);
}

bool la_lock_if_valid(lapi_handle_t hndl)
{
    take_lock();
    if (__builtin_expect(la.initialized && hndl == la.handle, 1))
        return true;
    la_unlock();
    return false;
}

bool la_may_wait(void)
{
    return la.lock.depth == la.lock.program_depth + 1 && !la.dispatching;
}

/*
 * The functions of the lock for the program
 */

static int lock_for_program(lapi_handle_t hndl)
{
    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    la.lock.program_depth++;
    return LAPI_SUCCESS;
}

static int unlock_for_program(lapi_handle_t hndl)
{
    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (la.lock.program_depth == 0) {
        la_unlock();
        return LAPI_ERR_NOT_LOCKED;
    }
    la.lock.program_depth--;
    la_unlock();
    la_unlock();
    return LAPI_SUCCESS;
}

static int try_lock_for_program(lapi_handle_t hndl, int *locked)
{
    if (locked == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    if (is_lock_owner())
        la.lock.depth++;
    *locked = is_lock_owner() || la_trylock();
    if (!*locked)
        return LAPI_SUCCESS;
    if (la.initialized && hndl == la.handle) {
        la.lock.program_depth++;
        return LAPI_SUCCESS;
    }
    la_unlock();
    return LAPI_ERR_HNDL_INVALID;
}

static int get_owner(lapi_handle_t hndl, int *mine)
{
    (void)hndl;
    if (mine == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    *mine = is_lock_owner();
    return LAPI_SUCCESS;
}

lapi_thread_func_t la_lock_functions_for_program(void)
{
    return (lapi_thread_func_t){.Util_type = LAPI_GET_THREAD_FUNC,
                                .mutex_lock = lock_for_program,
                                .mutex_unlock = unlock_for_program,
                                .mutex_trylock = try_lock_for_program,
                                .mutex_getowner = get_owner};
}
