/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wires barrier circuits for any number of processes. Each process allocates circuit_gates() gates
 * with one call of utofu_alloc_vbg(), on any TNI; sends the ids to all others; has circuit_wire()
 * write its settings; and gives them to utofu_set_vbg().
 *
 *   butterfly  In step s each process exchanges with the one whose rank differs in bit s: about
 *              log2(n) steps, the fastest. If n is not a power of two, the processes beyond the
 *              largest one send their value first and receive the result last, as in figure
 *              2.17 of the manual.
 *   tree       Values go up a binary tree to process 0, and the result comes down again: fewer
 *              packets, twice the steps.
 *   ring       Values go around from process 0 to the last one, and the result goes around from
 *              there: fewest packets, 2n steps; every process has two neighbours only.
 */
#ifndef CIRCUIT_H
#define CIRCUIT_H

#include <stddef.h>

#include <utofu.h>

enum circuit_shape { CIRCUIT_BUTTERFLY, CIRCUIT_TREE, CIRCUIT_RING, CIRCUIT_NUM_SHAPES };

/* Maximum for up to 2^30 processes. */
enum { CIRCUIT_MAX_GATES = 32 };

/* The number of gates of process `rank` of n, including the start/end gate. */
size_t circuit_gates(enum circuit_shape shape, int n, int rank);

/* Writes the settings of process `rank`, one per gate. ids has CIRCUIT_MAX_GATES ids for each
 * process, in order of rank, of which those from utofu_alloc_vbg() are set. */
void circuit_wire(enum circuit_shape shape, int n, int rank, const utofu_vbg_id_t *ids,
                  struct utofu_vbg_setting settings[CIRCUIT_MAX_GATES]);

#endif
