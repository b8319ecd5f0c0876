/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all tasks do together. The barrier: in round k every task tells the one 2^k ranks ahead in
 * which epoch it is, and waits for the one 2^k ranks behind. The exchange of addresses: in round k
 * it reads, of the one 2^k ranks ahead, the values that this one has so far.
 */
#include "calls.h"
#include "net.h"
#include "progress.h"
#include "send.h"
#include "base.h"

#include <string.h>
#include <sys/mman.h>

void la_sync_setup(void)
{
    la.sync.epoch = 0;
}

static void tell_ahead(const char *function, uint32_t finger)
{
    const uint32_t rank = lc_rank_ahead(la.job.rank, la.job.procs, finger);
    utofu_vcq_id_t id = la.control.words->fingers[finger];
    struct lc_patience patience = {0};
    char text[LA_TEXT];
    struct la_op *op;

    while ((op = la_op_take(0, rank, NULL, NULL)) == NULL) {
        if (lc_patience_ends(&patience, 0))
            la_log("%s: has waited %llu s to tell task %u that this one has come: %s", function,
                   lc_patience_seconds(&patience), rank, la_net_text(text));
        la_net_poll();
    }
    la_op_put8(op, id, la.sync.epoch,
               la_control_stadd(id, offsetof(struct la_control, sync) + 8 * finger));
}

int la_sync_wait(const char *function, uint64_t limit_ns)
{
    uint64_t end = limit_ns == 0 ? UINT64_MAX : lc_now_ns() + limit_ns;

    la.sync.epoch++;
    for (uint32_t k = 0; k < la.job.num_fingers; k++) {
        struct lc_patience patience = {0};
        uint32_t idle = 0;

        tell_ahead(function, k);
        while (__atomic_load_n(&la.control.words->sync[k], __ATOMIC_ACQUIRE) < la.sync.epoch) {
            if ((la.watch.lost > 0 && !la.leaving) || (limit_ns != 0 && lc_now_ns() > end))
                return LAPI_ERR_TIMEOUT;
            if (lc_patience_ends(&patience, idle))
                la_log("%s: has waited %llu s for task %u, which has not come, or waits for "
                       "another task that has not",
                       function, lc_patience_seconds(&patience),
                       lc_rank_behind(la.job.rank, la.job.procs, k));
            la_go_on(&idle);
        }
    }
    return LAPI_SUCCESS;
}

static void say_fence_waits(const struct lc_patience *patience, const char *function)
{
    char text[LA_TEXT];
    uint32_t rank;

    if (la_send_unsettled(&rank))
        la_log("%s: has waited %llu s for task %u, which has not taken all messages that were sent "
               "to it; %s",
               function, lc_patience_seconds(patience), rank, la_requests_text(text));
    else
        la_log("%s: has waited %llu s: %s", function, lc_patience_seconds(patience),
               la_requests_text(text));
}

int la_fence(const char *function)
{
    uint64_t serial = la_send_serial(), losses = la.errors.losses;
    struct lc_patience patience = {0};
    bool posted = false;
    uint32_t idle = 0;

    while (!la_send_settled(serial, &posted)) {
        if (lc_patience_ends(&patience, idle))
            say_fence_waits(&patience, function);
        la_go_on(&idle);
    }
    return la.errors.losses == losses ? LAPI_SUCCESS : la.errors.code;
}

int LAPI_Fence(lapi_handle_t hndl)
{
    int rc = LAPI_ERR_IN_HNDLR;

    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (la_alone())
        rc = la_fence("LAPI_Fence");
    la_leave();
    return rc;
}

int LAPI_Gfence(lapi_handle_t hndl)
{
    int rc = LAPI_ERR_IN_HNDLR, sync;

    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (la_alone()) {
        rc = la_fence("LAPI_Gfence");
        sync = la_sync_wait("LAPI_Gfence", 0);
        if (rc == LAPI_SUCCESS)
            rc = sync;
    }
    la_leave();
    return rc;
}

/*
 * Addresses. table[n] is the value of the n-th rank ahead.
 */

static int gather_addresses(uint64_t *table, utofu_stadd_t stadd)
{
    for (uint32_t k = 0; k < la.job.num_fingers; k++) {
        utofu_stadd_t there = 0;
        uint32_t have = 1u << k, more = la.job.procs - have < have ? la.job.procs - have : have;
        utofu_vcq_id_t id = la.control.words->fingers[k];

        if (utofu_query_stadd(id, LA_STAG_TABLE, &there) != UTOFU_SUCCESS ||
            la_sync_wait("LAPI_Address_init", 0) != LAPI_SUCCESS ||
            la_get_to(lc_rank_ahead(la.job.rank, la.job.procs, k), id, stadd + 8ull * have, there,
                      8ull * more) != UTOFU_SUCCESS)
            return LAPI_ERR_TIMEOUT;
    }
    (void)table;
    return la_sync_wait("LAPI_Address_init", 0); /* nobody needs this table any more */
}

static int exchange_addresses(uint64_t mine, uint64_t *result)
{
    size_t size = (la.job.procs * sizeof(*result) + 4095) / 4096 * 4096;
    uint64_t *table = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    utofu_stadd_t stadd;
    int rc = LAPI_ERR_MEMORY_EXHAUSTED;

    if (table == MAP_FAILED)
        return rc;
    if (utofu_reg_mem_with_stag(la_vcq(), table, size, LA_STAG_TABLE, 0, &stadd) == UTOFU_SUCCESS) {
        table[0] = mine;
        rc = gather_addresses(table, stadd);
        for (uint32_t i = 0; i < la.job.procs && rc == LAPI_SUCCESS; i++)
            result[(la.job.rank + i) % la.job.procs] = table[i];
        la_expect(utofu_dereg_mem(la_vcq(), stadd, 0), "utofu_dereg_mem");
    }
    munmap(table, size);
    return rc;
}

int LAPI_Address_init64(lapi_handle_t hndl, lapi_long_t my_addr, lapi_long_t *add_tab)
{
    _Static_assert(sizeof(lapi_long_t) == 8 && sizeof(void *) == 8, "one exchange for both");
    int rc = LAPI_ERR_IN_HNDLR;

    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (add_tab == NULL)
        rc = LAPI_ERR_ADDR_TBL_NULL;
    else if (la_alone())
        rc = exchange_addresses(my_addr, (uint64_t *)add_tab);
    la_leave();
    return rc;
}

int LAPI_Address_init(lapi_handle_t hndl, void *my_addr, void *add_tab[])
{
    return LAPI_Address_init64(hndl, (uintptr_t)my_addr, (lapi_long_t *)add_tab);
}
