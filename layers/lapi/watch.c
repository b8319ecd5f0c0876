/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects tasks that have ended. Each task reads some bytes from the next two tasks from time to
 * time; the read fails if the task has ended. A task that detects this tells its partners, which
 * tell theirs. Then messages to and from the ended task end (struct la_upcalls), the error handler
 * is called, and waiting calls return.
 *
 * A task is "gone" if such a read has failed, if another task says so, or if a communication
 * reports that the task is unreachable. A task is "purged" if the program has called
 * LAPI_Purge_totask().
 */
#include "watch.h"

#include <stdlib.h>

#include "control.h"
#include "errors.h"

bool la_watch_setup(void)
{
    lc_probe_setup(&la.watch.probe);
    la.watch.num_probes = 0;
    la.watch.num_gone = 0;
    la.watch.gone = calloc(la.job.procs / 64 + 1, sizeof(*la.watch.gone));
    if (la.watch.gone == NULL)
        la_log("LAPI_Init: no memory for %u tasks", la.job.procs);
    return la.watch.gone != NULL;
}

void la_watch_close(void)
{
    free(la.watch.gone);
    la.watch.gone = NULL;
}

static void announce_gone_task(uint32_t gone)
{
    const struct lc_partner_context partners = la_partner_context();

    for (uint32_t k = 0; k < la.job.num_partners; k++)
        if (lc_rank_ahead(la.job.rank, la.job.procs, k) != gone)
            lc_partner_put_word(&partners, k, gone + 1ull,
                                offsetof(struct la_control_words, gone) +
                                    8ull * (gone % LA_GONE_SIZE),
                                UTOFU_ONESIDED_FLAG_STRONG_ORDER, NULL);
}

bool la_watch_is_gone(uint32_t rank)
{
    return la.watch.gone[rank / 64] >> rank % 64 & 1;
}

void la_watch_set_gone(uint32_t rank, const char *why)
{
    if (la.terminating || la_watch_is_gone(rank))
        return;
    la.watch.gone[rank / 64] |= 1ull << rank % 64;
    la.watch.num_gone++;
    la_log("task %u is gone or cannot be reached: %s", rank, why);
    la.upcalls->peer_gone(rank);
    la_report_failure(LAPI_ERR_TIMEOUT, rank);
    announce_gone_task(rank);
}

static void read_announcements(void)
{
    for (int i = 0; i < LA_GONE_SIZE; i++) {
        uint64_t gone = __atomic_load_n(&la.control.words->gone[i], __ATOMIC_ACQUIRE);

        if (gone != 0 && gone <= la.job.procs && gone - 1 != la.job.rank)
            la_watch_set_gone((uint32_t)(gone - 1), "another task says so");
    }
}

static void probe_done(struct lc_op *op, int rc, uint64_t old_value)
{
    (void)old_value;
    lc_probe_ended(&la.watch.probe);
    if (rc != UTOFU_SUCCESS)
        la_watch_set_gone(op->rank, lc_utofu_error());
}

static void start_probe(void)
{
    uint32_t partner = la.watch.num_probes++ % (la.job.num_partners > 1 ? 2 : 1);
    const struct lc_partner_context partners = la_partner_context();

    if (!la_watch_is_gone(lc_rank_ahead(la.job.rank, la.job.procs, partner)))
        lc_partner_probe(&partners, &la.watch.probe, partner,
                         offsetof(struct la_control_words, gone), 64, probe_done);
}

void la_watch_poll(void)
{
    if (!lc_probe_should_read_clock(&la.watch.probe) || la.terminating || la.job.procs == 1)
        return;
    read_announcements();
    if (lc_probe_is_due(&la.watch.probe))
        start_probe();
}
