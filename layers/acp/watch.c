/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that end. Each process reads some bytes of the next rank's from time to time; uTofu
 * says when that process is gone. Who finds that, or calls acp_abort(), tells its fingers, who tell
 * theirs.
 */
#include "watch.h"
#include "control.h"
#include "ctx.h"
#include "log.h"
#include "net.h"
#include "peers.h"

#include <unistd.h>

#include "../common/job.h"
#include "../common/ring.h"

enum { TELL_MS = 100 };

void al_watch_setup(void)
{
    lc_probe_setup(&al.watch.probe);
}

static void end_probe(struct al_op *op, int rc, uint64_t old_value)
{
    (void)old_value;
    lc_probe_ended(&al.watch.probe);
    if (rc != UTOFU_SUCCESS && !al.leaving)
        al_fatal("rank %u does not answer, so the job ends: %s", op->rank, lc_utofu_error());
}

static void start_probe(void)
{
    const struct al_peer peer = {.id = al.control->fingers[0]};
    struct al_op *op = al_op_take(0, NULL, lc_rank_ahead(al.job.rank, al.job.procs, 0), end_probe);

    if (op == NULL)
        return;
    /* more than a word: that uTofu may read from mapped memory, which outlives its process */
    al.watch.probe.under_way =
        al_op_get(op, peer.id, al_op_bounce_stadd(op),
                  al_peer_control(&peer, offsetof(struct al_control, pad1)), 32);
}

void al_watch_poll(void)
{
    uint64_t aborted = __atomic_load_n(&al.control->aborted, __ATOMIC_ACQUIRE);

    if (aborted > al.job.procs) {
        al_log("\"rank %llu ends the job\" is left out: there is no such rank: another program's?",
               (unsigned long long)aborted - 1);
        __atomic_store_n(&al.control->aborted, 0, __ATOMIC_RELEASE);
    } else if (aborted != 0 && !al.dying) {
        al_log("rank %llu ends the job", (unsigned long long)aborted - 1);
        al_watch_tell((uint32_t)(aborted - 1));
        _exit(1);
    }
    if (!lc_probe_counts(&al.watch.probe) || al.leaving || al.dying || al.job.procs == 1)
        return;
    if (lc_probe_is_due(&al.watch.probe))
        start_probe();
}

uint32_t al_watch_due_us(void)
{
    return al.job.procs == 1 ? LC_PROBE_MS * 1000 : lc_probe_due_us(&al.watch.probe);
}

void al_watch_soon(void)
{
    lc_probe_soon(&al.watch.probe);
}

static void end_tell(struct al_op *op, int rc, uint64_t old_value)
{
    (void)op;
    (void)rc;
    (void)old_value;
}

void al_watch_tell(uint32_t rank)
{
    const uint64_t word = (uint64_t)rank + 1;
    uint64_t end = lc_now_ns() + TELL_MS * 1000000ull;

    if (!al.running || al.dying)
        return;
    al.leaving = al.dying = true;
    for (uint32_t k = 0; k < al.job.num_fingers; k++) {
        const struct al_peer peer = {.id = al.control->fingers[k]};
        struct al_op *op = al_op_take(0, NULL, 0, end_tell);

        if (op != NULL)
            al_op_put_now(op, peer.id, &word,
                          al_peer_control(&peer, offsetof(struct al_control, aborted)), 8,
                          UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    }
    while (al_net_busy() > 0 && lc_now_ns() < end)
        al_net_poll();
}
