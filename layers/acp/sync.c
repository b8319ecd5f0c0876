/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The barrier: in round k every process tells the one 2^k ranks ahead in which epoch it is, and
 * waits for the one 2^k ranks behind.
 */
#include "sync.h"
#include "control.h"
#include "ctx.h"
#include "lock.h"
#include "log.h"
#include "net.h"
#include "peers.h"
#include "progress.h"
#include "queue.h"

#include "../common/job.h"
#include "../common/patience.h"
#include "../common/ring.h"

void al_sync_setup(void)
{
    al.epoch = 0;
}

static void end_tell(struct al_op *op, int rc, uint64_t old_value)
{
    (void)old_value;
    if (rc != UTOFU_SUCCESS && !al.leaving)
        al_fatal("rank %u cannot be notified of acp_sync: %s", op->rank, lc_utofu_error());
}

static void tell_finger(const char *function, uint32_t finger)
{
    const struct al_peer peer = {.id = al.control->fingers[finger]};
    uint32_t rank = lc_rank_ahead(al.job.rank, al.job.procs, finger), idle = 0;
    utofu_stadd_t at = al_peer_control(&peer, offsetof(struct al_control, sync) + 8 * finger);
    struct lc_patience patience = {0};

    for (;;) {
        struct al_op *op = al_op_take(0, NULL, rank, end_tell);

        /* behind that of the epoch before, which may still be under way */
        if (op != NULL &&
            al_op_put_now(op, peer.id, &al.epoch, at, 8,
                          UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE))
            return;
        if (lc_patience_ends(&patience, idle))
            al_log("%s: has waited %llu s for room to tell rank %u that this process has come: %u "
                   "communications before are not complete",
                   function, lc_patience_seconds(&patience), rank, al_net_busy());
        if (!al_progress())
            al_progress_pause(&idle);
    }
}

/* The epoch that the process 2^finger ranks behind has come to: at most the next one, as it
 * leaves this one behind this process. */
static uint64_t epoch_behind(uint32_t finger)
{
    uint64_t come = __atomic_load_n(&al.control->sync[finger], __ATOMIC_ACQUIRE);

    if (come > al.epoch + 1)
        al_fatal("barrier %llu is said to have begun, and this process is in the %lluth: does "
                 "another program of the job use this memory?",
                 (unsigned long long)come, (unsigned long long)al.epoch);
    return come;
}

/* False: not until the time `end`. */
static bool await_finger(const char *function, uint32_t finger, uint64_t end)
{
    uint32_t behind = lc_rank_behind(al.job.rank, al.job.procs, finger);
    struct lc_patience patience = {0};
    uint32_t idle = 0;

    while (epoch_behind(finger) < al.epoch) {
        if (end != UINT64_MAX && lc_now_ns() > end)
            return false;
        if (lc_patience_ends(&patience, idle))
            al_log("%s: has waited %llu s for rank %u, which has not come, or waits for another "
                   "rank that has not",
                   function, lc_patience_seconds(&patience), behind);
        if (al_progress())
            idle = 0;
        else
            al_progress_pause(&idle);
    }
    return true;
}

bool al_sync_wait(const char *function, uint64_t limit_ns)
{
    uint64_t end = limit_ns == 0 ? UINT64_MAX : lc_now_ns() + limit_ns;
    bool come = true;

    al.epoch++;
    for (uint32_t k = 0; come && k < al.job.num_fingers; k++) {
        tell_finger(function, k);
        come = await_finger(function, k, end);
    }
    al_progress_waited();
    return come;
}

int acp_sync(void)
{
    int rc = -1;

    al_lock();
    if (al.running) {
        al_queue_complete_all("acp_sync");
        rc = al_sync_wait("acp_sync", 0) ? 0 : -1;
    } else {
        al_log("acp_sync: before acp_init");
    }
    al_unlock();
    return rc;
}
