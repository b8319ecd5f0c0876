/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a result rests on: of the waits that a region's time consists of, how many were told by the
 * program (utofu_profile_seen), are those of notices, TCQ entries and barriers, or were concluded.
 */
#ifndef UM_BASIS_H
#define UM_BASIS_H

#include "model/sim.h"
#include "model/table.h"

enum { UM_BASIS_TEXT = 1024 };

/* Concluded waits of calls that are alike. */
struct um_concluded {
    double ns;
    uint32_t thread, op; /* the first of them */
};

struct um_basis_sum {
    double ns[UM_BASES]; /* of the waits on the way back from ends of the region */
    uint64_t walks;
    struct um_table by_call;
    struct um_concluded *concluded;
    size_t num_concluded, room_concluded;
};

/* Adds the waits on the way back from a call to a time. */
void um_basis_walk(const struct um_sim *sim, struct um_basis_sum *sum, uint32_t thread, size_t op,
                   double since);
/* Per cent of the waits; 0 without any. */
double um_basis_percent(const struct um_basis_sum *sum, enum um_basis basis);
/* "rank 3, before its put of 8 B to rank 4 (call 17), at a.c:12 to 15 in main": the calls with the
 * longest concluded waits;
 * "": there are none. */
void um_basis_place(const struct um_sim *sim, const struct um_basis_sum *sum, char *text,
                    size_t size);
void um_basis_free(struct um_basis_sum *sum);

#endif
