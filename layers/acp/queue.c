/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of GMAs, their handles and their order. A GMA stays in the slot (handle modulo queue
 * length) until it and all GMAs issued before it are complete. GMAs that wait for their order are
 * in a sorted list; al_queue_start_waiting() starts them when `complete` reaches their order.
 */
#include "queue.h"
#include "ctx.h"
#include "lock.h"
#include "log.h"
#include "net.h"
#include "options.h"
#include "progress.h"
#include "watch.h"

#include <sys/mman.h>

#include "../common/stall.h"

enum { LONG_COPY = 1 << 20 /* bytes; a few hundred such copies take a second */ };

static struct al_task *slot_of(uint64_t handle)
{
    return &al.queue.slots[handle % AL_QUEUE];
}

static void set_complete(uint64_t handle)
{
    __atomic_store_n(&al.handles.complete, handle, __ATOMIC_RELEASE);
}

bool al_queue_setup(void)
{
    al.queue.slots = mmap(NULL, AL_QUEUE * sizeof(*al.queue.slots), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (al.queue.slots == MAP_FAILED) {
        al.queue.slots = NULL;
        al_log("acp_init: no memory for a queue of %zu bytes", AL_QUEUE * sizeof(*al.queue.slots));
        return false;
    }
    al.handles.issued = al_option_first_handle() - 1;
    set_complete(al.handles.issued);
    al.queue.waiting = NULL;
    return true;
}

void al_queue_close(void)
{
    if (al.queue.slots != NULL)
        munmap(al.queue.slots, AL_QUEUE * sizeof(*al.queue.slots));
    al.queue.slots = NULL;
    set_complete(0);
}

void al_queue_count_usage(struct al_usage *usage)
{
    usage->fixed += AL_QUEUE * sizeof(*al.queue.slots);
}

struct al_task *al_queue_slot(uint32_t slot)
{
    return &al.queue.slots[slot % AL_QUEUE];
}

uint32_t al_queue_slot_of(const struct al_task *task)
{
    return (uint32_t)(task - al.queue.slots);
}

bool al_queue_idle(void)
{
    return al.handles.complete == al.handles.issued;
}

void al_queue_complete(struct al_task *task)
{
    uint64_t complete = al.handles.complete;

    task->state = AL_ENDED;
    while (complete < al.handles.issued && slot_of(complete + 1)->state == AL_ENDED)
        slot_of(++complete)->state = AL_FREE;
    set_complete(complete);
}

/* Inserts behind GMAs of the same order, usually at the end of the list. */
static void wait_in_order(struct al_task *task)
{
    struct al_task **link = &al.queue.waiting;

    task->state = AL_WAITS;
    if (al.queue.waiting != NULL && al.queue.last_waiting->order <= task->order)
        link = &al.queue.last_waiting->next;
    while (*link != NULL && (*link)->order <= task->order)
        link = &(*link)->next;
    task->next = *link;
    *link = task;
    if (task->next == NULL)
        al.queue.last_waiting = task;
}

void al_queue_wait_for_all(struct al_task *task)
{
    uint64_t first = al.handles.complete + 1;

    task->order = al.handles.complete + (al_queue_slot_of(task) - first) % AL_QUEUE;
    wait_in_order(task);
}

bool al_queue_start_waiting(void)
{
    bool any = false;

    while (al.queue.waiting != NULL && al.queue.waiting->order <= al.handles.complete) {
        struct al_task *task = al.queue.waiting;

        al.queue.waiting = task->next;
        task->next = NULL;
        task->state = AL_RUNS;
        al_task_step(task);
        any = true;
    }
    return any;
}

/* Logs which handle a call waits for, and which GMA is the first incomplete one. */
static void log_stall(const struct lc_stall_timer *stall, const char *function, uint64_t handle)
{
    uint64_t first = al.handles.complete + 1;
    char text[AL_TASK_TEXT_SIZE];

    al_log("%s: has waited %llu s for handle %llu; the first of %llu that are not complete is "
           "%llu, %s",
           function, lc_stall_seconds(stall), (unsigned long long)handle,
           (unsigned long long)(handle - al.handles.complete), (unsigned long long)first,
           al_task_describe(slot_of(first), text));
}

/* Waits until the queue has room; releases the lock meanwhile. */
static void wait_for_room(const char *function)
{
    struct lc_stall_timer stall = {0};
    uint32_t idle = 0;

    while (al.handles.issued - al.handles.complete == AL_QUEUE) {
        if (lc_stall_should_log(&stall, idle))
            log_stall(&stall, function, al.handles.complete + 1);
        al_progress_or_wait(&idle);
    }
    al_progress_wait_done();
}

/* Finds the handle that must be complete first. False: the order was never issued. */
static bool resolve_order(uint64_t order, uint64_t *after)
{
    if (order == ACP_HANDLE_ALL || order == ACP_HANDLE_CONT)
        *after = al.handles.issued;
    else
        *after = order;
    return *after <= al.handles.issued;
}

acp_handle_t al_queue_issue(const struct al_task *what, acp_handle_t order, const char *function)
{
    struct al_task *task;
    uint64_t after, handle;

    if (__builtin_expect(al.handles.issued - al.handles.complete == AL_QUEUE, 0))
        wait_for_room(function);
    if (!resolve_order((uint64_t)order, &after)) {
        al_log("%s: order %lld was never issued: the last handle is %llu", function,
               (long long)order, (unsigned long long)al.handles.issued);
        return ACP_HANDLE_NULL;
    }
    handle = ++al.handles.issued;
    task = slot_of(handle);
    *task = *what;
    task->order = after;
    if (after > al.handles.complete) {
        wait_in_order(task);
    } else {
        task->state = AL_RUNS;
        al_task_step(task);
        for (int polls = 0; polls < AL_POLLS && al_net_poll(); polls++)
            ; /* on one host, what was started is complete now */
    }
    if (what->kind == AL_COPY && what->size >= LONG_COPY)
        al_watch_check_next();
    al_watch_poll(); /* the program may make no other call, and the thread may get no core */
    return (acp_handle_t)handle;
}

static void complete_upto(const char *function, uint64_t handle)
{
    struct lc_stall_timer stall = {0};
    uint32_t idle = 0;

    while (al.running && al.handles.complete < handle) {
        if (lc_stall_should_log(&stall, idle))
            log_stall(&stall, function, handle);
        if (al_progress())
            idle = 0;
        else if (al.handles.complete < handle)
            al_progress_wait(&idle);
    }
    al_progress_wait_done();
}

void al_queue_complete_all(const char *function)
{
    complete_upto(function, al.handles.issued);
}

/* The last handle that a call waits for. 0 for a handle that was never issued. */
static uint64_t last_asked(acp_handle_t handle)
{
    if ((uint64_t)handle == ACP_HANDLE_ALL || (uint64_t)handle == ACP_HANDLE_CONT)
        return al.handles.issued;
    return (uint64_t)handle <= al.handles.issued ? (uint64_t)handle : 0;
}

/* ALL and CONT are greater than any handle. */
static bool is_complete(acp_handle_t handle)
{
    return (uint64_t)handle <= __atomic_load_n(&al.handles.complete, __ATOMIC_ACQUIRE);
}

void acp_complete(acp_handle_t handle)
{
    if (__builtin_expect(is_complete(handle), 1))
        return;
    al_lock();
    if (al.running)
        complete_upto("acp_complete", last_asked(handle));
    else
        al_log("acp_complete: before acp_init");
    al_unlock();
}

int acp_inquire(acp_handle_t handle)
{
    int pending = 0;

    if (is_complete(handle))
        return 0;
    al_lock();
    if (al.running) {
        if (al.handles.complete < last_asked(handle))
            al_progress();
        pending = al.handles.complete < last_asked(handle);
    } else {
        al_log("acp_inquire: before acp_init");
    }
    al_unlock();
    return pending;
}
