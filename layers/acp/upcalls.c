/* SPDX-License-Identifier: Apache-2.0 */
/* Calls from lower files to higher files. */
#include "upcalls.h"

#include "address.h"
#include "atomic.h"
#include "command.h"
#include "copy.h"
#include "ctx.h"
#include "queue.h"
#include "watch.h"

/* The owner of the source executes a copy without a GA of this process. */
static void step_task(struct al_task *task)
{
    if (task->state == AL_REPORTS)
        al_command_report(task);
    else if (task->kind != AL_COPY)
        al_atomic_step(task);
    else if (task->size == 0 || al_is_mine(task->src) || al_is_mine(task->dst))
        al_copy_step(task);
    else
        al_command_send(task);
}

static void end_task(struct al_task *task)
{
    if (task->command)
        al_command_report(task);
    else
        al_queue_complete(task);
}

static const struct al_upcalls upcalls = {
    .step = step_task,
    .end = end_task,
    .put_arrived = al_command_put_arrived,
    .execute_commands = al_command_execute_ring,
    .poll_answer = al_command_poll_answer,
    .start_waiting = al_queue_start_waiting,
    .broadcast_end = al_watch_broadcast_end,
};

void al_upcalls_set(void)
{
    al.up = &upcalls;
}
