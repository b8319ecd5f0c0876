/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that issue GMAs: they check their arguments and pass a task to the queue.
 * acp_copy() in direct.c calls this file for copies outside the fast path.
 */
#include "gma.h"
#include "address.h"
#include "ctx.h"
#include "lock.h"
#include "log.h"
#include "memory.h"
#include "queue.h"

/* The size of a region of another process is known only to its owner, except for starter memory,
 * whose size is the same everywhere. */
static bool is_inside(acp_ga_t ga, const struct al_place *place, uint64_t size)
{
    uint64_t room;

    if (place->rank == al.job.rank)
        return al_memory_find(ga, size, NULL) != NULL;
    if (place->tag >= AL_STAG_STARTER + AL_STARTERS)
        return true;
    room = al.starter_size[place->tag - AL_STAG_STARTER];
    return place->color == 0 && place->offset <= room && size <= room - place->offset;
}

/* width: of an atomic operation, otherwise 0. */
static bool is_good(acp_ga_t ga, uint64_t size, uint32_t width, const char *what,
                    const char *function)
{
    struct al_place place;

    if (!al_address_unpack(ga, &place))
        al_log("%s: %s 0x%llx is not a GA of this job", function, what, (unsigned long long)ga);
    else if (width != 0 && ga % width != 0)
        al_log("%s: %s 0x%llx: its address is not a multiple of %u", function, what,
               (unsigned long long)ga, width);
    else if (!is_inside(ga, &place, size))
        al_log("%s: %s 0x%llx: %llu bytes from there are not inside a registered region of rank %u",
               function, what, (unsigned long long)ga, (unsigned long long)size, place.rank);
    else
        return true;
    return false;
}

static bool is_running(const char *function)
{
    if (!al.running)
        al_log("%s: before acp_init", function);
    return al.running;
}

static acp_handle_t issue_task(const struct al_task *what, uint64_t size, acp_handle_t order,
                               const char *function)
{
    if (is_running(function) && is_good(what->dst, size, what->width, "dst", function) &&
        is_good(what->src, size, what->width, "src", function))
        return al_queue_issue(what, order, function);
    return ACP_HANDLE_NULL;
}

acp_handle_t al_gma_copy(acp_ga_t dst, acp_ga_t src, size_t size, acp_handle_t order)
{
    const struct al_task what = {.kind = AL_COPY, .dst = dst, .src = src, .size = size};

    return issue_task(&what, size, order, "acp_copy");
}

static acp_handle_t issue_atomic(enum al_kind kind, uint8_t width, acp_ga_t dst, acp_ga_t src,
                                 uint64_t operand, uint64_t comparand, acp_handle_t order,
                                 const char *function)
{
    const struct al_task what = {.kind = (uint8_t)kind,
                                 .width = width,
                                 .dst = dst,
                                 .src = src,
                                 .size = operand,
                                 .value = comparand};
    acp_handle_t handle;

    al_lock();
    handle = issue_task(&what, width, order, function);
    al_unlock();
    return handle;
}

acp_handle_t acp_cas4(acp_ga_t dst, acp_ga_t src, uint32_t oldval, uint32_t newval,
                      acp_handle_t order)
{
    return issue_atomic(AL_CAS, 4, dst, src, newval, oldval, order, __func__);
}

acp_handle_t acp_cas8(acp_ga_t dst, acp_ga_t src, uint64_t oldval, uint64_t newval,
                      acp_handle_t order)
{
    return issue_atomic(AL_CAS, 8, dst, src, newval, oldval, order, __func__);
}

acp_handle_t acp_swap4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order)
{
    return issue_atomic(AL_SWAP, 4, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_swap8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order)
{
    return issue_atomic(AL_SWAP, 8, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_add4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order)
{
    return issue_atomic(AL_ADD, 4, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_add8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order)
{
    return issue_atomic(AL_ADD, 8, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_xor4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order)
{
    return issue_atomic(AL_XOR, 4, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_xor8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order)
{
    return issue_atomic(AL_XOR, 8, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_or4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order)
{
    return issue_atomic(AL_OR, 4, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_or8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order)
{
    return issue_atomic(AL_OR, 8, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_and4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order)
{
    return issue_atomic(AL_AND, 4, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_and8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order)
{
    return issue_atomic(AL_AND, 8, dst, src, value, 0, order, __func__);
}
