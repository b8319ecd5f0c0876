/* SPDX-License-Identifier: Apache-2.0 */
/* The lock. A thread that has it may take it again: handlers call LAPI_*(). */
#include "layer.h"

#include <sched.h>

enum { SPINS = 64 };

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

static void wait(void)
{
    uint32_t spins = 0;

    while (!grab())
        while (__atomic_load_n(&la.lock, __ATOMIC_RELAXED) != 0)
            if (++spins > SPINS)
                sched_yield(); /* the holder may need this core */
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

void la_take(void)
{
    if (is_mine()) {
        la.depth++;
        return;
    }
    if (__builtin_expect(!grab(), 0))
        wait();
    own();
}

void la_leave(void)
{
    if (--la.depth > 0)
        return;
    __atomic_store_n(&la.owner, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&la.lock, 0, __ATOMIC_RELEASE);
}

bool la_enter(lapi_handle_t hndl)
{
    la_take();
    if (la.running && hndl == la.handle)
        return true;
    la_leave();
    return false;
}

bool la_alone(void)
{
    return la.depth == 1 && !la.dispatching;
}
