/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes repeatedly sum one double each, over a barrier circuit, and get the same sum, bit
 * for bit, for every shape of the circuit: butterfly, tree or ring.
 *
 *     cc -o barrier_sum barrier_sum.c circuit.c meet.c $(pkg-config --cflags --libs utofu) -lm
 *     utofurun -n 5 ./barrier_sum butterfly
 *     mpirun -n 5 ./barrier_sum butterfly
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circuit.h"
#include "meet.h"

enum { ROUNDS = 200 };

/* The ids of all gates, a row for each process. */
static utofu_vbg_id_t (*table)[CIRCUIT_MAX_GATES];
static utofu_vbg_id_t *mine;

static double sum(double value)
{
    double result;
    int rc;

    CALL(utofu_reduce_double(mine[0], UTOFU_REDUCE_OP_BFPSUM, &value, 1, 0));
    while ((rc = utofu_poll_reduce_double(mine[0], 0, &result)) == UTOFU_ERR_NOT_COMPLETED)
        continue;
    check_call(rc, "utofu_poll_reduce_double");
    return result;
}

/* If all values are equal, "and" and "or" of their bits are equal, too. */
static int same_everywhere(double value)
{
    const enum utofu_reduce_op ops[2] = {UTOFU_REDUCE_OP_BAND, UTOFU_REDUCE_OP_BOR};
    uint64_t bits, result[2];
    int rc;

    memcpy(&bits, &value, sizeof(bits));
    for (int i = 0; i < 2; i++) {
        CALL(utofu_reduce_uint64(mine[0], ops[i], &bits, 1, 0));
        while ((rc = utofu_poll_reduce_uint64(mine[0], 0, &result[i])) == UTOFU_ERR_NOT_COMPLETED)
            continue;
        check_call(rc, "utofu_poll_reduce_uint64");
    }
    return result[0] == result[1];
}

int main(int argc, char **argv)
{
    static const char *const names[CIRCUIT_NUM_SHAPES] = {"butterfly", "tree", "ring"};
    struct utofu_vbg_setting settings[CIRCUIT_MAX_GATES];
    int rank = my_rank(), n = num_processes(), shape = 0;
    utofu_vcq_hdl_t vcq = open_vcq();
    utofu_vcq_id_t vcq_ids[MAX_PROCESSES];

    while (argc > 1 && shape < CIRCUIT_NUM_SHAPES && strcmp(argv[1], names[shape]) != 0)
        shape++;
    if (shape == CIRCUIT_NUM_SHAPES) {
        fprintf(stderr, "use butterfly, tree or ring, not %s\n", argv[1]);
        return 1;
    }
    size_t count = circuit_gates((enum circuit_shape)shape, n, rank);
    table = aligned_memory(MAX_PROCESSES * sizeof(table[0]));
    mine = table[rank];
    CALL(utofu_alloc_vbg((utofu_tni_id_t)(rank % 6), count, 0, mine));
    share_rows(vcq, table, sizeof(table[0]));
    circuit_wire((enum circuit_shape)shape, n, rank, table[0], settings);
    CALL(utofu_set_vbg(settings, count));
    meet(vcq, vcq_ids); /* all have set their gates */

    double expected = 0;
    for (int i = 0; i < n; i++)
        expected += 1.0 / (i + 1);
    for (int round = 0; round < ROUNDS; round++) {
        double result = sum(1.0 / (rank + 1));
        if (fabs(result - expected) > 1e-12 || !same_everywhere(result)) {
            fprintf(stderr, "rank %d: the sum is %.17g, not about %.17g, or not everywhere\n", rank,
                    result, expected);
            return 1;
        }
    }
    if (rank == 0)
        printf("%d sums over a %s of %d processes\n", ROUNDS, names[shape], n);

    meet(vcq, vcq_ids); /* all have their result, and no longer use the gates */
    CALL(utofu_free_vbg(mine, count));
    close_vcq(vcq);
    free(table);
    return 0;
}
