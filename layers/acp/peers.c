/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VCQ ids of other processes. Each process knows its fingers: the processes 1, 2, 4, 8... ranks
 * ahead. Any other is found by asking the finger that is next to it for its own finger that is, and
 * so on: at most log2(processes) gets, once. What was found is kept; nothing is kept of processes
 * that are not used.
 */
#include "peers.h"
#include "control.h"
#include "ctx.h"
#include "log.h"
#include "net.h"
#include "task.h"

#include <stdlib.h>

#include "../common/ring.h"

enum { FIRST_SIZE = 16 };

/* A table that has grown is 3/8 full at least: 64 bytes a process. */
_Static_assert(sizeof(struct al_peer) * 8 / 3 <= 64, "memory for each process in use");

void al_peers_setup(void)
{
    al.peers.table = NULL;
    al.peers.size = al.peers.used = 0;
    al.peers.last_control = 0;
}

void al_peers_close(void)
{
    free(al.peers.table);
    al_peers_setup();
}

void al_peers_use(struct al_use *use)
{
    if (al.peers.size > FIRST_SIZE)
        use->peer_bytes = al.peers.size * sizeof(*al.peers.table);
    else
        use->fixed += al.peers.size * sizeof(*al.peers.table);
    use->peers = al.peers.used;
}

static struct al_peer *look_up(uint32_t rank)
{
    uint32_t i = rank * 2654435761u >> 7;

    while (al.peers.table[i & (al.peers.size - 1)].rank_plus_1 != 0 &&
           al.peers.table[i & (al.peers.size - 1)].rank_plus_1 != rank + 1)
        i++;
    return &al.peers.table[i & (al.peers.size - 1)];
}

static void grow_table(void)
{
    struct al_peer *old = al.peers.table;
    uint32_t old_size = al.peers.size;

    al.peers.size = al.peers.size == 0 ? FIRST_SIZE : 2 * al.peers.size;
    al.peers.table = calloc(al.peers.size, sizeof(*al.peers.table));
    if (al.peers.table == NULL)
        al_fatal("no memory for the addresses of %u processes", al.peers.size / 2);
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i].rank_plus_1 != 0)
            *look_up(old[i].rank_plus_1 - 1) = old[i];
    free(old);
}

static struct al_peer *keep_peer(uint32_t rank, utofu_vcq_id_t id)
{
    struct al_peer *peer;

    if (4 * (al.peers.used + 1) > 3 * al.peers.size)
        grow_table();
    peer = look_up(rank);
    if (peer->rank_plus_1 == 0) {
        al.peers.used++;
        *peer = (struct al_peer){.rank_plus_1 = rank + 1, .id = id};
    }
    return peer;
}

static void ask_finger(uint32_t whom, utofu_vcq_id_t id, uint32_t rank, struct al_task *task);

static void take_answer(struct al_op *op, int rc, uint64_t old_value)
{
    const uint64_t *id = al_op_bounce(op);
    uint32_t rank = (uint32_t)op->arg;
    uint32_t found =
        lc_rank_ahead(op->rank, al.job.procs, lc_finger_towards(op->rank, rank, al.job.procs));

    (void)old_value;
    op->task->in_flight--;
    if (rc != UTOFU_SUCCESS)
        al_fatal("rank %u does not say where rank %u is: %s", op->rank, rank, lc_utofu_error());
    if (!al_port_is_id(*id))
        al_fatal("rank %u says that rank %u has VCQ id 0x%016llx, which is none: does another "
                 "program of the job use this memory?",
                 op->rank, found, (unsigned long long)*id);
    if (found == rank) {
        keep_peer(rank, *id);
        al_task_step(op->task);
    } else {
        ask_finger(found, *id, rank, op->task);
    }
}

/* Asks one process for its finger that is next to rank. */
static void ask_finger(uint32_t whom, utofu_vcq_id_t id, uint32_t rank, struct al_task *task)
{
    struct al_op *op = al_op_take(0, task, whom, take_answer);
    struct al_peer peer = {.id = id};

    if (op == NULL) {
        al_task_later(task);
        return;
    }
    op->arg = rank;
    task->in_flight++;
    if (!al_op_get(op, id, al_op_bounce_stadd(op),
                   al_peer_control(&peer, offsetof(struct al_control, fingers) +
                                              8 * lc_finger_towards(whom, rank, al.job.procs)),
                   8)) {
        task->in_flight--;
        al_task_later(task);
    }
}

enum al_found al_peer_find(uint32_t rank, struct al_task *task, struct al_peer **peer)
{
    uint32_t finger;

    if (rank == al.job.rank) {
        *peer = keep_peer(rank, al_port(0)->id);
        return AL_FOUND;
    }
    if (al.peers.table != NULL && (*peer = look_up(rank))->rank_plus_1 != 0)
        return AL_FOUND;
    finger = lc_finger_towards(al.job.rank, rank, al.job.procs);
    if (lc_rank_ahead(al.job.rank, al.job.procs, finger) == rank) {
        *peer = keep_peer(rank, al.control->fingers[finger]);
        return AL_FOUND;
    }
    ask_finger(lc_rank_ahead(al.job.rank, al.job.procs, finger), al.control->fingers[finger], rank,
               task);
    return AL_LATER;
}

/* Usually of the same process as the last time. */
utofu_stadd_t al_peer_control(const struct al_peer *peer, size_t offset)
{
    if (peer->id != al.peers.last_id || al.peers.last_control == 0) {
        al.peers.last_id = peer->id;
        al.peers.last_control = 0;
        al_expect(utofu_query_stadd(peer->id, AL_STAG_CONTROL, &al.peers.last_control),
                  "utofu_query_stadd");
    }
    return al.peers.last_control + offset;
}
