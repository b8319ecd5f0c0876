/* SPDX-License-Identifier: Apache-2.0 */
/* GMAs, their handles (al.handles) and their order. */
#ifndef AL_QUEUE_H
#define AL_QUEUE_H

#include "task.h"
#include "sizes.h"

#pragma GCC visibility push(hidden)

struct al_queue {
    struct al_task *slots;                  /* AL_QUEUE of them */
    struct al_task *waiting, *last_waiting; /* by order */
};

bool al_queue_setup(void);
void al_queue_close(void);
acp_handle_t al_queue_issue(const struct al_task *what, acp_handle_t order, const char *function);
void al_queue_wait_for_all(struct al_task *task); /* before it, and starts it then */
void al_queue_complete(struct al_task *task);     /* one of the queue */
bool al_queue_start_waiting(void);
struct al_task *al_queue_slot(uint32_t slot);
uint32_t al_queue_slot_of(const struct al_task *task);
bool al_queue_idle(void); /* nothing issued is pending */
/* Gives the lock away meanwhile. function: that of the program, for messages. */
void al_queue_complete_all(const char *function);

void al_queue_count_usage(struct al_usage *usage);

#pragma GCC visibility pop

#endif
