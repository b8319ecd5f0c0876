/* SPDX-License-Identifier: Apache-2.0 */
/* The end of communications, and the notices of both sides. */
#include <stdlib.h>

#include "engine/inner.h"
#include "watch/watch.h"

/*
 * Completion: DONE, and RETIRED when everything before it on the link is
 */

static void __attribute__((noinline, cold)) tell_watched(struct ut_link *link, struct ut_slot *slot)
{
    ut_watch_done(link, slot);
    if (slot->mrq_rc ||
        (!slot->tcq_rc && (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)))
        ut_engine_local_notice(link->vcq, link, slot);
}

static void push_remote_notice(struct ut_link *link, uint8_t type, uint8_t edata,
                               utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd)
{
    struct utofu_mrq_notice *n = ut_mrq_push(link->vcq, type, 0, link->peer);

    n->edata = edata;
    n->lcl_stadd = lcl_stadd;
    n->rmt_stadd = rmt_stadd;
    if (type != UTOFU_MRQ_TYPE_RMT_GET)
        n->rmt_value = rmt_stadd; /* some programs look for it there */
}

/*
 * The peer may answer a put before its adapter acknowledges it. Programs rely on the order in which
 * the two happened: the local notice of the put comes out of the MRQ before the answer's. So a
 * remote notice waits for those local ones of its link that were outstanding when it came.
 */
void ut_engine_remote_notice(struct ut_link *link, uint8_t type, uint8_t edata,
                             utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd)
{
    struct ut_link_early *early = NULL;

    if (link->told_begun != link->told_ended || link->early_first)
        early = malloc(sizeof(*early));
    if (!early) {
        push_remote_notice(link, type, edata, lcl_stadd, rmt_stadd);
        return;
    }
    *early = (struct ut_link_early){.after = link->told_begun,
                                    .type = type,
                                    .edata = edata,
                                    .lcl_stadd = lcl_stadd,
                                    .rmt_stadd = rmt_stadd};
    *link->early_last = early;
    link->early_last = &early->next;
}

/* A communication with a local notice has ended. */
static void told(struct ut_link *link)
{
    link->told_ended++;
    while (__builtin_expect(link->early_first != NULL, 0)) {
        struct ut_link_early *early = link->early_first;
        if ((int32_t)(link->told_ended - early->after) < 0)
            return;
        link->early_first = early->next;
        if (!link->early_first)
            link->early_last = &link->early_first;
        push_remote_notice(link, early->type, early->edata, early->lcl_stadd, early->rmt_stadd);
        free(early);
    }
}

void ut_engine_retire(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    while (link->first != UT_NO_SLOT) {
        struct ut_slot *slot = &vcq->toq[link->first];
        if (slot->state != UT_SLOT_DONE)
            return;
        ut_link_remove_first(link);
        if (slot->mrq_rc ||
            (slot->desc.flags & (UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UT_DESC_WATCHED))) {
            if (__builtin_expect(slot->desc.flags & UT_DESC_WATCHED, 0))
                tell_watched(link, slot);
            else if (slot->mrq_rc || !slot->tcq_rc)
                ut_engine_local_notice(vcq, link, slot);
        }
        if (slot->desc.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
            told(link);
        slot->tcq_ready = true;
        slot->state = UT_SLOT_RETIRED;
    }
}

/* Something failed at once, and its notices wait for earlier communications of the link, whose
 * completion nobody may have asked for: a poll that finds nothing will. An ARMW is answered. */
static void __attribute__((noinline, cold)) hold_up(struct ut_link *link)
{
    struct ut_vcq *vcq = link->vcq;

    if (vcq->toq[link->first].desc.kind == UT_DESC_ARMW)
        return;
    vcq->held_up = true;
    vcq->patience = 0;
}

void ut_engine_finish(struct ut_link *link, struct ut_slot *slot)
{
    if (slot->desc.kind == UT_DESC_ARMW && slot->stage > 0)
        link->armw_out--;
    slot->state = UT_SLOT_DONE;
    ut_engine_retire(link);
    if (__builtin_expect(slot->state == UT_SLOT_DONE, 0))
        hold_up(link);
}
