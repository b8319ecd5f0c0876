/* SPDX-License-Identifier: Apache-2.0 */
/* --time: how long communications take. */
#ifndef CONFORM_TIME_H
#define CONFORM_TIME_H

#include "frame.h"
#include "result.h"

/* The measurements, as cases that every process calls. Each writes lines of the list "timing". */
extern const struct cf_group time_group;
/* Where the processes are; before the first measurement */
void cf_time_places(const struct cf_place *places);

#endif
