/* SPDX-License-Identifier: Apache-2.0 */
/* Makes everything go on. */
#ifndef AL_PROGRESS_H
#define AL_PROGRESS_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "../common/idle.h"

#pragma GCC visibility push(hidden)

struct al_progress {
    struct lc_thread thread;
    bool stop;
    bool call_polls;       /* since the thread looked */
    uint64_t seen_issued;  /* when it looked */
    uint32_t asleep_calls; /* in utofu_wait_vcqs() */
    bool parked;           /* the thread waits for `go` */
    uint32_t yield_every;  /* without the lock: any of its values will do */
    sem_t go;
};

void al_progress_setup(void);
bool al_progress(void); /* true: something has happened */
/* Waits a little, with the lock given away; idle counts the calls since something happened. Who has
 * called it calls al_progress_wait_done() in the end. */
void al_progress_wait(uint32_t *idle);
/* al_progress(), or that pause: in loops that wait. */
void al_progress_or_wait(uint32_t *idle);
void al_progress_wait_done(void);
bool al_progress_start_thread(void);
void al_progress_stop_thread(void);

#pragma GCC visibility pop

#endif
