/* SPDX-License-Identifier: Apache-2.0 */
/* Extents: as text, and of the system that a job is in. */
#ifndef JT_SHAPE_H
#define JT_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "map.h"

#pragma GCC visibility push(hidden)

/* "4", "4x3", "4x3x2": up to `most` numbers of 1 to 2^24; those that are not there become 1. */
bool jt_shape_parse(const char *text, int most, uint32_t numbers[]);
/* Of three numbers; UINT64_MAX if it is larger. */
uint64_t jt_shape_product(const uint32_t numbers[3]);
/* The smallest system that the nodes of the plan are in, with the axes closed to rings as those of
 * Fugaku are. */
void jt_shape_system(struct jt_layout *layout);

#pragma GCC visibility pop

#endif
