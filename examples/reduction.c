/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions with values: each process has a part of a field, and all learn its mean and variance
 * (two doubles in one reduction), its maximum, and the process with the maximum (MAXLOC).
 *
 *     cc -o reduction reduction.c circuit.c meet.c $(pkg-config --cflags --libs utofu) -lm
 *     utofurun -n 4 ./reduction
 *     mpirun -n 4 ./reduction
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "circuit.h"
#include "meet.h"

enum { CELLS = 1000 };

static utofu_vbg_id_t (*table)[CIRCUIT_MAX_GATES]; /* the ids of all gates, a row per process */
static utofu_vbg_id_t gate;                        /* the start/end gate of this process */

/* Wires all processes into one circuit, and returns the number of this process's gates. */
static size_t open_circuit(utofu_vcq_hdl_t vcq)
{
    struct utofu_vbg_setting settings[CIRCUIT_MAX_GATES];
    size_t count = circuit_gates(CIRCUIT_BUTTERFLY, num_processes(), my_rank());
    utofu_vcq_id_t ids[MAX_PROCESSES];

    table = aligned_memory(MAX_PROCESSES * sizeof(table[0]));
    CALL(utofu_alloc_vbg(0, count, 0, table[my_rank()]));
    share_rows(vcq, table, sizeof(table[0]));
    circuit_wire(CIRCUIT_BUTTERFLY, num_processes(), my_rank(), table[0], settings);
    CALL(utofu_set_vbg(settings, count));
    meet(vcq, ids); /* all have set their gates */
    gate = table[my_rank()][0];
    return count;
}

static void sum_all(double values[], size_t count)
{
    int rc;

    CALL(utofu_reduce_double(gate, UTOFU_REDUCE_OP_BFPSUM, values, count, 0));
    while ((rc = utofu_poll_reduce_double(gate, 0, values)) == UTOFU_ERR_NOT_COMPLETED)
        continue; /* or continue computing */
    check_call(rc, "utofu_poll_reduce_double");
}

/* The maximum of all values, which must not be negative: these are ordered like their bits, as
 * unsigned integers. *rank becomes the lowest rank with the maximum. */
static double greatest(double value, int *rank)
{
    uint64_t pair[2] = {0, (uint64_t)my_rank()};
    int rc;

    memcpy(&pair[0], &value, sizeof(value));
    CALL(utofu_reduce_uint64(gate, UTOFU_REDUCE_OP_MAXLOC, pair, 2, 0));
    while ((rc = utofu_poll_reduce_uint64(gate, 0, pair)) == UTOFU_ERR_NOT_COMPLETED)
        continue;
    check_call(rc, "utofu_poll_reduce_uint64");
    memcpy(&value, &pair[0], sizeof(value));
    *rank = (int)pair[1];
    return value;
}

/* Cell i of the whole field. */
static double cell(int i)
{
    return fabs(sin(i * 0.001)) * 100;
}

static int about(double value, double expected)
{
    return fabs(value - expected) <= 1e-9 * fabs(expected);
}

/* Checks the results by computing them in one process. */
static int is_right(double mean, double variance, double most, int owner)
{
    int n = CELLS * num_processes(), at = 0;
    double sum = 0, squares = 0;

    for (int i = 0; i < n; i++) {
        sum += cell(i);
        squares += cell(i) * cell(i);
        if (cell(i) > cell(at))
            at = i;
    }
    return about(mean, sum / n) && about(variance, squares / n - sum / n * (sum / n)) &&
           most == cell(at) && owner == at / CELLS;
}

int main(void)
{
    utofu_vcq_id_t ids[MAX_PROCESSES];
    double values[2] = {0, 0}, most = 0; /* sum and sum of squares; maximum */
    int owner, n = CELLS * num_processes();
    utofu_vcq_hdl_t vcq = open_vcq();
    size_t count = open_circuit(vcq);

    for (int i = CELLS * my_rank(); i < CELLS * (my_rank() + 1); i++) {
        values[0] += cell(i);
        values[1] += cell(i) * cell(i);
        most = fmax(most, cell(i));
    }
    sum_all(values, 2);
    most = greatest(most, &owner);
    double mean = values[0] / n, variance = values[1] / n - mean * mean;
    if (!is_right(mean, variance, most, owner)) {
        fprintf(stderr, "rank %d: wrong: mean %g, variance %g, greatest %g on rank %d\n", my_rank(),
                mean, variance, most, owner);
        return 1;
    }
    if (my_rank() == 0)
        printf("%d cells: mean %g, variance %g, greatest %g on rank %d\n", n, mean, variance, most,
               owner);
    meet(vcq, ids); /* no process may free a gate that others still need */
    CALL(utofu_free_vbg(table[my_rank()], count));
    close_vcq(vcq);
    free(table);
    return 0;
}
