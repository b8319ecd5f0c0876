/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates CQs and component ids. */
#include "vcq/cq.h"

#include "util/log.h"

/* The state of one CQ, and its component ids in use. */
enum cq_use { CQ_UNUSED, CQ_SHARED, CQ_EXCLUSIVE, CQ_SESSION };
struct cq {
    uint8_t use;
    uint8_t components; /* one bit per component id */
};
static struct cq cqs[UT_NUM_TNIS][UT_MAX_CQS];

static bool take_component(struct cq *cq, enum cq_use use, struct ut_cq_place *place)
{
    if ((cq->use != CQ_UNUSED && cq->use != use) || cq->components == 0xff)
        return false;
    for (int c = UT_NUM_CMP_IDS - 1; c >= 0; c--) {
        if (!(cq->components & 1u << c)) {
            place->cmp = (unsigned int)c;
            cq->components |= (uint8_t)(1u << c);
            cq->use = (uint8_t)use;
            return true;
        }
    }
    return false;
}

static bool take_shared(unsigned int tni, enum cq_use use, unsigned int from, unsigned int to,
                        struct ut_cq_place *place)
{
    for (unsigned int i = from; i < to; i++) {
        if (take_component(&cqs[tni][i], use, place)) {
            place->cq_index = i;
            return true;
        }
    }
    return false;
}

static bool take_exclusive(unsigned int tni, unsigned int shared, unsigned int exclusive,
                           struct ut_cq_place *place)
{
    /* first the CQs reserved for exclusive VCQs, then unused ordinary CQs, from the last down to
     * the second */
    for (unsigned int n = 0; n < exclusive + shared; n++) {
        unsigned int i = n < exclusive ? shared + n : exclusive + shared - 1 - n;
        if (i == 0 || cqs[tni][i].use != CQ_UNUSED)
            continue;
        place->cq_index = i;
        return take_component(&cqs[tni][i], CQ_EXCLUSIVE, place);
    }
    return false;
}

static int refuse_full(unsigned int tni, const char *kind, unsigned int num_cqs)
{
    return ut_log_refuse(UTOFU_ERR_FULL, UT_LOG_DEBUG, "vcq",
                         "TNI %u has no room for another %s VCQ: %u on each of %u CQs are in use",
                         tni, kind, UT_NUM_CMP_IDS, num_cqs);
}

int ut_cq_alloc(const struct ut_process *process, unsigned int tni, int cmp_id, unsigned long flags,
                struct ut_cq_place *place)
{
    unsigned int exclusive = process->num_exclusive, session = process->num_session;
    unsigned int shared = process->num_cqs - exclusive - session;

    if (cmp_id >= 0) {
        struct cq *cq = &cqs[tni][0];
        if (cq->components & 1u << cmp_id)
            return ut_log_refuse(UTOFU_ERR_USED, UT_LOG_DEBUG, "vcq",
                                 "component id %d of TNI %u is in use in this process", cmp_id,
                                 tni);
        cq->use = CQ_SHARED;
        cq->components |= (uint8_t)(1u << cmp_id);
        *place = (struct ut_cq_place){0, (unsigned int)cmp_id};
        return 0;
    }
    if (flags & UTOFU_VCQ_FLAG_EXCLUSIVE)
        return take_exclusive(tni, shared, exclusive, place)
                   ? 0
                   : ut_log_refuse(
                         UTOFU_ERR_NOT_AVAILABLE, UT_LOG_DEBUG, "vcq",
                         "TNI %u has no CQ left for an exclusive VCQ: %u are set aside by "
                         "UTOFU_NUM_EXCLUSIVE_CQS, and %u are for ordinary VCQs",
                         tni, exclusive, shared);
    if (flags & UTOFU_VCQ_FLAG_SESSION_MODE) {
        if (session == 0)
            return ut_log_refuse(
                UTOFU_ERR_NOT_AVAILABLE, UT_LOG_DEBUG, "vcq",
                "no CQ of TNI %u is set aside for session mode: of %u, UTOFU_NUM_EXCLUSIVE_CQS "
                "takes %u and UTOFU_NUM_SESSION_MODE_CQS takes none",
                tni, process->num_cqs, exclusive);
        return take_shared(tni, CQ_SESSION, process->num_cqs - session, process->num_cqs, place)
                   ? 0
                   : refuse_full(tni, "session-mode", session);
    }
    return take_shared(tni, CQ_SHARED, 0, shared, place) ? 0 : refuse_full(tni, "ordinary", shared);
}

void ut_cq_free(unsigned int tni, const struct ut_cq_place *place)
{
    struct cq *cq = &cqs[tni][place->cq_index];

    cq->components &= (uint8_t) ~(1u << place->cmp);
    if (cq->components == 0)
        cq->use = CQ_UNUSED;
}
