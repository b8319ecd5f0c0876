/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random legal barrier circuits, and their results. They are drawn together with a model: for every
 * gate it is known how often each participant's value reaches it, which determines the result of
 * each participant.
 */
#ifndef UT_TEST_RANDOM_CIRCUIT_H
#define UT_TEST_RANDOM_CIRCUIT_H

#include "circuits.h"

/* MANY_PROCESSES: more participants, with fewer relays each. */
enum {
#ifdef MANY_PROCESSES
    MAX_PARTS = 320,
    MAX_RELAYS = 4,
#else
    MAX_PARTS = 16,
    MAX_RELAYS = 12,
#endif
    MAX_PART_GATES = 1 + MAX_RELAYS,
    MAX_PARTS_OF_PROC = 4
};

/* A gate by participant and number; part < 0: none. */
struct gate_name {
    int part, number;
};

struct random_gate {
    struct gate_name src_lcl, src_rmt, dst_lcl, dst_rmt;
    uint64_t times[MAX_PARTS]; /* the output: how often each value is in it */
};

/* A start/end gate with its relays, from one utofu_alloc_vbg(). */
struct random_part {
    int rank;
    utofu_tni_id_t tni;
    int num_relays;
    struct random_gate gate[MAX_PART_GATES];
    uint64_t result[MAX_PARTS]; /* the end gate's input; all zero: no participant */
};

struct random_circuit {
    int num_parts;
    struct random_part part[MAX_PARTS];
};

/* Circuit for `processes`; the same for the same state of rng. */
void random_circuit_draw(struct random_circuit *c, int processes, struct ut_rng *rng);

/* Does the participant wait for another one? */
bool random_part_waits(const struct random_circuit *c, int part);

/* Settings of a participant, with ids[part * MAX_PART_GATES + gate], the first one first, the
 * others in random order. */
size_t random_part_wire(const struct random_circuit *c, int part, const utofu_vbg_id_t *ids,
                        struct utofu_vbg_setting settings[MAX_PART_GATES], struct ut_rng *rng);

#endif
