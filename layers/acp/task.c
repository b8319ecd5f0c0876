/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of all tasks: the list of tasks to retry, descriptions for messages, and failures.
 * Files above implement step and end (struct al_upcalls).
 */
#include "task.h"

#include <stdarg.h>
#include <stdio.h>

#include "address.h"
#include "ctx.h"
#include "log.h"

void al_task_setup(void)
{
    al.tasks.retry = NULL;
    al.tasks.retry_end = &al.tasks.retry;
}

void al_task_step(struct al_task *task)
{
    al.up->step(task);
}

void al_task_end(struct al_task *task)
{
    al.up->end(task);
}

void al_task_retry_later(struct al_task *task)
{
    if (task->queued)
        return;
    task->queued = true;
    task->next = NULL;
    *al.tasks.retry_end = task;
    al.tasks.retry_end = &task->next;
}

void al_task_retry_all(void)
{
    struct al_task *task = al.tasks.retry, *next;

    al.tasks.retry = NULL;
    al.tasks.retry_end = &al.tasks.retry;
    for (; task != NULL; task = next) {
        next = task->next;
        task->queued = false;
        al_task_step(task);
    }
}

bool al_task_any_to_retry(void)
{
    return al.tasks.retry != NULL;
}

static const char *name_of(const struct al_task *task)
{
    static const char *const names[][2] = {
        [AL_COPY] = {"acp_copy", "acp_copy"}, [AL_SWAP] = {"acp_swap4", "acp_swap8"},
        [AL_ADD] = {"acp_add4", "acp_add8"},  [AL_XOR] = {"acp_xor4", "acp_xor8"},
        [AL_OR] = {"acp_or4", "acp_or8"},     [AL_AND] = {"acp_and4", "acp_and8"},
        [AL_CAS] = {"acp_cas4", "acp_cas8"},
    };

    return names[task->kind][task->width == 8];
}

const char *al_task_describe(const struct al_task *task, char text[AL_TASK_TEXT_SIZE])
{
    snprintf(text, AL_TASK_TEXT_SIZE, "%s from 0x%llx (rank %d) to 0x%llx (rank %d)%s",
             name_of(task), (unsigned long long)task->src, (int)al_rank_of(task->src),
             (unsigned long long)task->dst, (int)al_rank_of(task->dst),
             task->command ? " for another process" : "");
    return text;
}

__attribute__((format(printf, 2, 0))) static void log_failure(struct al_task *task,
                                                              const char *format, va_list args)
{
    char text[1200], what[AL_TASK_TEXT_SIZE];

    vsnprintf(text, sizeof(text), format, args);
    al_log("%s failed: %s", al_task_describe(task, what), text);
    task->failed = true;
}

void al_task_fail(struct al_task *task, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_failure(task, format, args);
    va_end(args);
    al_task_end(task);
}

void al_task_fail_later(struct al_task *task, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_failure(task, format, args);
    va_end(args);
}
