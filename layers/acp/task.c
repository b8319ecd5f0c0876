/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes copies and atomic operations, of this process and of others (command.c). al_task_step()
 * does what can be done now; what it waits for calls it again. A task that only lacks room
 * is put into a list, and stepped at the next progress.
 *
 * A copy with one GA of this process is a put or a get, one with both a memmove. One with none is
 * done by the owner of the source. An atomic operation is an ARMW from here on whatever process
 * owns the word, and then a put of the value from before.
 */
#include "layer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PIECE = 16777215, PIECE = 8 << 20 }; /* uTofu's limit, and what long copies are cut to */
enum stage {
    BEGINS,
    CHANGED, /* an atomic operation: the word is */
    AGAIN,   /* a copy: once nothing of it is in flight, from the start */
};

static struct al_task *later, **later_end = &later;

void al_task_later(struct al_task *task)
{
    if (task->queued)
        return;
    task->queued = true;
    task->next = NULL;
    *later_end = task;
    later_end = &task->next;
}

bool al_task_step_later_ones(void)
{
    struct al_task *task = later, *next;

    later = NULL;
    later_end = &later;
    for (; task != NULL; task = next) {
        next = task->next;
        task->queued = false;
        al_task_step(task);
    }
    return false; /* no progress as such */
}

bool al_task_has_later_ones(void)
{
    return later != NULL;
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

const char *al_task_text(const struct al_task *task, char text[AL_TASK_TEXT])
{
    snprintf(text, AL_TASK_TEXT, "%s from 0x%llx (rank %d) to 0x%llx (rank %d)%s", name_of(task),
             (unsigned long long)task->src, (int)al_rank_of(task->src),
             (unsigned long long)task->dst, (int)al_rank_of(task->dst),
             task->command ? " for another process" : "");
    return text;
}

void al_task_end(struct al_task *task)
{
    if (task->command)
        al_command_report(task);
    else
        al_queue_ended(task);
}

__attribute__((format(printf, 2, 0))) static void blame(struct al_task *task, const char *format,
                                                        va_list args)
{
    char text[1200], what[AL_TASK_TEXT];

    vsnprintf(text, sizeof(text), format, args);
    al_log("%s is not done: %s", al_task_text(task, what), text);
    task->failed = true;
}

void al_task_fail(struct al_task *task, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    blame(task, format, args);
    va_end(args);
    al_task_end(task);
}

/* Logged now; the task ends when nothing of it is in flight any more. */
__attribute__((format(printf, 2, 3))) static void fail_later(struct al_task *task,
                                                             const char *format, ...)
{
    va_list args;

    va_start(args, format);
    blame(task, format, args);
    va_end(args);
}

/* Is it worth trying again? The row that was in the cache may be out of date. */
static bool try_again(struct al_task *task, int rc, acp_ga_t remote)
{
    if (task->retried || (rc != UTOFU_ERR_MRQ_RMT_STADD && rc != UTOFU_ERR_MRQ_RMT_LENGTH &&
                          rc != UTOFU_ERR_MRQ_PEER))
        return false;
    task->retried = true;
    al_remote_forget(remote);
    return true;
}

/* The STADD of a region that a peer has registered anew is another one, and may be out of date in
 * its turn: then the row may be read once more. */
void al_task_uses(struct al_task *task, utofu_stadd_t region)
{
    uint32_t used = (uint32_t)(region ^ region >> 32);

    if (used != task->used)
        task->retried = false;
    task->used = used;
}

static bool is_mine(acp_ga_t ga)
{
    return al_rank_of(ga) == al.rank;
}

/*
 * Copies.
 */

static acp_ga_t remote_of(const struct al_task *task)
{
    return is_mine(task->src) ? task->dst : task->src;
}

/* One communication less, or copy_remote() has started what it could. */
static void settle(struct al_task *task)
{
    if (--task->in_flight > 0)
        return;
    if (task->stage == AGAIN) {
        task->stage = BEGINS;
        task->value = 0;
        if (task->behind)
            al_queue_wait_for_all(task); /* strong order keeps it behind nothing any more */
        else
            al_task_step(task);
    } else if (task->failed || task->value == task->size) {
        al_task_end(task);
    } else {
        al_task_later(task);
    }
}

static void copied(struct al_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->task;

    (void)old_value;
    if (rc != UTOFU_SUCCESS && task->stage != AGAIN && !task->failed) {
        if (try_again(task, rc, remote_of(task)))
            task->stage = AGAIN;
        else
            fail_later(task, "%s", al_utofu_error());
    }
    settle(task);
}

struct al_op *al_task_op(struct al_task *task, uint32_t rank, uint32_t color)
{
    return al_op_take(color, task, rank, copied);
}

static bool start_piece(struct al_task *task, const struct al_target *target, bool put,
                        utofu_stadd_t mine)
{
    uint32_t color = al_color_of(put ? task->src : task->dst);
    struct al_op *op = al_task_op(task, target->rank, color);
    uint64_t left = task->size - task->value, at = task->value;
    size_t size = left <= MAX_PIECE ? left : PIECE;
    bool started;

    if (op == NULL)
        return false;
    task->in_flight++;
    task->value += size;
    started = put ? al_op_put(op, target->id, mine + at, target->stadd + at, size, 0)
                  : al_op_get(op, target->id, mine + at, target->stadd + at, size);
    if (!started) {
        task->in_flight--;
        task->value = at;
    }
    return started;
}

static void start_pieces(struct al_task *task, const struct al_target *target, bool put,
                         utofu_stadd_t mine)
{
    task->in_flight++; /* so that it does not end meanwhile */
    while (task->value < task->size && !task->failed && task->stage != AGAIN)
        if (!start_piece(task, target, put, mine))
            break;
    settle(task);
}

/* The next copy between the two regions need not look for them. */
static void learn(acp_ga_t own, utofu_stadd_t mine, acp_ga_t remote, const struct al_target *target)
{
    const struct al_extent extent = al_memory_extent(own);

    al_direct_learn(own, &extent, mine, remote, target);
}

static void copy_remote(struct al_task *task, bool put)
{
    acp_ga_t own = put ? task->src : task->dst;
    struct al_target target;
    utofu_stadd_t mine;

    if (al_memory_find(own, task->size, &mine) == NULL)
        al_task_fail(task,
                     "GA 0x%llx: %llu bytes from there are not inside a region of this process",
                     (unsigned long long)own, (unsigned long long)task->size);
    else if (al_remote_find(remote_of(task), task, &target) == AL_FOUND) {
        learn(own, mine, remote_of(task), &target);
        al_task_uses(task, target.stadd - target.extent.before);
        start_pieces(task, &target, put, mine);
    }
}

static void copy_here(struct al_task *task)
{
    char *dst = al_memory_find(task->dst, task->size, NULL);
    const char *src = al_memory_find(task->src, task->size, NULL);

    if (dst == NULL || src == NULL) {
        al_task_fail(task, "%llu bytes from there are not inside a region of this process",
                     (unsigned long long)task->size);
        return;
    }
    memmove(dst, src, task->size);
    al_task_end(task);
}

static void step_copy(struct al_task *task)
{
    bool from_here = is_mine(task->src), to_here = is_mine(task->dst);

    if (task->size == 0)
        al_task_end(task);
    else if (from_here && to_here)
        copy_here(task);
    else if (from_here || to_here)
        copy_remote(task, from_here);
    else
        al_command_send(task);
}

/*
 * Atomic operations.
 */

static void returned(struct al_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->task;

    (void)old_value;
    task->in_flight--;
    if (rc == UTOFU_SUCCESS)
        al_task_end(task);
    else if (try_again(task, rc, task->dst))
        al_task_step(task);
    else
        al_task_fail(task, "the word is changed, but its old value cannot be written: %s",
                     al_utofu_error());
}

/* Writes the value from before to dst. */
static void give_value(struct al_task *task)
{
    struct al_target target;
    struct al_op *op;
    void *mine;

    if (is_mine(task->dst)) {
        mine = al_memory_find(task->dst, task->width, NULL);
        if (mine == NULL) {
            al_task_fail(task, "the destination is not registered any more");
            return;
        }
        if (task->width == 4)
            __atomic_store_n((uint32_t *)mine, (uint32_t)task->value, __ATOMIC_RELEASE);
        else
            __atomic_store_n((uint64_t *)mine, task->value, __ATOMIC_RELEASE);
        al_task_end(task);
        return;
    }
    if (al_remote_find(task->dst, task, &target) != AL_FOUND)
        return;
    al_task_uses(task, target.stadd - target.extent.before);
    op = al_op_take(0, task, target.rank, returned);
    if (op == NULL) {
        al_task_later(task);
        return;
    }
    task->in_flight++;
    if (!al_op_put_now(op, target.id, &task->value, target.stadd, task->width, 0)) {
        task->in_flight--;
        al_task_later(task);
    }
}

static void changed(struct al_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->task;

    task->in_flight--;
    if (rc == UTOFU_SUCCESS) {
        task->value = old_value;
        task->stage = CHANGED;
        task->retried = false;
        give_value(task);
    } else if (try_again(task, rc, task->src)) {
        al_task_step(task);
    } else {
        al_task_fail(task, "%s", al_utofu_error());
    }
}

static bool find_word(struct al_task *task, struct al_target *target)
{
    if (!is_mine(task->src))
        return al_remote_find(task->src, task, target) == AL_FOUND;
    target->rank = al.rank;
    target->extent = (struct al_extent){0};
    target->id = al_port(al_color_of(task->src))->id;
    if (al_memory_find(task->src, task->width, &target->stadd) != NULL)
        return true;
    al_task_fail(task, "the word is not registered any more");
    return false;
}

static void change_word(struct al_task *task)
{
    struct al_target target;
    struct al_op *op;

    if (!find_word(task, &target))
        return;
    al_task_uses(task, target.stadd - target.extent.before);
    op = al_op_take(0, task, target.rank, changed);
    if (op == NULL) {
        al_task_later(task);
        return;
    }
    task->in_flight++;
    if (!al_op_armw(op, target.id, task, target.stadd)) {
        task->in_flight--;
        al_task_later(task);
    }
}

void al_task_step(struct al_task *task)
{
    if (task->state == AL_REPORTS)
        al_command_report(task);
    else if (task->kind == AL_COPY)
        step_copy(task);
    else if (task->stage == CHANGED)
        give_value(task);
    else
        change_word(task);
}
