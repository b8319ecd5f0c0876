/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of GMAs, their handles (al.handles) and their order. */
#ifndef AL_QUEUE_H
#define AL_QUEUE_H

#include "task.h"
#include "sizes.h"

#pragma GCC visibility push(hidden)

struct al_queue {
    struct al_task *slots;                  /* array of AL_QUEUE slots */
    struct al_task *waiting, *last_waiting; /* sorted by order */
};

bool al_queue_setup(void);
void al_queue_close(void);
acp_handle_t al_queue_issue(const struct al_task *what, acp_handle_t order, const char *function);
/* Starts it when all GMAs before it are complete. */
void al_queue_wait_for_all(struct al_task *task);
void al_queue_complete(struct al_task *task); /* of the queue */
bool al_queue_start_waiting(void);
struct al_task *al_queue_slot(uint32_t slot);
uint32_t al_queue_slot_of(const struct al_task *task);
bool al_queue_idle(void); /* no GMA is pending */
/* Waits for all GMAs; releases the lock meanwhile. function: name of the called function, for
 * messages. */
void al_queue_complete_all(const char *function);

void al_queue_count_usage(struct al_usage *usage);

#pragma GCC visibility pop

#endif
