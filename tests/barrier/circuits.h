/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of barrier circuits: building a circuit, running rounds, values and their
 * model. */
#ifndef UT_TEST_CIRCUITS_H
#define UT_TEST_CIRCUITS_H

#include "circuit.h"
#include "ends.h"
#include "harness.h"

/* A circuit of examples/circuit.h over all processes of the run. */
struct ut_circuit {
    enum circuit_shape shape;
    size_t count;
    utofu_vbg_id_t ids[UT_MAX_PROCS * CIRCUIT_MAX_GATES]; /* of all processes */
    utofu_vbg_id_t *mine;
    struct utofu_vbg_setting settings[CIRCUIT_MAX_GATES];
};

/* Allocates, exchanges the ids and sets; returns when all processes have. */
void ut_circuit_open(struct ut_circuit *c, enum circuit_shape shape, utofu_tni_id_t tni,
                     unsigned long int flags);
/* The same in steps. */
void ut_circuit_alloc(struct ut_circuit *c, enum circuit_shape shape, utofu_tni_id_t tni,
                      unsigned long int flags);
void ut_circuit_set(struct ut_circuit *c);
/* Waits for all processes, and frees. */
void ut_circuit_close(struct ut_circuit *c);

/* The input or the result of a participant in one barrier communication. */
struct ut_contribution {
    int op; /* enum utofu_reduce_op */
    size_t count;
    union {
        uint64_t u[6];
        double f[3];
    };
};

/* Starts and polls by the kind of operation. */
int ut_contribution_start(utofu_vbg_id_t id, struct ut_contribution *c);
int ut_contribution_poll(utofu_vbg_id_t id, struct ut_contribution *c);
/* Polls until the result is not NOT_COMPLETED. */
int ut_contribution_await(utofu_vbg_id_t id, struct ut_contribution *c);
int ut_barrier_await(utofu_vbg_id_t id);

/* Random contributions: operator and number of values of a round, and a participant's values. */
void ut_contribution_shape(struct ut_contribution *c, struct ut_rng *rng);
void ut_contribution_fill(struct ut_contribution *c, struct ut_rng *rng);

/* The model: the result for n participants, with participant i counted times[i] times. */
void ut_contribution_model(struct ut_contribution *result, const struct ut_contribution *all,
                           const uint64_t *times, int n);
void ut_contribution_check(const struct ut_contribution *got, const struct ut_contribution *want);

#endif
