/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing circuits. At first the outputs of the start gates are open. A relay gate takes open
 * outputs as its inputs, and its own outputs become open. At last the end gates take some of the
 * open outputs, and the rest have no receiver. So there is an order in which all gates fire: the
 * circuit is legal.
 */
#include "random_circuit.h"

#include <string.h>

static const struct gate_name none = {-1, 0};

struct open_outputs {
    struct gate_name name[MAX_PARTS * MAX_PART_GATES];
    int count;
};

static struct random_gate *gate_at(struct random_circuit *c, struct gate_name name)
{
    return &c->part[name.part].gate[name.number];
}

static struct gate_name take(struct open_outputs *open, int i)
{
    struct gate_name name = open->name[i];

    open->name[i] = open->name[--open->count];
    return name;
}

/* Signals stay within process and TNI. */
static struct gate_name take_signal(struct random_circuit *c, struct open_outputs *open, int part,
                                    struct ut_rng *rng)
{
    int fits[MAX_PARTS * MAX_PART_GATES], count = 0;

    for (int i = 0; i < open->count; i++) {
        const struct random_part *p = &c->part[open->name[i].part];
        if (p->rank == c->part[part].rank && p->tni == c->part[part].tni)
            fits[count++] = i;
    }
    return count ? take(open, fits[ut_rng_below(rng, (uint64_t)count)]) : none;
}

static struct gate_name take_packet(struct open_outputs *open, struct ut_rng *rng)
{
    return open->count ? take(open, (int)ut_rng_below(rng, (uint64_t)open->count)) : none;
}

static void add_times(uint64_t *into, const uint64_t *more)
{
    for (int i = 0; i < MAX_PARTS; i++)
        into[i] += more[i];
}

/* Wires the inputs of a gate; false: there is no open output for it. */
static bool wire_inputs(struct random_circuit *c, struct gate_name name,
                        struct open_outputs *signals, struct open_outputs *packets, uint64_t *times,
                        struct ut_rng *rng)
{
    struct random_gate *g = gate_at(c, name);

    memset(times, 0, MAX_PARTS * sizeof(*times));
    if (ut_rng_below(rng, 5) > 0)
        g->src_lcl = take_signal(c, signals, name.part, rng);
    if (ut_rng_below(rng, 5) > 0)
        g->src_rmt = take_packet(packets, rng);
    if (g->src_lcl.part >= 0) {
        gate_at(c, g->src_lcl)->dst_lcl = name;
        add_times(times, gate_at(c, g->src_lcl)->times);
    }
    if (g->src_rmt.part >= 0) {
        gate_at(c, g->src_rmt)->dst_rmt = name;
        add_times(times, gate_at(c, g->src_rmt)->times);
    }
    return g->src_lcl.part >= 0 || g->src_rmt.part >= 0;
}

static void place_parts(struct random_circuit *c, int processes, struct ut_rng *rng)
{
    int tnis = 1 + (int)ut_rng_below(rng, 6); /* few, so that parts share them, or many */

    for (int rank = 0; rank < processes; rank++) {
        int parts = 1 + (int)ut_rng_below(rng, 3);
        int room = MAX_PARTS - (processes - rank - 1); /* one for each later one */
        for (int i = 0; i < parts && c->num_parts < room; i++) {
            struct random_part *p = &c->part[c->num_parts++];
            p->rank = rank;
            p->tni = (utofu_tni_id_t)ut_rng_below(rng, (uint64_t)tnis);
        }
    }
    for (int part = 0; part < c->num_parts; part++) {
        for (int i = 0; i < MAX_PART_GATES; i++) {
            struct random_gate *g = &c->part[part].gate[i];
            g->src_lcl = g->src_rmt = g->dst_lcl = g->dst_rmt = none;
        }
        c->part[part].gate[0].times[part] = 1;
    }
}

static void open_gate(struct gate_name name, struct open_outputs *signals,
                      struct open_outputs *packets)
{
    signals->name[signals->count++] = name;
    packets->name[packets->count++] = name;
}

void random_circuit_draw(struct random_circuit *c, int processes, struct ut_rng *rng)
{
    struct open_outputs signals = {.count = 0}, packets = {.count = 0};

    memset(c, 0, sizeof(*c));
    place_parts(c, processes, rng);
    for (int part = 0; part < c->num_parts; part++)
        open_gate((struct gate_name){part, 0}, &signals, &packets);
    int relays = (int)ut_rng_below(rng, (uint64_t)c->num_parts * 6);
    for (int i = 0; i < relays; i++) {
        int part = (int)ut_rng_below(rng, (uint64_t)c->num_parts);
        struct random_part *p = &c->part[part];
        struct gate_name name = {part, p->num_relays + 1};
        if (p->num_relays == MAX_RELAYS)
            continue;
        if (!wire_inputs(c, name, &signals, &packets, p->gate[name.number].times, rng))
            continue;
        p->num_relays++;
        open_gate(name, &signals, &packets);
    }
    for (int part = 0; part < c->num_parts; part++)
        wire_inputs(c, (struct gate_name){part, 0}, &signals, &packets, c->part[part].result, rng);
}

bool random_part_waits(const struct random_circuit *c, int part)
{
    const struct random_gate *g = &c->part[part].gate[0];

    return g->src_lcl.part >= 0 || g->src_rmt.part >= 0;
}

static utofu_vbg_id_t id_of(const utofu_vbg_id_t *ids, struct gate_name name)
{
    return name.part < 0 ? UTOFU_VBG_ID_NULL : ids[name.part * MAX_PART_GATES + name.number];
}

size_t random_part_wire(const struct random_circuit *c, int part, const utofu_vbg_id_t *ids,
                        struct utofu_vbg_setting settings[MAX_PART_GATES], struct ut_rng *rng)
{
    const struct random_part *p = &c->part[part];
    size_t count = (size_t)p->num_relays + 1;

    for (size_t i = 0; i < count; i++) {
        const struct random_gate *g = &p->gate[i];
        settings[i] = (struct utofu_vbg_setting){
            .vbg_id = id_of(ids, (struct gate_name){part, (int)i}),
            .src_lcl_vbg_id = id_of(ids, g->src_lcl),
            .src_rmt_vbg_id = id_of(ids, g->src_rmt),
            .dst_lcl_vbg_id = id_of(ids, g->dst_lcl),
            .dst_rmt_vbg_id = id_of(ids, g->dst_rmt),
            .dst_path_coords = {ut_rng_below(rng, 2) ? UTOFU_PATH_COORD_NULL : 1, 2, 1},
        };
    }
    for (size_t i = count; i > 2; i--) {
        size_t k = 1 + (size_t)ut_rng_below(rng, i - 1);
        struct utofu_vbg_setting s = settings[i - 1];
        settings[i - 1] = settings[k];
        settings[k] = s;
    }
    return count;
}
