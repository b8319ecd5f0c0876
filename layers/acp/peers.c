/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VCQ ids of other processes. Each process knows its fingers: the processes 1, 2, 4, 8... ranks
 * ahead. Any other is found by asking the finger that is next to it for its own finger that is, and
 * so on: at most log2(processes) gets, once. What was found is kept; nothing is kept of processes
 * that are not used.
 */
#include "layer.h"

#include <stdlib.h>

enum { FIRST_SIZE = 16 };

/* Open addressing; 3/4 full at most, and so 3/8 at least when it has grown: 64 bytes a process. */
static struct al_peer *table;
static uint32_t size, used;
static utofu_vcq_id_t last_id;     /* whose control memory is at last_control */
static utofu_stadd_t last_control; /* 0: none */
_Static_assert(sizeof(struct al_peer) * 8 / 3 <= 64, "memory for each process in use");

void al_peers_setup(void)
{
    table = NULL;
    size = used = 0;
    last_control = 0;
}

void al_peers_close(void)
{
    free(table);
    al_peers_setup();
}

void al_peers_use(struct al_use *use)
{
    if (size > FIRST_SIZE)
        use->peer_bytes = size * sizeof(*table);
    else
        use->fixed += size * sizeof(*table);
    use->peers = used;
}

static struct al_peer *look_up(uint32_t rank)
{
    uint32_t i = rank * 2654435761u >> 7;

    while (table[i & (size - 1)].rank_plus_1 != 0 && table[i & (size - 1)].rank_plus_1 != rank + 1)
        i++;
    return &table[i & (size - 1)];
}

static void grow(void)
{
    struct al_peer *old = table;
    uint32_t old_size = size;

    size = size == 0 ? FIRST_SIZE : 2 * size;
    table = calloc(size, sizeof(*table));
    if (table == NULL)
        al_fatal("no memory for the addresses of %u processes", size / 2);
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i].rank_plus_1 != 0)
            *look_up(old[i].rank_plus_1 - 1) = old[i];
    free(old);
}

static struct al_peer *keep(uint32_t rank, utofu_vcq_id_t id)
{
    struct al_peer *peer;

    if (4 * (used + 1) > 3 * size)
        grow();
    peer = look_up(rank);
    if (peer->rank_plus_1 == 0) {
        used++;
        *peer = (struct al_peer){.rank_plus_1 = rank + 1, .id = id};
    }
    return peer;
}

/* The finger of `from` that is nearest to `to`, but not beyond. */
static uint32_t finger_towards(uint32_t from, uint32_t to)
{
    uint32_t distance = (to - from + al.procs) % al.procs;

    return 31 - (uint32_t)__builtin_clz(distance);
}

static uint32_t finger_rank(uint32_t rank, uint32_t finger)
{
    return (uint32_t)(((uint64_t)rank + (1u << finger)) % al.procs);
}

static bool ask(uint32_t whom, utofu_vcq_id_t id, uint32_t rank, struct al_task *task);

static void answered(struct al_op *op, int rc, uint64_t old_value)
{
    const uint64_t *id = al_op_bounce(op);
    uint32_t rank = (uint32_t)op->arg;
    uint32_t found = finger_rank(op->rank, finger_towards(op->rank, rank));

    (void)old_value;
    op->task->in_flight--;
    if (rc != UTOFU_SUCCESS)
        al_fatal("rank %u does not say where rank %u is: %s", op->rank, rank, al_utofu_error());
    if (!al_port_is_id(*id))
        al_fatal("rank %u says that rank %u has VCQ id 0x%016llx, which is none: does another "
                 "program of the job use this memory?",
                 op->rank, found, (unsigned long long)*id);
    if (found == rank)
        keep(rank, *id);
    else if (ask(found, *id, rank, op->task))
        return;
    al_task_step(op->task);
}

/* Asks one process for its finger that is next to rank. */
static bool ask(uint32_t whom, utofu_vcq_id_t id, uint32_t rank, struct al_task *task)
{
    struct al_op *op = al_op_take(0, task, whom, answered);
    struct al_peer peer = {.id = id};

    if (op == NULL) {
        al_task_later(task);
        return true;
    }
    op->arg = rank;
    task->in_flight++;
    if (!al_op_get(op, id, al_op_bounce_stadd(op),
                   al_peer_control(&peer, offsetof(struct al_control, fingers) +
                                              8 * finger_towards(whom, rank)),
                   8)) {
        task->in_flight--;
        al_task_later(task);
    }
    return true;
}

enum al_found al_peer_find(uint32_t rank, struct al_task *task, struct al_peer **peer)
{
    uint32_t finger;

    if (rank == al.rank) {
        *peer = keep(rank, al_port(0)->id);
        return AL_FOUND;
    }
    if (table != NULL && (*peer = look_up(rank))->rank_plus_1 != 0)
        return AL_FOUND;
    finger = finger_towards(al.rank, rank);
    if (finger_rank(al.rank, finger) == rank) {
        *peer = keep(rank, al_control->fingers[finger]);
        return AL_FOUND;
    }
    ask(finger_rank(al.rank, finger), al_control->fingers[finger], rank, task);
    return AL_LATER;
}

/* Usually of the same process as the last time. */
utofu_stadd_t al_peer_control(const struct al_peer *peer, size_t offset)
{
    if (peer->id != last_id || last_control == 0) {
        last_id = peer->id;
        last_control = 0;
        al_expect(utofu_query_stadd(peer->id, AL_STAG_CONTROL, &last_control), "utofu_query_stadd");
    }
    return last_control + offset;
}
