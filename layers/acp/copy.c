/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies with at least one GA of this process: a put, a get, or a memmove. A step does what is
 * possible now; the completion of an operation steps the task again.
 */
#include "copy.h"

#include <string.h>

#include "address.h"
#include "ctx.h"
#include "log.h"
#include "memory.h"
#include "net.h"
#include "queue.h"
#include "ranges.h"
#include "remote.h"

enum {
    MAX_PIECE = 16777215,
    PIECE = 8 << 20
}; /* the limit of uTofu, and the piece size of longer copies */
enum stage {
    BEGINS,
    AGAIN, /* restart the copy when none of its operations is in flight */
};

static acp_ga_t remote_of(const struct al_task *task)
{
    return al_is_mine(task->src) ? task->dst : task->src;
}

/* Counts down the operations in flight, and continues or ends the copy after the last one. */
static void finish_communication(struct al_task *task)
{
    if (--task->in_flight > 0)
        return;
    if (task->stage == AGAIN) {
        task->stage = BEGINS;
        task->value = 0;
        if (task->behind)
            al_queue_wait_for_all(task); /* strong order does not protect the restarted copy */
        else
            al_task_step(task);
    } else if (task->failed || task->value == task->size) {
        al_task_end(task);
    } else {
        al_task_retry_later(task);
    }
}

static void finish_piece(struct lc_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->arg;

    (void)old_value;
    if (rc != UTOFU_SUCCESS && task->stage != AGAIN && !task->failed) {
        if (al_remote_may_retry(task, rc, remote_of(task)))
            task->stage = AGAIN;
        else
            al_task_fail_later(task, "%s", lc_utofu_error());
    }
    finish_communication(task);
}

struct lc_op *al_copy_op(struct al_task *task, uint32_t rank, uint32_t color)
{
    return lc_op_alloc(al_port(color), 0, rank, finish_piece, task);
}

static bool start_piece(struct al_task *task, const struct al_target *target, bool put,
                        utofu_stadd_t mine)
{
    uint32_t color = al_color_of(put ? task->src : task->dst);
    struct lc_op *op = al_copy_op(task, target->rank, color);
    uint64_t left = task->size - task->value, at = task->value;
    size_t size = left <= MAX_PIECE ? left : PIECE;
    bool started;

    if (op == NULL)
        return false;
    task->in_flight++;
    task->value += size;
    started = put ? lc_op_put(op, target->id, mine + at, target->stadd + at, size, 0)
                  : lc_op_get(op, target->id, mine + at, target->stadd + at, size);
    if (!started) {
        task->in_flight--;
        task->value = at;
    }
    return started;
}

static void start_pieces(struct al_task *task, const struct al_target *target, bool put,
                         utofu_stadd_t mine)
{
    task->in_flight++; /* keeps the task alive in this function */
    while (task->value < task->size && !task->failed && task->stage != AGAIN)
        if (!start_piece(task, target, put, mine))
            break;
    finish_communication(task);
}

/* The next copy between the two regions finds both in the cache. */
static void cache_ranges(acp_ga_t own, utofu_stadd_t mine, acp_ga_t remote,
                         const struct al_target *target)
{
    const struct al_extent extent = al_memory_extent(own);

    al_ranges_cache(own, &extent, mine, remote, target);
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
        cache_ranges(own, mine, remote_of(task), &target);
        al_remote_set_region(task, target.stadd - target.extent.before);
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

void al_copy_step(struct al_task *task)
{
    bool from_here = al_is_mine(task->src), to_here = al_is_mine(task->dst);

    if (task->size == 0)
        al_task_end(task);
    else if (from_here && to_here)
        copy_here(task);
    else
        copy_remote(task, from_here);
}
