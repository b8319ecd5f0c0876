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

void la_leave_all(void)
{
    la.depth = 1;
    la.held = 0;
    la_leave();
}

struct la_share la_give_away(void)
{
    const struct la_share share = {.depth = la.depth, .held = la.held};

    la_leave_all();
    return share;
}

void la_take_back(struct la_share share)
{
    la_take();
    la.depth = share.depth;
    la.held = share.held;
}

void la_let_others(void)
{
    uint32_t was = __atomic_load_n(&served, __ATOMIC_RELAXED);
    struct la_share share;

    if (!la_alone())
        return;
    share = la_give_away();
    for (int i = 0; i < YIELDS && __atomic_load_n(&served, __ATOMIC_RELAXED) == was; i++)
        sched_yield();
    la_take_back(share);
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
    return la.depth == la.held + 1 && !la.dispatching;
}

/*
 * The same for the program.
 */

static int lock(lapi_handle_t hndl)
{
    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    la.held++;
    return LAPI_SUCCESS;
}

static int unlock(lapi_handle_t hndl)
{
    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (la.held == 0) {
        la_leave();
        return LAPI_ERR_NOT_LOCKED;
    }
    la.held--;
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
    if (!*locked)
        return LAPI_SUCCESS;
    if (la.running && hndl == la.handle) {
        la.held++;
        return LAPI_SUCCESS;
    }
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

lapi_thread_func_t la_lock_functions(void)
{
    return (lapi_thread_func_t){.Util_type = LAPI_GET_THREAD_FUNC,
                                .mutex_lock = lock,
                                .mutex_unlock = unlock,
                                .mutex_trylock = try_lock,
                                .mutex_getowner = get_owner};
}
