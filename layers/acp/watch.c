/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects processes that have ended. Each process reads some bytes of the next rank from time to
 * time; the read fails if that process has ended. A process that detects this, or calls
 * acp_abort(), tells its partners, which tell theirs.
 */
#include "watch.h"
#include "control.h"
#include "ctx.h"
#include "log.h"
#include "net.h"
#include "peers.h"

#include <unistd.h>

#include "../common/job.h"

enum { TELL_MS = 100 };

void al_watch_setup(void)
{
    lc_probe_setup(&al.watch.probe);
}

static void end_probe(struct lc_op *op, int rc, uint64_t old_value)
{
    (void)old_value;
    lc_probe_ended(&al.watch.probe);
    if (rc != UTOFU_SUCCESS && !al.leaving)
        al_fatal("rank %u does not answer, so the job ends: %s", op->rank, lc_utofu_error());
}

void al_watch_poll(void)
{
    uint64_t aborted = __atomic_load_n(&al.control->aborted, __ATOMIC_ACQUIRE);
    const struct lc_partner_context partners = al_partner_context();

    if (aborted > al.job.procs) {
        al_log("ignored \"rank %llu ends the job\": there is no such rank; does another program of "
               "the job use this memory?",
               (unsigned long long)aborted - 1);
        __atomic_store_n(&al.control->aborted, 0, __ATOMIC_RELEASE);
    } else if (aborted != 0 && !al.dying) {
        al_log("rank %llu ends the job", (unsigned long long)aborted - 1);
        al_watch_broadcast_end((uint32_t)(aborted - 1));
        _exit(1);
    }
    if (!lc_probe_should_read_clock(&al.watch.probe) || al.leaving || al.dying || al.job.procs == 1)
        return;
    if (lc_probe_is_due(&al.watch.probe))
        lc_partner_probe(&partners, &al.watch.probe, 0, offsetof(struct al_control, pad1), 32,
                         end_probe);
}

uint32_t al_watch_us_until_due(void)
{
    return al.job.procs == 1 ? LC_PROBE_INTERVAL_MS * 1000 : lc_probe_us_until_due(&al.watch.probe);
}

void al_watch_check_next(void)
{
    lc_probe_read_clock_next(&al.watch.probe);
}

void al_watch_broadcast_end(uint32_t rank)
{
    uint64_t end = lc_now_ns() + TELL_MS * 1000000ull;
    const struct lc_partner_context partners = al_partner_context();

    if (!al.running || al.dying)
        return;
    al.leaving = al.dying = true;
    al_net_disable_callbacks();
    for (uint32_t k = 0; k < al.job.num_partners; k++)
        lc_partner_put_word(&partners, k, (uint64_t)rank + 1, offsetof(struct al_control, aborted),
                            UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL);
    while (al_net_ops_in_flight() > 0 && lc_now_ns() < end)
        al_net_poll();
}
