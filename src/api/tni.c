/* SPDX-License-Identifier: Apache-2.0 */
/* TNI queries (manual 3.2). The values are those of the manual's chapter 6 on every machine, except
 * the cache line size: the number of bytes that the adapter writes in order may be smaller. */
#include <pthread.h>
#include <stdlib.h>

#include "api/api.h"
#include "desc/desc.h"
#include "runtime/setup.h"

static const struct utofu_onesided_caps onesided_caps = {
    .flags = UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE | UTOFU_ONESIDED_CAP_FLAG_ARMW,
    .armw_ops = UTOFU_ONESIDED_CAP_ARMW_OP_CSWAP | UTOFU_ONESIDED_CAP_ARMW_OP_SWAP |
                UTOFU_ONESIDED_CAP_ARMW_OP_ADD | UTOFU_ONESIDED_CAP_ARMW_OP_XOR |
                UTOFU_ONESIDED_CAP_ARMW_OP_AND | UTOFU_ONESIDED_CAP_ARMW_OP_OR,
    .num_cmp_ids = UT_NUM_CMP_IDS,
    .num_reserved_stags = UT_NUM_RESERVED_STAGS,
    .cache_line_size = UT_CACHE_LINE,
    .stag_address_alignment = UT_STAG_ALIGNMENT,
    .max_toq_desc_size = sizeof(struct ut_desc),
    .max_putget_size = UT_MAX_PUTGET,
    .max_piggyback_size = UT_MAX_PIGGYBACK,
    .max_edata_size = 1,
    .max_mtu = UT_MAX_MTU,
    .max_gap = UT_MAX_GAP,
};

/* What the queries return pointers to. */
static struct {
    pthread_mutex_t lock;                             /* guards `onesided` */
    struct utofu_onesided_caps onesided[UT_NUM_TNIS]; /* zero before the first query of the TNI */
    struct utofu_barrier_caps barrier;
} caps = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .barrier = {.flags = 0,
                .reduce_ops = UTOFU_BARRIER_CAP_REDUCE_OP_BARRIER |
                              UTOFU_BARRIER_CAP_REDUCE_OP_BAND | UTOFU_BARRIER_CAP_REDUCE_OP_BOR |
                              UTOFU_BARRIER_CAP_REDUCE_OP_BXOR | UTOFU_BARRIER_CAP_REDUCE_OP_MAX |
                              UTOFU_BARRIER_CAP_REDUCE_OP_MAXLOC | UTOFU_BARRIER_CAP_REDUCE_OP_SUM |
                              UTOFU_BARRIER_CAP_REDUCE_OP_BFPSUM,
                .max_uint64_reduction = 6,
                .max_double_reduction = 3},
};

static int get_tnis(utofu_tni_id_t **tni_ids, size_t *num_tnis)
{
    if (!tni_ids || !num_tnis)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "tni_ids or num_tnis is NULL");
    utofu_tni_id_t *ids = malloc(UT_NUM_TNIS * sizeof(*ids));
    if (!ids)
        return UT_DECLINE(UTOFU_ERR_OUT_OF_MEMORY, "no memory for the list of TNIs");
    for (utofu_tni_id_t i = 0; i < UT_NUM_TNIS; i++)
        ids[i] = i;
    *tni_ids = ids;
    *num_tnis = UT_NUM_TNIS;
    return UTOFU_SUCCESS;
}

UT_PUBLIC(utofu_get_onesided_tnis);
int utofu_get_onesided_tnis(utofu_tni_id_t **tni_ids, size_t *num_tnis)
{
    return get_tnis(tni_ids, num_tnis);
}

UT_PUBLIC(utofu_get_barrier_tnis);
int utofu_get_barrier_tnis(utofu_tni_id_t **tni_ids, size_t *num_tnis)
{
    return get_tnis(tni_ids, num_tnis);
}

/* Without a job, or if the process cannot be set up, no data arrive, and the cache line size is
 * that of the manual. */
static struct utofu_onesided_caps *caps_of(utofu_tni_id_t tni)
{
    struct utofu_onesided_caps *c = &caps.onesided[tni];
    const struct ut_process *process;
    size_t line = !ut_process_forked() && ut_runtime_start(&process) == 0 ? process->line[tni] : 0;

    pthread_mutex_lock(&caps.lock);
    if (!c->cache_line_size)
        *c = onesided_caps;
    if (line && line != c->cache_line_size)
        c->cache_line_size = line;
    pthread_mutex_unlock(&caps.lock);
    return c;
}

UT_PUBLIC(utofu_query_onesided_caps);
int utofu_query_onesided_caps(utofu_tni_id_t tni_id, struct utofu_onesided_caps **tni_caps)
{
    if (!tni_caps)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "tni_caps is NULL");
    if (tni_id >= UT_NUM_TNIS)
        return UT_REFUSE(UTOFU_ERR_INVALID_TNI_ID, "TNI %u: they are 0 to 5", tni_id);
    *tni_caps = caps_of(tni_id);
    return UTOFU_SUCCESS;
}

UT_PUBLIC(utofu_query_barrier_caps);
int utofu_query_barrier_caps(utofu_tni_id_t tni_id, struct utofu_barrier_caps **tni_caps)
{
    if (!tni_caps)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "tni_caps is NULL");
    if (tni_id >= UT_NUM_TNIS)
        return UT_REFUSE(UTOFU_ERR_INVALID_TNI_ID, "TNI %u: they are 0 to 5", tni_id);
    *tni_caps = &caps.barrier;
    return UTOFU_SUCCESS;
}
