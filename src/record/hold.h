/* SPDX-License-Identifier: Apache-2.0 */
/* Delays of puts while a program is recorded. Uses util and the tape. */
#ifndef UT_RECORD_HOLD_H
#define UT_RECORD_HOLD_H

#include <stdint.h>

#include "utofu.h"

/* Called before a put starts: delays some puts for a moment, so that the recording shows how their
 * targets behave without them. */
void ut_record_hold(utofu_vcq_id_t remote, utofu_stadd_t stadd, uint64_t length,
                    unsigned long flags);

#endif
