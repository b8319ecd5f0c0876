/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between two other processes. */
#ifndef AL_COMMAND_H
#define AL_COMMAND_H

#include "sizes.h"
#include "task.h"

#pragma GCC visibility push(hidden)

struct al_commands {
    /* Commands of other processes that this process executes. */
    struct al_task executors[AL_EXECUTORS];
    uint64_t stamps[AL_EXECUTORS];
    uint64_t head;                               /* number of commands taken from the ring */
    struct al_task *outstanding[AL_OUTSTANDING]; /* by number */
    /* Marks a number whose copy is complete, but whose notice has not arrived. */
    struct al_task ended;
    uint8_t free_numbers[AL_OUTSTANDING];
    uint32_t num_free, latest; /* latest: number of the command sent last */
    uint64_t awaited;          /* stamp of the command sent last; 0: answered */
    uint64_t last_stamp;       /* never reset, because late answers may arrive */
};

void al_command_setup(void);
void al_command_send(struct al_task *task);
bool al_command_poll_answer(void);           /* polls for the answer to the command sent last */
void al_command_drain(const char *function); /* waits for the notices of all outstanding commands */
void al_command_report(struct al_task *task); /* answers a command that this process has executed */
bool al_command_execute_ring(void);
void al_command_put_arrived(utofu_stadd_t stadd); /* a put of a peer ends at this address */

#pragma GCC visibility pop

#endif
