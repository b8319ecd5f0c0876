/* SPDX-License-Identifier: Apache-2.0 */
/* Which groups of cases there are. */
#ifndef CONFORM_GROUPS_H
#define CONFORM_GROUPS_H

#include "conform.h"

extern const struct cf_group *const cf_groups[];
extern const size_t cf_num_groups;

#endif
