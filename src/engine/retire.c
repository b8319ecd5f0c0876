/* SPDX-License-Identifier: Apache-2.0 */
/* Ends communications, complete or failed: writes local notices, and remote notices that had to
 * wait. */
#include "engine/retire.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/parted.h"
#include "engine/posting.h"
#include "link/rails.h"
#include "stats/stats.h"
#include "util/env.h"
#include "vcq/wait.h"

void ut_engine_retire_counted(struct ut_link *link, struct ut_slot *slot)
{
    ut_stats_done(link, slot);
    if (slot->mrq_rc)
        ut_mrq_push_failed(link, slot);
    else if (!slot->tcq_rc && (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE))
        ut_engine_local_notice(link->vcq, link, slot);
}

/*
 * A peer may reply to a put before its adapter acknowledges the put. Programs expect the local
 * notice of the put before the remote notice of the reply in the MRQ. So a remote notice waits for
 * all local notices of its link that were outstanding when it arrived.
 */
void ut_engine_early_notice(struct ut_link *link, uint8_t type, uint8_t edata,
                            utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd)
{
    struct ut_link_early_notice *early = malloc(sizeof(*early));

    if (!early) {
        ut_engine_push_remote_notice(link, type, edata, lcl_stadd, rmt_stadd);
        return;
    }
    *early = (struct ut_link_early_notice){.after = link->lcl_notices_begun,
                                           .type = type,
                                           .edata = edata,
                                           .lcl_stadd = lcl_stadd,
                                           .rmt_stadd = rmt_stadd};
    *link->early_last = early;
    link->early_last = &early->next;
}

void ut_engine_push_early(struct ut_link *link)
{
    while (link->early_first) {
        struct ut_link_early_notice *early = link->early_first;
        if ((int32_t)(link->lcl_notices_ended - early->after) < 0)
            return;
        link->early_first = early->next;
        if (!link->early_first)
            link->early_last = &link->early_first;
        ut_engine_push_remote_notice(link, early->type, early->edata, early->lcl_stadd,
                                     early->rmt_stadd);
        free(early);
    }
}

void ut_engine_local_notice_noinline(struct ut_link *link, struct ut_slot *slot)
{
    ut_engine_local_notice(link->vcq, link, slot);
}

void ut_engine_retire(struct ut_link *link)
{
    ut_engine_retire_done(link);
}

void ut_engine_want_completions(struct ut_vcq *vcq)
{
    vcq->completions_wanted = true;
    vcq->spin_limit = 0;
    if (vcq->waits) /* nobody polls */
        ut_vcq_request_progress(vcq);
}

void ut_engine_want_completions_before(struct ut_link *link)
{
    if (link->vcq->toq[link->first].desc.kind != UT_DESC_ARMW)
        ut_engine_want_completions(link->vcq);
}

void ut_engine_finish(struct ut_link *link, struct ut_slot *slot)
{
    if (slot->desc.kind == UT_DESC_ARMW && slot->stage != UT_STAGE_NONE) {
        UT_ASSERT(link->unordered_out > 0);
        link->unordered_out--;
    }
    ut_engine_finish_slot(link, slot);
}

/*
 * Failures
 */

/* If data of the slot are posted, the slot ends when these are complete. Otherwise their completion
 * would reach the next communication in the slot. The slots before it on the link may be
 * unsignalled, even behind an ARMW, which completes by itself. */
enum ut_outcome ut_post_fail(struct ut_link *link, struct ut_slot *slot, int rc)
{
    ut_slot_set_failed(link, slot, rc);
    if (slot->pending == 0)
        ut_engine_finish(link, slot);
    else
        slot->state = UT_SLOT_POSTED;
    if (slot->state != UT_SLOT_RETIRED)
        ut_engine_want_completions(link->vcq);
    return UT_POSTED;
}

bool ut_engine_handle_error(struct ut_link *link, struct ut_slot *slot, enum prov_status status)
{
    switch (status) {
    case PROV_RMT_ACCESS:
        if (slot->retries++ == 0) {
            ut_link_invalidate_stag(link, slot->desc.rmt_stadd);
            return false; /* the new connection posts the slot again */
        }
        ut_slot_set_failed(link, slot, UTOFU_ERR_MRQ_RMT_MEMORY);
        return true;
    case PROV_RMT_FAULT:
        ut_slot_set_failed(link, slot, UTOFU_ERR_MRQ_RMT_MEMORY);
        return true;
    case PROV_LCL_ACCESS:
        ut_slot_set_failed(link, slot,
                           ut_slot_is_to_local(slot) || slot->tcq_ready ? UTOFU_ERR_MRQ_LCL_MEMORY
                                                                        : UTOFU_ERR_TCQ_MEMORY);
        return true;
    case PROV_FAILED:
        ut_slot_set_failed(link, slot, UTOFU_ERR_MRQ_OTHER);
        return true;
    default:
        return false; /* PEER, FLUSHED: down() decides on the slot */
    }
}

bool ut_engine_must_not_repeat(const struct ut_slot *slot)
{
    return slot->stage != UT_STAGE_NONE && ut_env_num(UT_ENV_AFTER_BREAK) == UT_AFTER_BREAK_REPORT;
}

bool ut_engine_must_not_repeat_put(const struct ut_slot *slot)
{
    return ut_engine_must_not_repeat(slot) && !ut_slot_notifies_peer(slot);
}

void ut_engine_fail_unrepeated(struct ut_link *link, struct ut_slot *slot)
{
    ut_slot_set_failed(link, slot, UTOFU_ERR_MRQ_OTHER);
    slot->cause = UT_CAUSE_OUTCOME_UNKNOWN;
}

int ut_post_local_error(const struct ut_slot *slot, enum ut_stag_result r)
{
    bool mrq = ut_slot_is_to_local(slot);

    switch (r) {
    case UT_STAG_BAD_STADD:
        return mrq ? UTOFU_ERR_MRQ_LCL_STADD : UTOFU_ERR_TCQ_STADD;
    case UT_STAG_BAD_LENGTH:
        return mrq ? UTOFU_ERR_MRQ_LCL_LENGTH : UTOFU_ERR_TCQ_LENGTH;
    default:
        return mrq ? UTOFU_ERR_MRQ_LCL_MEMORY : UTOFU_ERR_TCQ_MEMORY;
    }
}

enum ut_outcome ut_post_handle_refusal(struct ut_link *link, struct ut_slot *slot, int rc)
{
    if (link->vcq->stats && (rc == -EAGAIN || (rc == -EACCES && slot->retries == 0)))
        ut_stats_retry(link);
    switch (rc) {
    case -EAGAIN:
        ut_link_schedule(link);
        return UT_NOT_NOW;
    case -ENOTCONN:
        return UT_NOT_NOW; /* ut_link_on_down() follows */
    case -EACCES:
        /* the STag entry may belong to an earlier registration: read the entry again, once */
        if (slot->retries++ == 0) {
            ut_link_invalidate_stag(link, slot->desc.rmt_stadd);
            slot->stag_reread = false;
            ut_link_schedule(link);
            return UT_NOT_NOW;
        }
        return ut_post_fail(link, slot, UTOFU_ERR_MRQ_RMT_MEMORY);
    case -EFAULT:
        return ut_post_fail(link, slot, UTOFU_ERR_MRQ_RMT_MEMORY);
    case -EPERM:
        return ut_post_fail(link, slot, ut_post_local_error(slot, UT_STAG_BAD_ACCESS));
    default:
        return ut_post_fail(link, slot, UTOFU_ERR_MRQ_OTHER);
    }
}

/* True if the target may still reply to a request of the slot, perhaps after the slot got another
 * communication. */
static bool may_be_answered(const struct ut_slot *slot)
{
    return slot->desc.kind == UT_DESC_ARMW && (slot->stage != UT_STAGE_NONE || slot->reply_owed);
}

void ut_engine_fail_all(struct ut_link *link, int rc)
{
    struct ut_vcq *vcq = link->vcq;
    bool answers_late = false;

    for (uint32_t n = link->first; n != UT_NO_SLOT; n = vcq->toq[n].next) {
        struct ut_slot *slot = &vcq->toq[n];
        if (slot->state == UT_SLOT_DONE)
            continue;
        answers_late |= may_be_answered(slot);
        ut_slot_set_failed(link, slot, rc);
        if (slot->parted && ut_parted_rewind(link, slot))
            continue; /* the slot ends when no other connection reads its source */
        slot->pending = 0;
        slot->state = UT_SLOT_DONE;
    }
    link->armw_epoch += answers_late;
    link->to_post = UT_NO_SLOT;
    link->unordered_out = ut_rails_outstanding(link) & 0xffffff;
    link->reads_out = 0;
    ut_engine_retire(link);
}
