/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of a VCQ as a mutex of the verifier, in the place of src/util/lock.h: lock.c verifies
 * that one. Its size is the same, as other objects have a struct ut_vcq, too. A try that fails is
 * repeated after a pause, which makes many states: only the scenarios that want them have any. */
#ifndef UT_UTIL_LOCK_H
#define UT_UTIL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "util/assert.h"
#include "util/self.h"

extern bool tries_wait;

struct ut_lock {
    uint64_t mutex, unused[3];
};

static inline bool ut_is_locked(const struct ut_lock *lock)
{
    (void)lock;
    return true;
}

/* A mutex has no owner. */
static inline bool ut_trylock_by_owner(struct ut_lock *lock)
{
    (void)lock;
    return false;
}

static inline bool ut_trylock(struct ut_lock *lock)
{
    if (!tries_wait)
        return uv_mutex_try(&lock->mutex);
    uv_mutex_lock(&lock->mutex);
    return true;
}

static inline bool ut_trylock_keep_owner(struct ut_lock *lock)
{
    return ut_trylock(lock);
}

static inline void ut_lock(struct ut_lock *lock)
{
    uv_mutex_lock(&lock->mutex);
}

static inline void ut_unlock(struct ut_lock *lock)
{
    uv_mutex_unlock(&lock->mutex);
}

#endif
