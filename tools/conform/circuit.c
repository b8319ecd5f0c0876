/* SPDX-License-Identifier: Apache-2.0 */
/* Circuits are wired for all processes in each process, so that both ends of a packet follow from
 * one line. */
#include "circuit.h"

#include <string.h>

#include "owned.h"

static void wire_packet(struct cf_circuit *circuit, int from, int from_gate, int to, int to_gate)
{
    circuit->wires[from][from_gate].to_packet.rank = to;
    circuit->wires[from][from_gate].to_packet.gate = to_gate;
    circuit->wires[to][to_gate].from_packet.rank = from;
    circuit->wires[to][to_gate].from_packet.gate = from_gate;
}

static void wire_signal(struct cf_circuit *circuit, int rank, int from_gate, int to_gate)
{
    circuit->wires[rank][from_gate].to_signal = to_gate;
    circuit->wires[rank][to_gate].from_signal = from_gate;
}

static int add_gate(struct cf_circuit *circuit, int rank)
{
    struct cf_wires *wires = &circuit->wires[rank][circuit->count[rank]];

    wires->from_signal = wires->to_signal = -1;
    wires->from_packet.rank = wires->to_packet.rank = -1;
    wires->from_packet.gate = wires->to_packet.gate = -1;
    return circuit->count[rank]++;
}

/* Gates: start, one relay for the packet of the extra process if there is one, one relay for each
 * round */
static void wire_butterfly(struct cf_circuit *circuit)
{
    int power = 1, last[CF_RANKS];

    while (2 * power <= circuit->size)
        power *= 2;
    for (int rank = 0; rank < power; rank++) {
        last[rank] = 0;
        if (rank + power >= circuit->size)
            continue;
        last[rank] = add_gate(circuit, rank);
        wire_signal(circuit, rank, 0, last[rank]);
        wire_packet(circuit, rank + power, 0, rank, last[rank]);
    }
    for (int distance = 1; distance < power; distance *= 2) {
        int next[CF_RANKS];
        for (int rank = 0; rank < power; rank++) {
            next[rank] = add_gate(circuit, rank);
            wire_signal(circuit, rank, last[rank], next[rank]);
        }
        for (int rank = 0; rank < power; rank++)
            wire_packet(circuit, rank, last[rank], rank ^ distance, next[rank ^ distance]);
        for (int rank = 0; rank < power; rank++)
            last[rank] = next[rank];
    }
    for (int rank = 0; rank < power; rank++) {
        if (last[rank])
            wire_signal(circuit, rank, last[rank], 0);
        if (rank + power < circuit->size)
            wire_packet(circuit, rank, last[rank], rank + power, 0);
    }
}

/* The manual's example of 8 processes (5.2.1): the start gate receives the packet of the last round
 */
static void wire_example(struct cf_circuit *circuit)
{
    int rounds = 0;

    while (1 << rounds < circuit->size)
        rounds++;
    for (int rank = 0; rank < circuit->size; rank++) {
        while (circuit->count[rank] < rounds)
            add_gate(circuit, rank);
    }
    for (int rank = 0; rank < circuit->size; rank++) {
        for (int round = 0; round < rounds; round++) {
            int next = (round + 1) % rounds;
            wire_signal(circuit, rank, round, next);
            wire_packet(circuit, rank, round, rank ^ 1 << round, next);
        }
    }
}

/* One relay for the packet of each child, and behind the root's last relay one gate for the packet
 * to each child */
static void wire_tree(struct cf_circuit *circuit, int children)
{
    int size = circuit->size, up[CF_RANKS] = {0},
        sender[CF_RANKS]; /* the gate of the parent that sends to this process */

    for (int rank = size - 1; rank >= 0; rank--) {
        up[rank] = 0;
        for (int child = children * rank + 1; child <= children * rank + children && child < size;
             child++) {
            int gate = add_gate(circuit, rank);
            wire_signal(circuit, rank, up[rank], gate);
            wire_packet(circuit, child, up[child], rank, gate);
            up[rank] = gate;
        }
    }
    for (int rank = 0; rank < size; rank++) {
        int first = children * rank + 1, gate = up[0];
        if (rank > 0) { /* the start gate of a leaf receives the result, another process's first
                           gate downwards */
            gate = first < size ? add_gate(circuit, rank) : 0;
            wire_packet(circuit, (rank - 1) / children, sender[rank], rank, gate);
        }
        for (int child = first; child < first + children && child < size; child++) {
            if (child > first) {
                int next = add_gate(circuit, rank);
                wire_signal(circuit, rank, gate, next);
                gate = next;
            }
            sender[child] = gate;
        }
        if (gate != 0)
            wire_signal(circuit, rank, gate, 0);
    }
}

/* The value of rank 0 goes around and collects those of the others; then the result goes around */
static void wire_ring(struct cf_circuit *circuit)
{
    int size = circuit->size;

    for (int rank = 0; rank < size; rank++) {
        add_gate(circuit, rank);
        if (rank > 0)
            add_gate(circuit, rank);
    }
    wire_signal(circuit, 0, 1, 0);
    wire_packet(circuit, 0, 0, 1, 1);
    for (int rank = 1; rank < size; rank++) {
        wire_signal(circuit, rank, 0, 1);
        wire_signal(circuit, rank, 2, 0);
    }
    for (int rank = 1; rank < size; rank++) {
        wire_packet(circuit, rank, 1, (rank + 1) % size, 1);
        wire_packet(circuit, rank - 1, rank == 1 ? 1 : 2, rank, 2);
    }
}

void cf_circuit_wire(struct cf_circuit *circuit, enum cf_shape shape, int size)
{
    memset(circuit, 0, sizeof(*circuit));
    circuit->size = size;
    for (int rank = 0; rank < size; rank++)
        add_gate(circuit, rank);
    switch (shape) {
    case CF_BUTTERFLY:
        wire_butterfly(circuit);
        break;
    case CF_EXAMPLE:
        wire_example(circuit);
        break;
    case CF_TREE:
        wire_tree(circuit, 2);
        break;
    case CF_WIDE_TREE:
        wire_tree(circuit, 3);
        break;
    default:
        wire_ring(circuit);
    }
}

int cf_circuit_allocate(struct cf *c, struct cf_circuit *circuit, size_t tni_place,
                        unsigned long flags)
{
    struct {
        int rc;
        utofu_vbg_id_t ids[CF_GATES];
    } mine, all[CF_RANKS];
    int rank = cf_rank(c), full = 0, good = 1;

    memset(&mine, 0, sizeof(mine));
    if (!cf_barrier_tni(c, (size_t)rank + tni_place, &circuit->tni))
        return 0;
    if (rank < circuit->size)
        mine.rc = cf_alloc_vbg(circuit->tni, (size_t)circuit->count[rank], flags, mine.ids);
    if (mine.rc != UTOFU_SUCCESS && mine.rc != UTOFU_ERR_FULL)
        cf_fail(c, "utofu_alloc_vbg(TNI %d, %d gates, flags %lu) returns %s", (int)circuit->tni,
                circuit->count[rank], flags, cf_code(mine.rc));
    if (!cf_share(c, &mine, sizeof(mine), all))
        return 0;
    for (int r = 0; r < circuit->size; r++) {
        memcpy(circuit->ids[r], all[r].ids, sizeof(all[r].ids));
        full |= all[r].rc == UTOFU_ERR_FULL;
        good &= all[r].rc == UTOFU_SUCCESS;
    }
    circuit->id = mine.ids[0];
    if (full)
        cf_skip(c, "a TNI has no %d gates free", circuit->count[0]);
    return good;
}

static utofu_vbg_id_t packet_id(const struct cf_circuit *circuit, struct cf_gate end)
{
    return end.gate < 0 ? UTOFU_VBG_ID_NULL : circuit->ids[end.rank][end.gate];
}

int cf_circuit_settings(struct cf *c, const struct cf_circuit *circuit,
                        struct utofu_vbg_setting settings[CF_GATES])
{
    int rank = cf_rank(c);
    const utofu_vbg_id_t *mine = circuit->ids[rank];

    memset(settings, 0, CF_GATES * sizeof(*settings));
    for (int gate = 0; gate < circuit->count[rank]; gate++) {
        const struct cf_wires *wires = &circuit->wires[rank][gate];
        settings[gate].vbg_id = mine[gate];
        settings[gate].src_lcl_vbg_id =
            wires->from_signal < 0 ? UTOFU_VBG_ID_NULL : mine[wires->from_signal];
        settings[gate].dst_lcl_vbg_id =
            wires->to_signal < 0 ? UTOFU_VBG_ID_NULL : mine[wires->to_signal];
        settings[gate].src_rmt_vbg_id = packet_id(circuit, wires->from_packet);
        settings[gate].dst_rmt_vbg_id = packet_id(circuit, wires->to_packet);
        settings[gate].dst_path_coords[0] = UTOFU_PATH_COORD_NULL;
    }
    return circuit->count[rank];
}

int cf_circuit_open(struct cf *c, struct cf_circuit *circuit, enum cf_shape shape, size_t tni_place,
                    unsigned long flags)
{
    struct utofu_vbg_setting settings[CF_GATES];
    int count, rc;

    cf_circuit_wire(circuit, shape, cf_size(c));
    if (!cf_circuit_allocate(c, circuit, tni_place, flags))
        return 0;
    count = cf_circuit_settings(c, circuit, settings);
    rc = utofu_set_vbg(settings, (size_t)count);
    if (rc != UTOFU_SUCCESS) {
        cf_fail(c, "utofu_set_vbg(%d settings) returns %s", count, cf_code(rc));
        return 0;
    }
    return cf_meet(c);
}

/* Gives the processor away now and then; 0 after 10 seconds */
static int wait_more(double until, unsigned polls)
{
    if (polls % 64 != 0)
        return 1;
    if (cf_now() > until)
        return 0;
    cf_rest(0);
    return 1;
}

int cf_circuit_poll_barrier(utofu_vbg_id_t id)
{
    double until = cf_now() + 10;
    unsigned polls = 0;
    int rc;

    while ((rc = utofu_poll_barrier(id, 0)) == UTOFU_ERR_NOT_COMPLETED && wait_more(until, ++polls))
        continue;
    return rc;
}

int cf_circuit_poll_uint64(utofu_vbg_id_t id, uint64_t data[])
{
    double until = cf_now() + 10;
    unsigned polls = 0;
    int rc;

    while ((rc = utofu_poll_reduce_uint64(id, 0, data)) == UTOFU_ERR_NOT_COMPLETED &&
           wait_more(until, ++polls))
        continue;
    return rc;
}

int cf_circuit_poll_double(utofu_vbg_id_t id, double data[])
{
    double until = cf_now() + 10;
    unsigned polls = 0;
    int rc;

    while ((rc = utofu_poll_reduce_double(id, 0, data)) == UTOFU_ERR_NOT_COMPLETED &&
           wait_more(until, ++polls))
        continue;
    return rc;
}

int cf_circuit_barrier(utofu_vbg_id_t id)
{
    int rc = utofu_barrier(id, 0);

    return rc == UTOFU_SUCCESS ? cf_circuit_poll_barrier(id) : rc;
}

int cf_circuit_uint64(utofu_vbg_id_t id, enum utofu_reduce_op op, uint64_t data[], size_t count)
{
    int rc = utofu_reduce_uint64(id, op, data, count, 0);

    return rc == UTOFU_SUCCESS ? cf_circuit_poll_uint64(id, data) : rc;
}

int cf_circuit_double(utofu_vbg_id_t id, enum utofu_reduce_op op, double data[], size_t count)
{
    int rc = utofu_reduce_double(id, op, data, count, 0);

    return rc == UTOFU_SUCCESS ? cf_circuit_poll_double(id, data) : rc;
}
