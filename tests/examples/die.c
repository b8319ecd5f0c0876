/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program (LD_PRELOAD): kills the process DIE_RANK at the DIE_AT-th of all its
 * calls of utofu_put(), utofu_put_piggyback() and utofu_armw8(), before the call does anything.
 *
 * The first call counts once, however often it is repeated: meet() of examples/meet.c repeats it
 * until rank 0 has started, which waits 60 seconds for a process that dies before that.
 */
#include <utofu_profile.h>

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int calls;

static void count_call(void)
{
    const char *victim = getenv("DIE_RANK"), *rank = getenv("UTOFU_RANK"), *at = getenv("DIE_AT");

    if (victim != NULL && rank != NULL && at != NULL && strcmp(victim, rank) == 0 &&
        ++calls == atoi(at))
        raise(SIGKILL);
}

/* Is this the first call once more? */
static bool repeats_first(const void *data, size_t size)
{
    static uint8_t first[64];

    if (calls == 1 && size <= sizeof(first) && memcmp(first, data, size) == 0)
        return true;
    if (calls == 0 && size <= sizeof(first))
        memcpy(first, data, size);
    return false;
}

int utofu_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    count_call();
    return putofu_put(vcq, id, lcl, rmt, size, edata, flags, cbdata);
}

int utofu_put_piggyback(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, void *data, utofu_stadd_t rmt,
                        size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    if (!repeats_first(data, size))
        count_call();
    return putofu_put_piggyback(vcq, id, data, rmt, size, edata, flags, cbdata);
}

int utofu_armw8(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, enum utofu_armw_op op, uint64_t value,
                utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    count_call();
    return putofu_armw8(vcq, id, op, value, rmt, edata, flags, cbdata);
}
