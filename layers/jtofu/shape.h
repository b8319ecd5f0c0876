/* SPDX-License-Identifier: Apache-2.0 */
/* Extents as text, and the extent of the system of a job. */
#ifndef JT_SHAPE_H
#define JT_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "map.h"

#pragma GCC visibility push(hidden)

/* Parses "4", "4x3" or "4x3x2": up to `most` numbers from 1 to 2^24; missing numbers become 1. */
bool jt_shape_parse(const char *text, int most, uint32_t numbers[]);
/* The product of three numbers, or UINT64_MAX if it is larger. */
uint64_t jt_shape_product(const uint32_t numbers[3]);
/* Sets the smallest system that contains the nodes, with the rings that the axes of Fugaku have. */
void jt_shape_system(struct jt_layout *layout);

#pragma GCC visibility pop

#endif
