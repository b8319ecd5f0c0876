/* SPDX-License-Identifier: Apache-2.0 */
/* The map of the job that the launcher has started. */
#ifndef JT_OWN_MAP_H
#define JT_OWN_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/job.h"
#include "map.h"

#pragma GCC visibility push(hidden)

/* Rank and number of processes. False: there is no job; the reason is logged. */
bool jt_own_job(struct lc_job *job);
/* Returns the serialized map, which is never freed. The first successful call creates it.
 * JTOFU_SUCCESS, or an error that is logged. For any thread. */
int jt_own_map(const void **bytes, size_t *size, uint32_t *procs);

/*
 * Extents of the job
 */

/* Parses "4", "4x3" or "4x3x2": up to `most` numbers from 1 to 2^24; missing numbers become 1. */
bool jt_shape_parse(const char *text, int most, uint32_t numbers[]);
/* The product of three numbers, or UINT64_MAX if it is larger. */
uint64_t jt_shape_product(const uint32_t numbers[3]);
/* Sets the smallest system that contains the nodes, with the rings that the axes of Fugaku have. */
void jt_shape_system(struct jt_layout *layout);

#pragma GCC visibility pop

#endif
