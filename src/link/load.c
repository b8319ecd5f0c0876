/* SPDX-License-Identifier: Apache-2.0 */
/* What is on a link, and what it waits for. */
#include "link/rails.h"

struct ut_link_pending ut_link_pending(const struct ut_link *link)
{
    const struct ut_vcq *vcq = link->vcq;
    struct ut_link_pending n = {0};
    uint32_t limit = vcq->toq_mask + 1;

    for (uint32_t i = link->first; i != UT_NO_SLOT && limit > 0; i = vcq->toq[i].next, limit--) {
        n.waiting += vcq->toq[i].state == UT_SLOT_WAITING;
        n.posted += vcq->toq[i].state == UT_SLOT_POSTED;
        n.done += vcq->toq[i].state == UT_SLOT_DONE;
    }
    for (const struct ut_link_msg *m = link->msg_first; m; m = m->next)
        n.messages++;
    return n;
}

const char *ut_link_wait_reason(const struct ut_link *link, const struct ut_link_pending *load)
{
    switch (link->state) {
    case UT_LINK_IDLE:
        return "nothing: it is not connected";
    case UT_LINK_RESOLVING:
        return link->was_up ? "the next try to connect again"
                            : "the peer's process to call the library and to make that VCQ, or the "
                              "next try to connect";
    case UT_LINK_CONNECTING:
        return "the peer's answer to the request to connect";
    case UT_LINK_AWAITING:
        return "the request to connect that the peer has sent";
    case UT_LINK_SILENT:
        return "nothing: the peer was silent";
    case UT_LINK_GONE:
        return "nothing: the peer is gone";
    }
    if (link->reading != UT_STAG_NONE)
        return "an entry of the peer's STag table";
    if (link->to_post != UT_NO_SLOT || link->msg_to_post)
        return "a free entry in the provider's queue";
    if (link->armw_out > ut_rails_outstanding(link))
        return "the peer's answer to an ARMW";
    return load->posted || load->messages ? "completions"
                                          : "nothing: no communication of this process uses it";
}
