/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program (LD_PRELOAD): kills the process DIE_RANK at the DIE_AT-th of all its
 * calls of utofu_put(), utofu_put_piggyback() and utofu_armw8(), before the call does anything.
 */
#include <utofu_profile.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void count_call(void)
{
    static int calls;
    const char *victim = getenv("DIE_RANK"), *rank = getenv("UTOFU_RANK"), *at = getenv("DIE_AT");

    if (victim != NULL && rank != NULL && at != NULL && strcmp(victim, rank) == 0 &&
        ++calls == atoi(at))
        raise(SIGKILL);
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
    count_call();
    return putofu_put_piggyback(vcq, id, data, rmt, size, edata, flags, cbdata);
}

int utofu_armw8(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, enum utofu_armw_op op, uint64_t value,
                utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    count_call();
    return putofu_armw8(vcq, id, op, value, rmt, edata, flags, cbdata);
}
