/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective functions: barrier, fences, and the exchange of addresses. In round k of the exchange,
 * a task reads from the task 2^k ranks ahead all values that that task has collected.
 */
#include "sync.h"
#include "control.h"
#include "lock.h"
#include "net.h"
#include "peers.h"
#include "requests.h"
#include "slots.h"
#include "wait.h"

#include "../common/barrier.h"

void la_sync_setup(void)
{
    la.sync.barrier_epoch = 0;
}

void la_sync_close(void)
{
    if (la.sync.addresses.start != NULL)
        lc_memory_close(&la.sync.addresses);
}

/* True if a task that has not entered the barrier may be gone. rmt_epoch: barriers that the partner
 * has entered. */
static bool barrier_cannot_complete(uint64_t epoch, uint64_t rmt_epoch)
{
    return rmt_epoch < epoch && la.watch.num_gone > 0 && !la.terminating;
}

static const struct lc_barrier_ops barrier_ops = {.progress = la_progress_or_wait,
                                                  .must_fail = barrier_cannot_complete};

int la_barrier(const char *function, uint64_t timeout_ns)
{
    const struct lc_partner_context partners = la_partner_context();

    return lc_barrier_wait(&partners, &barrier_ops, &la.sync.barrier_epoch, function, timeout_ns)
               ? LAPI_SUCCESS
               : LAPI_ERR_TIMEOUT;
}

/*
 * Fences
 */

/* Is a request up to this serial number still without slot, or without FIN? */
static bool has_incomplete_request(uint64_t last_serial)
{
    for (uint32_t i = 0; la.requests.num_free < LA_NUM_REQS && i < LA_NUM_REQS; i++)
        if (la.requests.reqs[i].used && la.requests.reqs[i].serial <= last_serial &&
            !la.requests.reqs[i].cancelled &&
            (la.requests.reqs[i].queued || (la.requests.reqs[i].flags & LA_WANTS_FIN) != 0))
            return true;
    return false;
}

static bool has_reached_fence(const struct la_peer *peer)
{
    return peer->gone || (int32_t)((uint32_t)peer->lane_freed - peer->fence) >= 0;
}

/* NULL: all peers have freed the slots up to their fences. */
static struct la_peer *find_peer_before_fence(void)
{
    struct la_peer *peer;
    uint32_t cursor = 0;

    while ((peer = la_peer_iterate(&cursor)) != NULL && has_reached_fence(peer))
        continue;
    return peer;
}

/* Sets the fence of each peer once all requests have been sent. */
static bool have_all_reached_fence(uint64_t last_serial, bool *fence_set)
{
    struct la_peer *peer;
    uint32_t cursor = 0;

    if (has_incomplete_request(last_serial))
        return false;
    while (!*fence_set && (peer = la_peer_iterate(&cursor)) != NULL)
        peer->fence = (uint32_t)peer->lane_used;
    *fence_set = true;
    peer = find_peer_before_fence();
    if (peer != NULL)
        la_slots_read_freed(peer);
    return peer == NULL;
}

static void log_fence_stall(const struct lc_stall_timer *stall, const char *function)
{
    char text[LC_TEXT_SIZE];
    const struct la_peer *peer = find_peer_before_fence();

    if (peer != NULL)
        la_log(
            "%s: has waited %llu s for task %u, which has not received all messages sent to it; %s",
            function, lc_stall_seconds(stall), peer->rank, la_requests_describe(text));
    else
        la_log("%s: has waited %llu s: %s", function, lc_stall_seconds(stall),
               la_requests_describe(text));
}

int la_fence(const char *function)
{
    uint64_t last_serial = la.requests.last_serial, failures = la.errors.num_failures;
    struct lc_stall_timer stall = {0};
    bool fence_set = false;
    uint32_t idle_count = 0;

    while (!have_all_reached_fence(last_serial, &fence_set)) {
        if (lc_stall_should_log(&stall, idle_count))
            log_fence_stall(&stall, function);
        la_progress_or_wait(&idle_count);
    }
    return la.errors.num_failures == failures ? LAPI_SUCCESS : la.errors.last_code;
}

int LAPI_Fence(lapi_handle_t hndl)
{
    int rc = LAPI_ERR_IN_HNDLR;

    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (la_may_wait())
        rc = la_fence("LAPI_Fence");
    la_unlock();
    return rc;
}

int LAPI_Gfence(lapi_handle_t hndl)
{
    int rc = LAPI_ERR_IN_HNDLR, barrier_rc;

    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (la_may_wait()) {
        rc = la_fence("LAPI_Gfence");
        barrier_rc = la_barrier("LAPI_Gfence", 0);
        if (rc == LAPI_SUCCESS)
            rc = barrier_rc;
    }
    la_unlock();
    return rc;
}

/*
 * Exchange of addresses. table[n] is the value of the task n ranks ahead.
 */

/* stadd: of the table of this task. */
static int allgather_addresses(utofu_stadd_t stadd)
{
    for (uint32_t k = 0; k < la.job.num_partners; k++) {
        utofu_stadd_t rmt_stadd = 0;
        uint32_t num_collected = 1u << k, num_left = la.job.procs - num_collected;
        uint32_t num_to_read = num_left < num_collected ? num_left : num_collected;
        utofu_vcq_id_t id = la.control.words->common.partners[k];

        if (utofu_query_stadd(id, LA_STAG_ADDRESSES, &rmt_stadd) != UTOFU_SUCCESS ||
            la_barrier("LAPI_Address_init", 0) != LAPI_SUCCESS ||
            la_get_sync_registered(lc_rank_ahead(la.job.rank, la.job.procs, k), id,
                                   stadd + 8ull * num_collected, rmt_stadd, 8ull * num_to_read,
                                   "its addresses") != UTOFU_SUCCESS)
            return LAPI_ERR_TIMEOUT;
    }
    return la_barrier("LAPI_Address_init", 0); /* now no task reads this table any more */
}

/* The table stays registered. Other memory under the same STag would have another key, and a peer
 * that uses the old key loses its connection. */
static bool open_table(void)
{
    if (la.sync.addresses.start != NULL)
        return true;
    la.sync.addresses = (struct lc_memory){.job = &la.job,
                                           .vcq = la_port()->vcq,
                                           .size = la.job.procs * sizeof(uint64_t),
                                           .what = "addresses",
                                           .stag = LA_STAG_ADDRESSES};
    return lc_memory_open(&la.sync.addresses);
}

static int exchange_addresses(uint64_t mine, uint64_t *result)
{
    uint64_t *table;
    int rc;

    if (!open_table())
        return LAPI_ERR_MEMORY_EXHAUSTED;
    table = la.sync.addresses.start;
    table[0] = mine;
    rc = allgather_addresses(la.sync.addresses.stadd);
    for (uint32_t i = 0; i < la.job.procs && rc == LAPI_SUCCESS; i++)
        result[(la.job.rank + i) % la.job.procs] = table[i];
    return rc;
}

int LAPI_Address_init64(lapi_handle_t hndl, lapi_long_t my_addr, lapi_long_t *add_tab)
{
    _Static_assert(sizeof(lapi_long_t) == 8 && sizeof(void *) == 8, "one exchange for both");
    int rc = LAPI_ERR_IN_HNDLR;

    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (add_tab == NULL)
        rc = LAPI_ERR_ADDR_TBL_NULL;
    else if (la_may_wait())
        rc = exchange_addresses(my_addr, (uint64_t *)add_tab);
    la_unlock();
    return rc;
}

int LAPI_Address_init(lapi_handle_t hndl, void *my_addr, void *add_tab[])
{
    return LAPI_Address_init64(hndl, (uintptr_t)my_addr, (lapi_long_t *)add_tab);
}
