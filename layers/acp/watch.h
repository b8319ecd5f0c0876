/* SPDX-License-Identifier: Apache-2.0 */
/* Detects processes that have ended. */
#ifndef AL_WATCH_H
#define AL_WATCH_H

#include <stdint.h>

#include "../common/partners.h"

#pragma GCC visibility push(hidden)

struct al_watch {
    struct lc_probe probe;
};

void al_watch_setup(void);
void al_watch_poll(void);
uint32_t al_watch_us_until_due(void); /* microseconds until the next probe */
void al_watch_check_next(void);       /* lets the next poll read the clock */
/* Tells the other processes that this rank ends the job. */
void al_watch_broadcast_end(uint32_t rank);

#pragma GCC visibility pop

#endif
