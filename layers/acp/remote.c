/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the registered memory of other processes is. The STADD of starter memory follows from the
 * VCQ id. For other regions, the tag of the GA is a row in the region table of the owner; a get
 * reads the row into a cache of fixed size. A stale row does no harm: uTofu rejects the STADD of
 * memory that is no longer registered, and the row is read again (al_remote_drop()).
 */
#include "remote.h"
#include "address.h"
#include "../common/hash.h"
#include "ctx.h"
#include "log.h"
#include "net.h"
#include "ranges.h"
#include "task.h"

#include <string.h>

void al_remote_setup(void)
{
    memset(al.remotes.rows, 0, sizeof(al.remotes.rows));
}

static struct al_row *row_of(uint32_t rank, uint32_t tag)
{
    return &al.remotes.rows[ut_hash_index((uint64_t)tag << 32 | rank, 32) & (AL_REMOTE_ROWS - 1)];
}

static bool is_in(const struct al_row *row, uint32_t rank, uint32_t tag)
{
    return row->rank_plus_1 == rank + 1 && row->tag == tag;
}

void al_remote_drop(acp_ga_t ga)
{
    struct al_place place;
    struct al_row *row;

    al_ranges_drop(ga);
    if (!al_address_unpack(ga, &place))
        return;
    row = row_of(place.rank, place.tag);
    if (is_in(row, place.rank, place.tag))
        row->rank_plus_1 = 0;
}

/* If the chunk of the table is not registered, the get fails: there is no region. */
static void store_row(struct lc_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->arg;
    uint32_t tag = (uint32_t)op->user_data;
    struct al_row *row = row_of(op->rank, tag);

    (void)old_value;
    task->in_flight--;
    row->rank_plus_1 = op->rank + 1;
    row->tag = tag;
    row->what = (struct al_published){0};
    if (rc == UTOFU_SUCCESS)
        memcpy(&row->what, lc_op_bounce(op), sizeof(row->what));
    al_task_step(task);
}

static void read_row(const struct al_place *place, const struct al_peer *peer, struct al_task *task)
{
    struct lc_op *op = lc_op_alloc(al_port(0), 0, place->rank, store_row, task);
    utofu_stadd_t chunk = 0;

    if (op == NULL) {
        al_task_retry_later(task);
        return;
    }
    op->user_data = place->tag;
    al_check_rc(utofu_query_stadd(peer->id, AL_STAG_REGIONS + place->tag / AL_CHUNK, &chunk),
                "utofu_query_stadd");
    task->in_flight++;
    if (!lc_op_get(op, peer->id, lc_op_bounce_stadd(op),
                   chunk + place->tag % AL_CHUNK * sizeof(struct al_published),
                   sizeof(struct al_published))) {
        task->in_flight--;
        al_task_retry_later(task);
    }
}

/* Drops the row, so that the next task reads it again: the region may exist then. */
static enum al_found fail_no_region(struct al_row *row, acp_ga_t ga, struct al_task *task)
{
    row->rank_plus_1 = 0;
    al_task_fail(task, "GA 0x%llx: rank %d has no such region registered", (unsigned long long)ga,
                 (int)al_rank_of(ga));
    return AL_NEVER;
}

/* Only commands get here, because direct.c checks the GAs of this process. Another region may
 * follow the starter memory. */
static enum al_found fail_no_starter(acp_ga_t ga, struct al_task *task)
{
    al_task_fail(task, "GA 0x%llx is not inside the starter memory of rank %u",
                 (unsigned long long)ga, al_rank_of(ga));
    return AL_NEVER;
}

/* The control memory held an invalid VCQ id; peers can write there. */
static enum al_found fail_bad_peer(const struct al_place *place, struct al_task *task)
{
    al_task_fail(task, "rank %u: its VCQ id in this process is damaged: %s", place->rank,
                 lc_utofu_error());
    return AL_NEVER;
}

static enum al_found find_registered(acp_ga_t ga, const struct al_place *place,
                                     const struct al_peer *peer, struct al_task *task,
                                     struct al_target *target)
{
    struct al_row *row = row_of(place->rank, place->tag);

    if (!is_in(row, place->rank, place->tag)) {
        read_row(place, peer, task);
        return AL_LATER;
    }
    if (row->what.stadd == AL_STADD_CHANGES) {
        row->rank_plus_1 = 0;
        al_task_retry_later(task);
        return AL_LATER;
    }
    bool is_behind = place->offset > row->what.size;
    if (row->what.stadd != 0 && is_behind && !task->retried) { /* the region may have grown */
        task->retried = true;
        row->rank_plus_1 = 0;
        read_row(place, peer, task);
        return AL_LATER;
    }
    if (row->what.stadd == 0 || row->what.color != place->color || is_behind)
        return fail_no_region(row, ga, task);
    target->stadd = row->what.stadd + place->offset;
    target->extent = (struct al_extent){.before = place->offset, .size = row->what.size};
    return AL_FOUND;
}

enum al_found al_remote_find(acp_ga_t ga, struct al_task *task, struct al_target *target)
{
    struct al_place place;
    struct al_peer *peer;
    enum al_found found;

    al_address_unpack(ga, &place);
    found = al_peer_find(place.rank, task, &peer);
    if (found != AL_FOUND)
        return found;
    target->rank = place.rank;
    if (!al_port_id_of(peer->id, place.color, &target->id))
        return fail_bad_peer(&place, task);
    if (place.tag >= AL_STAG_STARTER + AL_STARTERS)
        return find_registered(ga, &place, peer, task, target);
    if (place.color != 0 || place.offset > al.starter_size[place.tag - AL_STAG_STARTER])
        return fail_no_starter(ga, task);
    if (utofu_query_stadd(peer->id, place.tag, &target->stadd) != UTOFU_SUCCESS)
        return fail_bad_peer(&place, task);
    target->stadd += place.offset;
    target->extent = (struct al_extent){.before = place.offset,
                                        .size = al.starter_size[place.tag - AL_STAG_STARTER]};
    return AL_FOUND;
}

bool al_remote_may_retry(struct al_task *task, int rc, acp_ga_t ga)
{
    if (task->retried || (rc != UTOFU_ERR_MRQ_RMT_STADD && rc != UTOFU_ERR_MRQ_RMT_LENGTH &&
                          rc != UTOFU_ERR_MRQ_PEER))
        return false;
    task->retried = true;
    al_remote_drop(ga);
    return true;
}

/* If a peer has registered the region again, its STADD has changed, and may become stale again. So
 * the row may be read once more. */
void al_remote_set_region(struct al_task *task, utofu_stadd_t region)
{
    uint32_t used = (uint32_t)(region ^ region >> 32);

    if (used != task->used)
        task->retried = false;
    task->used = used;
}
