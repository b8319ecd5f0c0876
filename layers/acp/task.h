/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task is a copy or an atomic operation in progress: of this process, or a command of another
 * one. Completions step a task again; a task that lacked an op or room in the TOQ is stepped at the
 * next progress.
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
    AL_WAITS, /* waits for its order */
    AL_RUNS,
    AL_REPORTS, /* a command whose issuer is being answered */
    AL_ENDED,
};
struct al_task {
    acp_ga_t dst, src;
    uint64_t size; /* bytes of a copy; operand of an atomic operation */
    /* Copy: bytes started; compare and swap: comparand; after the ARMW: the old value. */
    uint64_t value;
    uint64_t order; /* handle that must be complete first; of a command: issuer and number */
    struct al_task *next;
    uint16_t in_flight; /* number of operations */
    uint8_t kind, state, width;
    uint8_t stage; /* private to atomic.c, copy.c, command.c */
    bool retried;  /* the cached row was read again */
    bool failed;
    bool command;  /* issued by another process */
    bool queued;   /* in the list of tasks to retry */
    bool behind;   /* a put that strong order keeps behind the puts before it */
    uint32_t used; /* hash of the region used last, see al_remote_set_region() */
};
_Static_assert(sizeof(struct al_task) == 64, "4,096 of them are 256 KiB");

struct al_tasks {
    struct al_task *retry, **retry_end; /* tasks to retry at the next progress */
};

void al_task_setup(void);
void al_task_step(struct al_task *task);
void al_task_retry_later(struct al_task *task); /* steps the task at the next progress */
void al_task_retry_all(void);
bool al_task_any_to_retry(void);
void al_task_end(struct al_task *task); /* of a task that is complete or has failed */
__attribute__((format(printf, 2, 3))) void al_task_fail(struct al_task *task, const char *format,
                                                        ...);
/* Logs the failure now; the task ends when none of its operations is in flight. */
__attribute__((format(printf, 2, 3))) void al_task_fail_later(struct al_task *task,
                                                              const char *format, ...);
enum { AL_TASK_TEXT_SIZE = 160 };
/* "acp_copy from 0x10 (rank 0) to 0x20 (rank 1)" */
const char *al_task_describe(const struct al_task *task, char text[AL_TASK_TEXT_SIZE]);

#pragma GCC visibility pop

#endif
