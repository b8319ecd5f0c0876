/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory keys for further ports (rails) of other devices: see rails.h. This process's own keys are
 * in struct ut_region of the local STag (stag/extra_mr.c). A message requests the peer's keys when
 * the puts that lacked keys of an STag add up to the size of the STag. The peer's keys are stored
 * with the address and size of the STag: keys of an earlier registration are not used.
 */
#include <stdlib.h>

#include "link/rails.h"
#include "util/clock.h"
#include "util/back_off.h"

enum {
    FIRST_PAUSE_MS = 4,
    LAST_PAUSE_MS = 64000
}; /* between two requests for the keys of an STag */

/* Returns the place for the STag's keys, which may have the keys of another STag. */
static struct ut_rail_keys *key_cache_entry(const struct ut_rails *rails, uint32_t index)
{
    return &rails->keys[index & (UT_NUM_RAIL_KEYS - 1)];
}

/* Allocates the table of the peer's keys at the first use. False: no memory. */
static bool alloc_keys(struct ut_rails *rails)
{
    if (rails->keys)
        return true;
    rails->keys = malloc(UT_NUM_RAIL_KEYS * sizeof(*rails->keys));
    for (unsigned int i = 0; rails->keys && i < UT_NUM_RAIL_KEYS; i++)
        rails->keys[i].index = UT_STAG_NONE;
    return rails->keys != NULL;
}

/* Returns the stored keys of the STag. Resets them if they are of another STag, or if the STag's
 * entry in the peer's table has changed. NULL: the entry was not read, or no memory. */
static struct ut_rail_keys *find_or_reset_keys(struct ut_link *link, uint32_t index)
{
    const struct ut_cached_stag *e = ut_stag_cache_find(&link->stag_cache, index);

    if (!e || !alloc_keys(link->rails))
        return NULL;
    struct ut_rail_keys *k = key_cache_entry(link->rails, index);
    if (k->index != index || k->own_rkey != e->rkey || k->base != e->base || k->size != e->size)
        *k = (struct ut_rail_keys){
            .index = index, .own_rkey = e->rkey, .base = e->base, .size = e->size};
    return k;
}

/* Requests keys of the STag if puts to it were long enough and the pause is over. `missing`: bit n:
 * the key for rail n + 1. */
static void request_keys(struct ut_link *link, struct ut_rail_keys *k, utofu_stadd_t to,
                         unsigned int missing)
{
    const struct ut_msg_rail_keys m = {
        .head = {.type = UT_MSG_RAIL_KEYS, .flags = UT_MSG_FLAG_REQUEST, .rails = missing},
        .rmt_stadd = to};
    uint64_t now = ut_now_ms();

    if (k->bytes_without_keys < k->size || now < k->next_attempt_ms)
        return;
    k->pause_ms = ut_retry_delay_next_ms(k->pause_ms, FIRST_PAUSE_MS, LAST_PAUSE_MS);
    k->next_attempt_ms = now + k->pause_ms;
    ut_link_send(link, &m, sizeof(m), true);
}

unsigned int ut_rails_find_keys(struct ut_link *link, const struct ut_stag_local *from,
                                utofu_stadd_t to, uint32_t length, struct prov_mr own,
                                struct prov_mr keys[UT_MAX_RAILS])
{
    struct prov *prov = ut_rails_prov(link);
    const struct ut_rails *rails = link->rails;
    struct ut_rail_keys *k =
        rails->rmt_other_devices ? find_or_reset_keys(link, ut_link_stag_index(link, to)) : NULL;
    unsigned int usable = 0, missing = 0;

    for (unsigned int n = 0; n < UT_MAX_RAILS; n++) {
        unsigned int device = prov->ops->device(prov, link->vcq->tni + n + 1);
        bool has_lcl_key = true, has_rmt_key = true;
        keys[n] = own;
        if (!rails->rail[n].up)
            continue;
        if (rails->lcl_other_devices & 1u << n)
            has_lcl_key =
                ut_region_extra_keys(from->region, link->provider, device, length, &keys[n]);
        keys[n].rkey = own.rkey;
        if (rails->rmt_other_devices & 1u << n) {
            keys[n].rkey = k ? k->rkey[n] : 0;
            has_rmt_key = keys[n].rkey != 0;
            missing |= has_rmt_key ? 0 : 1u << n;
        }
        usable |= has_lcl_key && has_rmt_key ? 1u << n : 0;
    }
    if (k && missing) {
        k->bytes_without_keys += length;
        request_keys(link, k, to, missing);
    }
    return usable;
}

void ut_rails_invalidate_keys(struct ut_link *link, utofu_stadd_t to)
{
    uint32_t index = ut_link_stag_index(link, to);

    if (link->rails->keys && index != UT_STAG_NONE)
        key_cache_entry(link->rails, index)->index = UT_STAG_NONE;
}

/*
 * Messages between the two sides
 */

/* Sends the keys that the peer requested; registers the memory if necessary. */
static void reply_with_keys(struct ut_link *link, const struct ut_msg_rail_keys *request)
{
    struct ut_msg_rail_keys m = {.head = {.type = UT_MSG_RAIL_KEYS, .rails = request->head.rails},
                                 .rmt_stadd = request->rmt_stadd};
    struct prov *prov = ut_rails_prov(link);
    struct ut_vcq *vcq = link->vcq;
    struct ut_stag_local *l;
    uint8_t *addr;

    if (ut_stag_find(vcq->stags, m.rmt_stadd, 0, true, &l, &addr) == UT_STAG_OK && link->rails) {
        m.base = (uintptr_t)l->base;
        m.size = l->size;
        for (unsigned int n = 0; n < link->rails->max_rails; n++) {
            struct prov_mr keys = {.rkey = ut_region_rkey(l->region, link->provider)};
            if (!(m.head.rails & 1u << n))
                continue;
            if (!(link->rails->lcl_other_devices & 1u << n) ||
                ut_region_extra_keys(l->region, link->provider,
                                     prov->ops->device(prov, vcq->tni + n + 1), l->size, &keys))
                m.rkey[n] = keys.rkey;
        }
    }
    ut_link_send(link, &m, sizeof(m), true);
}

/* Stores the keys of the peer's reply if they belong to the current entry of the STag. */
static void store_keys(struct ut_link *link, const struct ut_msg_rail_keys *m)
{
    uint32_t index = ut_link_stag_index(link, m->rmt_stadd);
    struct ut_rail_keys *k;

    if (!link->rails || !link->rails->keys || index == UT_STAG_NONE)
        return;
    k = key_cache_entry(link->rails, index);
    if (k->index != index || k->base != m->base || k->size != m->size)
        return;
    for (unsigned int n = 0; n < UT_MAX_RAILS; n++)
        if (m->rkey[n])
            k->rkey[n] = m->rkey[n];
}

void ut_rails_on_keys(struct ut_link *link, const struct ut_msg_rail_keys *m)
{
    if (m->head.flags & UT_MSG_FLAG_REQUEST)
        reply_with_keys(link, m);
    else
        store_keys(link, m);
}
