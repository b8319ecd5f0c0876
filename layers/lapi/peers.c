/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks that this task communicates with. Each process knows its partners: the processes 1, 2,
 * 4, 8... ranks ahead. To find another process, it reads the partner of a partner that is nearest
 * to that process, and so on: at most log2(tasks) gets, once. Unused tasks take no memory.
 */
#include "peers.h"
#include "control.h"
#include "net.h"
#include "watch.h"

#include <utofu_ext.h>

#include <stdlib.h>

void la_peers_setup(void)
{
    la.peers.private_lane_limit = lc_env_number("LAPI_LANES", LA_PRIVATE_LANES);
    if (la.peers.private_lane_limit > LA_PRIVATE_LANES)
        la.peers.private_lane_limit = LA_PRIVATE_LANES;
}

void la_peers_close(void)
{
    lc_table_close(&la.peers.table);
}

struct la_peer *la_peer_find(uint32_t rank)
{
    return lc_table_find(&la.peers.table, rank);
}

struct la_peer *la_peer_iterate(uint32_t *cursor)
{
    return lc_table_next(&la.peers.table, cursor);
}

/* The partner of `from` that is nearest to `to`, but not beyond it, and that is not gone. */
static uint32_t partner_towards(uint32_t from, uint32_t to)
{
    uint32_t nearest = lc_partner_towards(from, to, la.job.procs), partner = nearest;

    while (partner > 0 && la_watch_is_gone(lc_rank_ahead(from, la.job.procs, partner)))
        partner--;
    return la_watch_is_gone(lc_rank_ahead(from, la.job.procs, partner)) ? nearest : partner;
}

/* Finds the VCQ id of the task from partner to partner. False: a get has failed with *rc, a code of
 * uTofu. */
static bool follow_partners(uint32_t rank, utofu_vcq_id_t *id, int *rc)
{
    uint32_t at = la.job.rank;

    *id = la_port()->id;
    while (at != rank) {
        uint32_t partner = partner_towards(at, rank);

        *rc = UTOFU_SUCCESS;
        if (at == la.job.rank)
            *id = la.control.words->common.partners[partner];
        else
            *rc = la_get_sync(at, *id, id, la_control_stadd(*id, 8ull * partner), 8,
                              "the way to another task");
        if (*rc != UTOFU_SUCCESS)
            return false;
        at = lc_rank_ahead(at, la.job.procs, partner);
    }
    return true;
}

/* If a task on the route has ended, another route is tried. */
int la_peer_query_id(uint32_t rank, utofu_vcq_id_t *id)
{
    int rc = UTOFU_SUCCESS, gone_before;

    do {
        gone_before = la.watch.num_gone;
        if (follow_partners(rank, id, &rc))
            return UTOFU_SUCCESS;
    } while (la.watch.num_gone > gone_before);
    return rc;
}

/* Requests a lane at the target: the first origins each get a private lane, the others the shared
 * lane. */
static int claim_lane(struct la_peer *peer)
{
    uint64_t lane;
    int rc = la_fetch_add_sync(
        peer->rank, peer->id,
        la_control_stadd(peer->id, offsetof(struct la_control_words, lanes_requested)), &lane,
        "a lane for messages to it");

    peer->lane = (uint16_t)(lane < la.peers.private_lane_limit ? lane : LA_PRIVATE_LANES);
    if (peer->lane < LA_PRIVATE_LANES)
        peer->lane_stadd = la_slot_stadd(peer->id, peer->lane * LA_LANE_SLOTS);
    return rc;
}

static bool is_on_same_node(uint32_t rank)
{
    uint32_t mine, its;
    uint8_t coords[6];

    return utofu_query_rank_node(la.job.rank, &mine, coords) == UTOFU_SUCCESS &&
           utofu_query_rank_node(rank, &its, coords) == UTOFU_SUCCESS && mine == its;
}

struct la_peer *la_peer_connect(uint32_t rank, int *rc)
{
    struct la_peer *peer = la_peer_find(rank);

    if (peer != NULL)
        return peer;
    *rc = LAPI_ERR_TGT_PURGED;
    if (la_watch_is_gone(rank))
        return NULL;
    *rc = LAPI_ERR_MEMORY_EXHAUSTED;
    if (!lc_table_reserve(&la.peers.table))
        return NULL;
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL)
        return NULL;
    peer->rank = rank;
    STAILQ_INIT(&peer->handler_queue);
    STAILQ_INIT(&peer->program_queue);
    *rc = LAPI_ERR_TIMEOUT;
    if (la_peer_query_id(rank, &peer->id) != UTOFU_SUCCESS || claim_lane(peer) != UTOFU_SUCCESS) {
        la_log("cannot reach task %u: %s", rank, lc_utofu_error());
        free(peer);
        return NULL;
    }
    peer->same_node = rank != la.job.rank && is_on_same_node(rank);
    lc_table_insert(&la.peers.table, peer);
    return peer;
}
