/* SPDX-License-Identifier: Apache-2.0 */
/* The barrier circuit of two processes that comparison programs use. */
#ifndef BENCH_BUTTERFLY_H
#define BENCH_BUTTERFLY_H

#include "circuit.h"
#include "party.h"

/* Called in both processes; gates[rank] are this process's gates, beginning with the start gate. */
static inline void bench_set_butterfly(utofu_vbg_id_t gates[2][CIRCUIT_MAX_GATES])
{
    struct utofu_vbg_setting settings[CIRCUIT_MAX_GATES];
    utofu_vbg_id_t mine[CIRCUIT_MAX_GATES] = {0};
    size_t n = circuit_gates(CIRCUIT_BUTTERFLY, 2, (int)party.rank);

    party_check(utofu_alloc_vbg(0, n, 0, mine), "utofu_alloc_vbg");
    party_gather(mine, sizeof(mine), gates, false);
    circuit_wire(CIRCUIT_BUTTERFLY, 2, (int)party.rank, gates[0], settings);
    party_check(utofu_set_vbg(settings, n), "utofu_set_vbg");
    party_barrier();
}

#endif
