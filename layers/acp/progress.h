/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of everything that is pending. */
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
    bool call_polls;       /* a call has polled since the last check of the thread */
    uint64_t seen_issued;  /* value of handles.issued at the last check of the thread */
    uint32_t asleep_calls; /* calls that sleep in utofu_wait_vcqs() */
    bool parked;           /* the thread waits for `go` */
    uint32_t yield_every;  /* written without the lock: any of the values is valid */
    sem_t go;
};

void al_progress_setup(void);
bool al_progress(void); /* true: something has happened */
/* Waits briefly, with the lock released. idle: number of calls since something happened. A loop
 * that calls it calls al_progress_wait_done() at its end. */
void al_progress_wait(uint32_t *idle);
/* al_progress() or al_progress_wait(), for loops that wait. */
void al_progress_or_wait(uint32_t *idle);
void al_progress_wait_done(void);
bool al_progress_start_thread(void);
void al_progress_stop_thread(void);

#pragma GCC visibility pop

#endif
