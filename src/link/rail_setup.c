/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which links have further ports (rails), and how many: see rails.h. */
#include <stdlib.h>

#include "link/rails.h"

/* Returns the value for lcl_other_devices. */
static uint8_t find_other_devices(const struct ut_link *link, unsigned int max_rails)
{
    struct prov *prov = ut_rails_prov(link);
    unsigned int tni = link->vcq->tni, others = 0;

    for (unsigned int n = 0; n < max_rails; n++)
        others |=
            prov->ops->device(prov, tni + n + 1) != prov->ops->device(prov, tni) ? 1u << n : 0;
    return (uint8_t)others;
}

/* True for a link from a VCQ of the program to another VCQ, over a provider that can split puts. */
static bool may_have_rails(const struct ut_link *link)
{
    return link->ops->set_split_threshold && !link->passive && !ut_vcq_is_internal(link->vcq) &&
           link->id_key != ut_vcq_id_key(link->vcq->id);
}

/* Allocates the rails. Until the message UT_MSG_RAILS of the peer arrives, all its ports count as
 * ports of other devices. */
static bool alloc_rails(struct ut_link *link)
{
    struct ut_rails *rails = calloc(1, sizeof(*rails));

    link->rails = rails;
    for (unsigned int i = 0; rails && i < UT_MAX_RAILS; i++) {
        rails->rail[i].link = link;
        rails->rmt_other_devices |= (uint8_t)(1u << i);
    }
    return rails != NULL;
}

void ut_rails_drop_keys(struct ut_link *link)
{
    if (!link->rails)
        return;
    free(link->rails->keys);
    link->rails->keys = NULL;
}

void ut_rails_enable(struct ut_link *link)
{
    struct prov *prov = ut_rails_prov(link);
    struct prov_caps caps;

    if (!may_have_rails(link))
        return;
    prov->ops->caps(prov, link->vcq->tni, &caps);
    if (caps.split_threshold == 0 || caps.max_rails == 0)
        return;
    if (!link->rails && !alloc_rails(link))
        return; /* long puts use one port */
    struct ut_rails *rails = link->rails;
    rails->split_threshold = caps.split_threshold < UT_RAILS_MIN_SPLIT_THRESHOLD
                                 ? UT_RAILS_MIN_SPLIT_THRESHOLD
                                 : caps.split_threshold;
    rails->num_ports = caps.num_ports;
    rails->max_rails = caps.max_rails < UT_MAX_RAILS ? caps.max_rails : UT_MAX_RAILS;
    rails->lcl_other_devices = find_other_devices(link, rails->max_rails);
    rails->next_attempt_ms = rails->pause_ms = 0;
    link->ops->set_split_threshold(link->conn, rails->split_threshold);
}

void ut_rails_close(struct ut_link *link)
{
    for (unsigned int i = 0; link->rails && i < UT_MAX_RAILS; i++)
        if (link->rails->rail[i].conn)
            link->ops->conn_close(link->rails->rail[i].conn);
    ut_rails_drop_keys(link);
    free(link->rails);
    link->rails = NULL;
}
