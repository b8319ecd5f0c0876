/* SPDX-License-Identifier: Apache-2.0 */
/* The barrier. */
#include "sync.h"
#include "control.h"
#include "ctx.h"
#include "lock.h"
#include "log.h"
#include "net.h"
#include "peers.h"
#include "progress.h"
#include "queue.h"

#include "../common/barrier.h"

void al_sync_setup(void)
{
    al.epoch = 0;
}

static void end_tell(struct lc_op *op, int rc, uint64_t old_value)
{
    (void)old_value;
    if (rc != UTOFU_SUCCESS && !al.leaving)
        al_fatal("cannot notify rank %u of acp_sync: %s", op->rank, lc_utofu_error());
}

/* A process cannot leave a barrier before this process enters it, so it is at most one barrier
 * ahead. */
static bool check_epoch(uint64_t epoch, uint64_t arrived)
{
    if (arrived > epoch + 1)
        al_fatal("received the number of barrier %llu in barrier %llu: does another program of the "
                 "job use this memory?",
                 (unsigned long long)arrived, (unsigned long long)epoch);
    return false;
}

static const struct lc_barrier_ops barrier_ops = {
    .flags = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
    .put_callback = end_tell,
    .progress = al_progress_or_wait,
    .must_fail = check_epoch,
};

bool al_sync_wait(const char *function, uint64_t timeout_ns)
{
    const struct lc_partner_context partners = al_partner_context();
    bool arrived = lc_barrier_wait(&partners, &barrier_ops, &al.epoch, function, timeout_ns);

    al_progress_wait_done();
    return arrived;
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
