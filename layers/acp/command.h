/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that another process is to execute. */
#ifndef AL_COMMAND_H
#define AL_COMMAND_H

#include "sizes.h"
#include "task.h"

#pragma GCC visibility push(hidden)

struct al_commands {
    struct al_task executors[AL_EXECUTORS]; /* commands of others */
    uint64_t stamps[AL_EXECUTORS];
    uint64_t head;                               /* commands taken out of the ring */
    struct al_task *outstanding[AL_OUTSTANDING]; /* by number */
    struct al_task ended; /* in its place: only the notice is not there yet */
    uint8_t free_numbers[AL_OUTSTANDING];
    uint32_t num_free, latest; /* latest: the number of the command that was sent last */
    uint64_t awaited;          /* its stamp; 0: it has been answered */
    uint64_t last_stamp;       /* not reset: answers of before may come */
};

void al_command_setup(void);
void al_command_send(struct al_task *task);
bool al_command_poll_answer(void);            /* for the answer to the one that was sent last */
void al_command_drain(const char *function);  /* nothing that was sent is without its notice */
void al_command_report(struct al_task *task); /* one that is executed here */
bool al_command_execute_ring(void);
void al_command_put_arrived(
    utofu_stadd_t stadd); /* the notice of a put of a peer, and where it ends */

#pragma GCC visibility pop

#endif
