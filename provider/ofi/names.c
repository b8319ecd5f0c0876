/* SPDX-License-Identifier: Apache-2.0 */
/* The names of peers' endpoints in an address vector: see names.h. */
#include "names.h"

#include <stdlib.h>
#include <string.h>

#include "util/log.h"

enum { IDLE_NAMES = 64 }; /* maximum number of names without a connection */

static uint64_t hash_name(const uint8_t name[FP_NAME_MAX])
{
    return ut_hash(UT_HASH_FIRST, name, FP_NAME_MAX);
}

static struct fp_name *find_name(struct fp_ep *ep, const uint8_t name[FP_NAME_MAX])
{
    struct fp_name *found;

    UT_HASH_FOREACH (found, &ep->names, hash_name(name), by_name) {
        if (memcmp(found->name, name, FP_NAME_MAX) == 0)
            break;
    }
    return found;
}

static struct fp_name *add_name(struct fp_ep *ep, const uint8_t name[FP_NAME_MAX])
{
    struct fp_name *added = ut_hash_reserve(&ep->names) ? calloc(1, sizeof(*added)) : NULL;

    if (!added) {
        ut_error(FP_CAT, "no memory for the address of an endpoint");
        return NULL;
    }
    memcpy(added->name, name, FP_NAME_MAX);
    if (fi_av_insert(ep->fids.av, name, 1, &added->at, 0, NULL) != 1) {
        ut_error(FP_CAT, "the fabric rejects the address of an endpoint");
        free(added);
        return NULL;
    }
    ut_hash_insert(&ep->names, &added->by_name, hash_name(name));
    return added;
}

struct fp_name *fp_name_get(struct fp_ep *ep, const uint8_t name[FP_NAME_MAX])
{
    struct fp_name *found = find_name(ep, name);

    if (!found) {
        found = add_name(ep, name);
    } else if (found->conns == 0) {
        TAILQ_REMOVE(&ep->idle_names, found, idle);
        ep->num_idle_names--;
    }
    if (found)
        found->conns++;
    return found;
}

void fp_name_put(struct fp_ep *ep, struct fp_name *name)
{
    if (--name->conns > 0)
        return;
    TAILQ_INSERT_TAIL(&ep->idle_names, name, idle);
    if (++ep->num_idle_names <= IDLE_NAMES)
        return;
    struct fp_name *oldest = TAILQ_FIRST(&ep->idle_names);
    TAILQ_REMOVE(&ep->idle_names, oldest, idle);
    ep->num_idle_names--;
    ut_hash_remove(&ep->names, &oldest->by_name);
    if (fi_av_remove(ep->fids.av, &oldest->at, 1, 0) != 0)
        ut_info(FP_CAT, "the fabric keeps the address of an endpoint");
    free(oldest);
}

void fp_names_free(struct fp_ep *ep)
{
    struct ut_hash_entry *entry;

    while ((entry = ut_hash_after(&ep->names, NULL))) {
        ut_hash_remove(&ep->names, entry);
        free(fp_container_of(entry, struct fp_name, by_name));
    }
    ut_hash_free(&ep->names);
}
