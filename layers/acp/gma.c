/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that issue GMAs: they check what can be checked here, and hand over to the queue.
 */
#include "layer.h"

static bool is_good(acp_ga_t ga, const char *what, const char *function)
{
    struct al_place place;

    if (al_address_split(ga, &place))
        return true;
    al_log("%s: %s 0x%llx is no GA of this job", function, what, (unsigned long long)ga);
    return false;
}

/* Of others' regions only the owner knows the sizes, but for the starter memory, which has the same
 * size everywhere. */
static bool is_inside(acp_ga_t ga, uint64_t size, const char *what, const char *function)
{
    struct al_place place;
    bool good = true;

    al_address_split(ga, &place);
    if (place.rank == al.rank) {
        good = al_memory_find(ga, size, NULL) != NULL;
    } else if (place.tag < AL_STAG_STARTER + AL_STARTERS) {
        uint64_t room = al.starter_size[place.tag - AL_STAG_STARTER];

        good = place.color == 0 && place.offset <= room && size <= room - place.offset;
    }
    if (!good)
        al_log("%s: %s 0x%llx: %llu bytes from there are not inside a registered region of rank %u",
               function, what, (unsigned long long)ga, (unsigned long long)size, place.rank);
    return good;
}

static bool is_aligned(acp_ga_t ga, uint32_t width, const char *what, const char *function)
{
    if (width == 0 || ga % width == 0)
        return true;
    al_log("%s: %s 0x%llx: its address is no multiple of %u", function, what,
           (unsigned long long)ga, width);
    return false;
}

static bool is_running(const char *function)
{
    if (!al.running)
        al_log("%s: before acp_init", function);
    return al.running;
}

static acp_handle_t issue(const struct al_task *what, uint64_t size, acp_handle_t order,
                          const char *function)
{
    acp_handle_t handle = ACP_HANDLE_NULL;

    al_lock();
    if (is_running(function) && is_good(what->dst, "dst", function) &&
        is_good(what->src, "src", function) &&
        is_aligned(what->dst, what->width, "dst", function) &&
        is_aligned(what->src, what->width, "src", function) &&
        is_inside(what->dst, size, "dst", function) && is_inside(what->src, size, "src", function))
        handle = al_queue_issue(what, order, function);
    al_unlock();
    return handle;
}

static __attribute__((noinline)) acp_handle_t copy(acp_ga_t dst, acp_ga_t src, size_t size,
                                                   acp_handle_t order)
{
    const struct al_task what = {.kind = AL_COPY, .dst = dst, .src = src, .size = size};

    return issue(&what, size, order, "acp_copy");
}

acp_handle_t acp_copy(acp_ga_t dst, acp_ga_t src, size_t size, acp_handle_t order)
{
    acp_handle_t handle = ACP_HANDLE_NULL;

    al_lock();
    if (__builtin_expect(al_queue_starts_at_once(order), 1))
        handle = al_direct_copy(dst, src, size);
    else if ((uint64_t)order == ACP_HANDLE_CONT && al_queue_has_room())
        handle = al_direct_copy_behind(dst, src, size);
    al_unlock();
    return handle != ACP_HANDLE_NULL ? handle : copy(dst, src, size, order);
}

static acp_handle_t atomic(enum al_kind kind, uint8_t width, acp_ga_t dst, acp_ga_t src,
                           uint64_t operand, uint64_t comparand, acp_handle_t order,
                           const char *function)
{
    const struct al_task what = {.kind = (uint8_t)kind,
                                 .width = width,
                                 .dst = dst,
                                 .src = src,
                                 .size = operand,
                                 .value = comparand};

    return issue(&what, width, order, function);
}

acp_handle_t acp_cas4(acp_ga_t dst, acp_ga_t src, uint32_t oldval, uint32_t newval,
                      acp_handle_t order)
{
    return atomic(AL_CAS, 4, dst, src, newval, oldval, order, __func__);
}

acp_handle_t acp_cas8(acp_ga_t dst, acp_ga_t src, uint64_t oldval, uint64_t newval,
                      acp_handle_t order)
{
    return atomic(AL_CAS, 8, dst, src, newval, oldval, order, __func__);
}

acp_handle_t acp_swap4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order)
{
    return atomic(AL_SWAP, 4, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_swap8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order)
{
    return atomic(AL_SWAP, 8, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_add4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order)
{
    return atomic(AL_ADD, 4, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_add8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order)
{
    return atomic(AL_ADD, 8, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_xor4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order)
{
    return atomic(AL_XOR, 4, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_xor8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order)
{
    return atomic(AL_XOR, 8, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_or4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order)
{
    return atomic(AL_OR, 4, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_or8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order)
{
    return atomic(AL_OR, 8, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_and4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order)
{
    return atomic(AL_AND, 4, dst, src, value, 0, order, __func__);
}

acp_handle_t acp_and8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order)
{
    return atomic(AL_AND, 8, dst, src, value, 0, order, __func__);
}
