/* SPDX-License-Identifier: Apache-2.0 */
/* The lock. A thread that has it may take it again: handlers call LAPI_*(). */
#include "layer.h"

#include <sched.h>

enum { SPINS = 64, YIELDS = 1000 /* for one that waits to come */ };

/* Without a call of the dynamic linker. */
static _Thread_local char self __attribute__((tls_model("initial-exec")));

static bool is_mine(void)
{
    return __atomic_load_n(&la.owner, __ATOMIC_RELAXED) == &self;
}

static bool grab(void)
{
    return __atomic_exchange_n(&la.lock, 1, __ATOMIC_ACQUIRE) == 0;
}

static uint32_t served;

static __attribute__((noinline)) void wait(void)
{
    uint32_t spins = 0;

    __atomic_fetch_add(&la.waiters, 1, __ATOMIC_RELAXED);
    while (!grab())
        while (__atomic_load_n(&la.lock, __ATOMIC_RELAXED) != 0)
            if (++spins > SPINS)
                sched_yield(); /* the holder may need this core */
    __atomic_fetch_sub(&la.waiters, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&served, 1, __ATOMIC_RELAXED);
}

static void own(void)
{
    __atomic_store_n(&la.owner, &self, __ATOMIC_RELAXED);
    la.depth = 1;
}

bool la_try(void)
{
    if (!grab())
        return false;
    own();
    return true;
}

static inline void take(void)
{
    if (__builtin_expect(is_mine(), 0)) {
        la.depth++;
        return;
    }
    if (__builtin_expect(!grab(), 0))
        wait();
    own();
}

void la_take(void)
{
    take();
}

void la_leave(void)
{
    if (--la.depth > 0)
        return;
    __atomic_store_n(&la.owner, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&la.lock, 0, __ATOMIC_RELEASE);
}

void la_let_others(void)
{
    uint32_t was = __atomic_load_n(&served, __ATOMIC_RELAXED);

    if (la.depth > 1)
        return;
    la_leave();
    for (int i = 0; i < YIELDS && __atomic_load_n(&served, __ATOMIC_RELAXED) == was; i++)
        sched_yield();
    la_take();
}

bool la_enter(lapi_handle_t hndl)
{
    take();
    if (__builtin_expect(la.running && hndl == la.handle, 1))
        return true;
    la_leave();
    return false;
}

bool la_alone(void)
{
    return la.depth == 1 && !la.dispatching;
}

/*
 * The same for the program.
 */

static int lock(lapi_handle_t hndl)
{
    return la_enter(hndl) ? LAPI_SUCCESS : LAPI_ERR_HNDL_INVALID;
}

static int unlock(lapi_handle_t hndl)
{
    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (la.depth > 1)
        la_leave();
    la_leave();
    return LAPI_SUCCESS;
}

static int try_lock(lapi_handle_t hndl, int *locked)
{
    if (locked == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    if (is_mine())
        la.depth++;
    *locked = is_mine() || la_try();
    if (!*locked || (la.running && hndl == la.handle))
        return LAPI_SUCCESS;
    la_leave();
    return LAPI_ERR_HNDL_INVALID;
}

static int get_owner(lapi_handle_t hndl, int *mine)
{
    (void)hndl;
    if (mine == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    *mine = is_mine();
    return LAPI_SUCCESS;
}

int LAPI_Util(lapi_handle_t hndl, lapi_util_t *util_struct)
{
    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    la_leave();
    if (util_struct == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    if (util_struct->Util_type != LAPI_GET_THREAD_FUNC)
        return LAPI_ERR_UTIL_CMD;
    util_struct->Thread = (lapi_thread_func_t){.Util_type = LAPI_GET_THREAD_FUNC,
                                               .mutex_lock = lock,
                                               .mutex_unlock = unlock,
                                               .mutex_trylock = try_lock,
                                               .mutex_getowner = get_owner};
    return LAPI_SUCCESS;
}
