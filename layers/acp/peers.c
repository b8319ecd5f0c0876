/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VCQ ids of other processes. Each process knows its partners: the processes 1, 2, 4, 8...
 * ranks ahead. To find another process, it reads the partner of a partner that is nearest to that
 * process, and so on: at most log2(processes) gets, once. Known ids are cached; unused processes
 * take no memory.
 */
#include "peers.h"
#include "control.h"
#include "ctx.h"
#include "log.h"
#include "net.h"
#include "task.h"

#include <stdlib.h>

#include "../common/ring.h"

enum { HEADER = 8 /* header of malloc() for a block */ };

/* After it has grown, the table is at least 3/8 full: 64 bytes for each process. */
_Static_assert(sizeof(struct al_peer) + HEADER + sizeof(void *) * 8 / 3 <= 64,
               "memory for each process in use");

void al_peers_close(void)
{
    lc_table_close(&al.peers);
}

void al_peers_count_usage(struct al_usage *usage)
{
    size_t bytes =
        al.peers.size * sizeof(void *) + al.peers.used * (sizeof(struct al_peer) + HEADER);

    if (al.peers.size > LC_TABLE_MIN_SIZE)
        usage->peer_bytes = bytes;
    else
        usage->fixed += bytes;
    usage->peers = al.peers.used;
}

static struct al_peer *add_peer(uint32_t rank, utofu_vcq_id_t id)
{
    struct al_peer *peer = lc_table_find(&al.peers, rank);

    if (peer != NULL)
        return peer;
    peer = lc_table_reserve(&al.peers) ? malloc(sizeof(*peer)) : NULL;
    if (peer == NULL)
        al_fatal("no memory for the addresses of %u processes", al.peers.used + 1);
    *peer = (struct al_peer){.rank = rank, .id = id};
    lc_table_insert(&al.peers, peer);
    return peer;
}

static void query_partner(uint32_t whom, utofu_vcq_id_t id, uint32_t rank, struct al_task *task);

static void handle_partner(struct lc_op *op, int rc, uint64_t old_value)
{
    const uint64_t *id = lc_op_bounce(op);
    struct al_task *task = op->arg;
    uint32_t rank = (uint32_t)op->user_data;
    uint32_t found =
        lc_rank_ahead(op->rank, al.job.procs, lc_partner_towards(op->rank, rank, al.job.procs));

    (void)old_value;
    task->in_flight--;
    if (rc != UTOFU_SUCCESS)
        al_fatal("cannot read from rank %u the VCQ id of rank %u: %s", op->rank, rank,
                 lc_utofu_error());
    if (!al_port_is_valid_id(*id))
        al_fatal("rank %u has sent 0x%016llx as the VCQ id of rank %u, which is not a VCQ id: does "
                 "another program of the job use this memory?",
                 op->rank, (unsigned long long)*id, found);
    if (found == rank) {
        add_peer(rank, *id);
        al_task_step(task);
    } else {
        query_partner(found, *id, rank, task);
    }
}

/* Reads from a process the VCQ id of its partner that is nearest to `rank`. */
static void query_partner(uint32_t whom, utofu_vcq_id_t id, uint32_t rank, struct al_task *task)
{
    struct lc_op *op = lc_op_alloc(al_port(0), 0, whom, handle_partner, task);

    if (op == NULL) {
        al_task_retry_later(task);
        return;
    }
    op->user_data = rank;
    task->in_flight++;
    if (!lc_op_get(op, id, lc_op_bounce_stadd(op),
                   al_control_stadd(id, offsetof(struct lc_common_words, partners) +
                                            8 * lc_partner_towards(whom, rank, al.job.procs)),
                   8)) {
        task->in_flight--;
        al_task_retry_later(task);
    }
}

enum al_found al_peer_find(uint32_t rank, struct al_task *task, struct al_peer **peer)
{
    uint32_t partner;

    if (rank == al.job.rank) {
        *peer = add_peer(rank, al_port(0)->id);
        return AL_FOUND;
    }
    *peer = lc_table_find(&al.peers, rank);
    if (*peer != NULL)
        return AL_FOUND;
    partner = lc_partner_towards(al.job.rank, rank, al.job.procs);
    if (lc_rank_ahead(al.job.rank, al.job.procs, partner) == rank) {
        *peer = add_peer(rank, al.control->common.partners[partner]);
        return AL_FOUND;
    }
    query_partner(lc_rank_ahead(al.job.rank, al.job.procs, partner),
                  al.control->common.partners[partner], rank, task);
    return AL_LATER;
}
