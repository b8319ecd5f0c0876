/* SPDX-License-Identifier: Apache-2.0 */
/* Hash table of passive connections by their origin: see origins.h. */
#include "origins.h"

#include <stdlib.h>

#include "util/assert.h"
#include "util/hash.h"

enum { FIRST_BUCKETS = 16 };

static struct vp_conn **bucket_of(struct vp_conn **buckets, uint32_t num, uint64_t origin_id)
{
    return &buckets[(uint32_t)ut_hash_index(origin_id, 32) & (num - 1)];
}

static void push_to_bucket(struct vp_conn **bucket, struct vp_conn *conn)
{
    conn->origin_next = *bucket;
    *bucket = conn;
}

/* Adds buckets. Without memory the chains get longer. */
static void grow_buckets(struct vp_ep *ep)
{
    uint32_t num = ep->origin_buckets ? ep->origin_buckets * 4 : FIRST_BUCKETS;
    struct vp_conn **buckets = calloc(num, sizeof(*buckets));

    if (!buckets)
        return;
    for (uint32_t i = 0; i < ep->origin_buckets; i++) {
        struct vp_conn *next;
        for (struct vp_conn *conn = ep->origins[i]; conn; conn = next) {
            next = conn->origin_next;
            push_to_bucket(bucket_of(buckets, num, conn->req.origin_id), conn);
        }
    }
    free(ep->origins);
    ep->origins = buckets;
    ep->origin_buckets = num;
}

bool vp_origins_add_locked(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;

    UT_ASSERT_LOCKED(&ep->prov->lock);
    UT_ASSERT(!conn->active && !conn->hs.in_origins);
    if (ep->num_origins >= ep->origin_buckets)
        grow_buckets(ep);
    if (!ep->origins)
        return false;
    push_to_bucket(bucket_of(ep->origins, ep->origin_buckets, conn->req.origin_id), conn);
    conn->hs.in_origins = true;
    ep->num_origins++;
    return true;
}

void vp_origins_remove_locked(struct vp_conn *conn)
{
    struct vp_ep *ep = conn->ep;

    UT_ASSERT_LOCKED(&ep->prov->lock);
    if (!conn->hs.in_origins)
        return;
    struct vp_conn **at = bucket_of(ep->origins, ep->origin_buckets, conn->req.origin_id);
    while (*at != conn)
        at = &(*at)->origin_next;
    *at = conn->origin_next;
    conn->hs.in_origins = false;
    ep->num_origins--;
}

struct vp_conn *vp_origins_first_locked(const struct vp_ep *ep, uint64_t origin_id)
{
    UT_ASSERT_LOCKED(&ep->prov->lock);
    return ep->origins ? *bucket_of(ep->origins, ep->origin_buckets, origin_id) : NULL;
}
