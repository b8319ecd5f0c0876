/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy or an atomic operation under way: of this process, or a command of another one. What it
 * waits for has it stepped again; a task that only lacks room is stepped at the next progress.
 */
#ifndef AL_TASK_H
#define AL_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include <utofu.h>

#include "acp.h"

#pragma GCC visibility push(hidden)

enum al_kind { AL_COPY, AL_SWAP, AL_ADD, AL_XOR, AL_OR, AL_AND, AL_CAS };
enum al_state {
    AL_FREE,
    AL_WAITS, /* for its order */
    AL_RUNS,
    AL_REPORTS, /* a command: its issuer is being notified */
    AL_ENDED,
};
struct al_task {
    acp_ga_t dst, src;
    uint64_t size;  /* of a copy; of atomics: the operand */
    uint64_t value; /* of a copy: what is started; cas: comparand; later the value from before */
    uint64_t order; /* waits: for it. Of a command: its issuer. */
    struct al_task *next;
    uint16_t in_flight; /* communications */
    uint8_t kind, state, width;
    uint8_t stage; /* task.c, command.c */
    bool retried;  /* a row of the table was read again */
    bool failed;
    bool command;  /* of another process */
    bool queued;   /* in the list of those that are to be stepped */
    bool behind;   /* a put that uTofu's strong order keeps behind those before */
    uint32_t used; /* of the row that was used last: al_task_uses() */
};
_Static_assert(sizeof(struct al_task) == 64, "4,096 of them are 256 KiB");

struct al_tasks {
    struct al_task *retry, **retry_end; /* those that lacked room */
};

void al_task_setup(void);
void al_task_step(struct al_task *task);
void al_task_retry_later(struct al_task *task); /* no room: again at the next progress */
void al_task_retry_all(void);
bool al_task_any_to_retry(void);
void al_task_end(struct al_task *task); /* complete, or failed */
__attribute__((format(printf, 2, 3))) void al_task_fail(struct al_task *task, const char *format,
                                                        ...);
/* Says so now; the task ends when nothing of it is in flight any more. */
__attribute__((format(printf, 2, 3))) void al_task_fail_later(struct al_task *task,
                                                              const char *format, ...);
enum { AL_TASK_TEXT_SIZE = 160 };
/* "acp_copy from 0x10 (rank 0) to 0x20 (rank 1)" */
const char *al_task_describe(const struct al_task *task, char text[AL_TASK_TEXT_SIZE]);

#pragma GCC visibility pop

#endif
