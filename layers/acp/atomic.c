/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic operations: an ARMW on the word, whichever process owns it, followed by a put of the old
 * value.
 */
#include "atomic.h"

#include "address.h"
#include "ctx.h"
#include "log.h"
#include "memory.h"
#include "net.h"
#include "remote.h"

enum stage { BEGINS, CHANGED /* the word is changed, and its old value is to be written */ };

static void finish_return(struct lc_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->arg;

    (void)old_value;
    task->in_flight--;
    if (rc == UTOFU_SUCCESS)
        al_task_end(task);
    else if (al_remote_may_retry(task, rc, task->dst))
        al_task_step(task);
    else
        al_task_fail(task, "the word has changed, but the old value cannot be written: %s",
                     lc_utofu_error());
}

/* Writes the old value to dst. */
static void write_old_value(struct al_task *task)
{
    struct al_target target;
    struct lc_op *op;
    void *mine;

    if (al_is_mine(task->dst)) {
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
    al_remote_set_region(task, target.stadd - target.extent.before);
    op = lc_op_alloc(al_port(0), 0, target.rank, finish_return, task);
    if (op == NULL) {
        al_task_retry_later(task);
        return;
    }
    task->in_flight++;
    if (!lc_op_put_word(op, target.id, task->value, target.stadd, task->width, 0)) {
        task->in_flight--;
        al_task_retry_later(task);
    }
}

static void finish_change(struct lc_op *op, int rc, uint64_t old_value)
{
    struct al_task *task = op->arg;

    task->in_flight--;
    if (rc == UTOFU_SUCCESS) {
        task->value = old_value;
        task->stage = CHANGED;
        task->retried = false;
        write_old_value(task);
    } else if (al_remote_may_retry(task, rc, task->src)) {
        al_task_step(task);
    } else {
        al_task_fail(task, "%s", lc_utofu_error());
    }
}

static bool find_word(struct al_task *task, struct al_target *target)
{
    if (!al_is_mine(task->src))
        return al_remote_find(task->src, task, target) == AL_FOUND;
    target->rank = al.job.rank;
    target->extent = (struct al_extent){0};
    target->id = al_port(al_color_of(task->src))->id;
    if (al_memory_find(task->src, task->width, &target->stadd) != NULL)
        return true;
    al_task_fail(task, "the word is not registered any more");
    return false;
}

static int start_armw(struct lc_op *op, const struct al_target *to, const struct al_task *task)
{
    static const enum utofu_armw_op codes[] = {
        [AL_SWAP] = UTOFU_ARMW_OP_SWAP, [AL_ADD] = UTOFU_ARMW_OP_ADD, [AL_XOR] = UTOFU_ARMW_OP_XOR,
        [AL_OR] = UTOFU_ARMW_OP_OR,     [AL_AND] = UTOFU_ARMW_OP_AND,
    };
    const enum utofu_armw_op code = codes[task->kind];

    if (task->width == 4)
        return utofu_armw4(op->port->vcq, to->id, code, (uint32_t)task->size, to->stadd, op->index,
                           UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, op);
    return utofu_armw8(op->port->vcq, to->id, code, task->size, to->stadd, op->index,
                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, op);
}

static int start_cswap(struct lc_op *op, const struct al_target *to, const struct al_task *task)
{
    if (task->width == 4)
        return utofu_cswap4(op->port->vcq, to->id, (uint32_t)task->value, (uint32_t)task->size,
                            to->stadd, op->index, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, op);
    return utofu_cswap8(op->port->vcq, to->id, task->value, task->size, to->stadd, op->index,
                        UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, op);
}

static void change_word(struct al_task *task)
{
    struct al_target target;
    struct lc_op *op;

    if (!find_word(task, &target))
        return;
    al_remote_set_region(task, target.stadd - target.extent.before);
    op = lc_op_alloc(al_port(0), 0, target.rank, finish_change, task);
    if (op == NULL) {
        al_task_retry_later(task);
        return;
    }
    task->in_flight++;
    if (!lc_op_check_start(op, task->kind == AL_CAS ? start_cswap(op, &target, task)
                                                    : start_armw(op, &target, task))) {
        task->in_flight--;
        al_task_retry_later(task);
    }
}

void al_atomic_step(struct al_task *task)
{
    if (task->stage == CHANGED)
        write_old_value(task);
    else
        change_word(task);
}
