/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path of acp_copy(): a copy between this process and another one, with cached regions and
 * a fulfilled order. acp_copy() posts the copy and polls once. If the copy is complete then, as it
 * is between processes of one host, acp_copy() returns without touching the queue or an op.
 * Otherwise the copy becomes an ordinary GMA in flight. al_gma_copy(), queue.c and task.c handle
 * all other copies, and fill the cache (al_ranges_cache()). Commands of other processes use the
 * same path.
 */
#include "direct.h"
#include "address.h"
#include "copy.h"
#include "ctx.h"
#include "lock.h"
#include "log.h"
#include "memory.h"
#include "net.h"
#include "queue.h"
#include "ranges.h"
#include "task.h"
#include "watch.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum {
    MAX_SIZE = 16777215, /* limit of uTofu */
    WATCH_EVERY = 256,   /* copies from one call of al_watch_poll() to the next */
};

ALWAYS_INLINE struct al_remote_range *remote_at(acp_ga_t ga)
{
    return al_ranges_at(&al.ranges, al.address.offset_bits, ga);
}

/* Makes an ordinary task of a copy in flight. al_copy_op() allocates the op that the post has used.
 * */
static void make_task(struct al_task *task)
{
    bool put = al_rank_of(task->src) == al.job.rank;
    acp_ga_t remote_ga = put ? task->dst : task->src;
    const struct al_range *range = &remote_at(remote_ga)->range;

    task->state = AL_RUNS;
    task->value = task->size;
    task->in_flight = 1;
    al_remote_set_region(task, range->begin + range->shift);
    al_copy_op(task, al_rank_of(remote_ga), al_color_of(put ? task->src : task->dst));
}

static bool continues_run(uint64_t handle, acp_ga_t region)
{
    return al.ranges.run.last != 0 && al.ranges.run.last + 1 == handle &&
           al.ranges.run.region == region && al.ranges.run.port == al.ranges.own.port &&
           al.handles.complete + 1 >= al.ranges.run.first;
}

static void note_run(uint64_t handle, bool put, acp_ga_t region)
{
    if (!put)
        al.ranges.run.last = 0;
    else if (continues_run(handle, region))
        al.ranges.run.last = handle;
    else
        al.ranges.run = (typeof(al.ranges.run)){
            .first = handle, .last = handle, .region = region, .port = al.ranges.own.port};
}

enum posted { REFUSED, ENDED, IN_FLIGHT };

struct direction {
    bool put;
    acp_ga_t own, remote;
    const struct al_remote_range *cached; /* the cache entry of `remote` */
};

ALWAYS_INLINE struct direction direction_of(acp_ga_t dst, acp_ga_t src)
{
    bool put = al_rank_of(src) == al.job.rank;
    acp_ga_t remote_ga = put ? dst : src;

    return (struct direction){put, put ? src : dst, remote_ga, remote_at(remote_ga)};
}

/* Posts the copy and polls once; *polled is the result of the poll. REFUSED: not a copy for the
 * fast path, or uTofu rejected it; then task.c tries again and logs errors. */
ALWAYS_INLINE enum posted post_copy(const struct direction *direction, uint64_t size,
                                    unsigned long int flags, struct utofu_mrq_notice *notice,
                                    int *polled)
{
    acp_ga_t own_ga = direction->own, remote_ga = direction->remote;
    const struct al_remote_range *remote = direction->cached;
    struct lc_port *port = al.ranges.own.port;
    uint32_t index;
    int rc;

    if (!al_range_has(&al.ranges.own.range, own_ga, size) ||
        !al_range_has(&remote->range, remote_ga, size) || size - 1 >= MAX_SIZE ||
        port->num_free == 0)
        return REFUSED;
    index = port->free_ops[port->num_free - 1];
    rc = (direction->put ? utofu_put : utofu_get)(
        port->vcq, remote->id, own_ga + al.ranges.own.range.shift, remote_ga + remote->range.shift,
        size, index, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | flags, &port->ops[index]);
    if (__builtin_expect(rc != UTOFU_SUCCESS, 0))
        return REFUSED;
    rc = utofu_poll_mrq(port->vcq, 0, notice);
    if (__builtin_expect(
            rc == UTOFU_SUCCESS && notice->edata == index && lc_is_local_notice(notice), 1))
        return ENDED;
    *polled = rc;
    return IN_FLIGHT;
}

/* Handles a poll that found nothing, or the notice of another operation. */
static void take_polled(struct lc_port *port, int rc, const struct utofu_mrq_notice *notice)
{
    if (rc != UTOFU_ERR_NOT_FOUND)
        lc_port_handle_notice(port, rc, notice);
}

static __attribute__((noinline)) void keep_in_flight(acp_ga_t dst, acp_ga_t src, uint64_t size,
                                                     bool behind)
{
    uint64_t handle = al.handles.issued;
    struct al_task *task = al_queue_slot((uint32_t)(handle % AL_QUEUE));

    *task =
        (struct al_task){.kind = AL_COPY, .dst = dst, .src = src, .size = size, .behind = behind};
    make_task(task);
    note_run(handle, al_rank_of(src) == al.job.rank, remote_at(dst)->range.begin);
}

/* Requires room in the queue and a fulfilled order (or, with `behind`, the order of the current
 * run). ACP_HANDLE_NULL: not a copy for the fast path. */
ALWAYS_INLINE acp_handle_t try_copy(acp_ga_t dst, acp_ga_t src, uint64_t size,
                                    const struct direction *direction, bool behind)
{
    struct utofu_mrq_notice notice;
    int polled = 0;
    enum posted posted =
        post_copy(direction, size, behind ? UTOFU_ONESIDED_FLAG_STRONG_ORDER : 0, &notice, &polled);
    uint64_t handle;

    if (posted == REFUSED)
        return ACP_HANDLE_NULL;
    handle = ++al.handles.issued;
    if (__builtin_expect(posted == IN_FLIGHT, 0)) {
        keep_in_flight(dst, src, size, behind);
        take_polled(al.ranges.own.port, polled, &notice);
    } else if (__builtin_expect(al.handles.complete + 1 == handle, 1)) {
        __atomic_store_n(&al.handles.complete, handle, __ATOMIC_RELEASE);
    } else {
        al_queue_slot((uint32_t)(handle % AL_QUEUE))->state = AL_ENDED;
    }
    if (__builtin_expect(handle % WATCH_EVERY == 0, 0))
        al_watch_poll();
    return (acp_handle_t)handle;
}

static __attribute__((noinline)) acp_handle_t copy_behind(acp_ga_t dst, acp_ga_t src, uint64_t size)
{
    const struct direction direction = direction_of(dst, src);

    if (direction.put && continues_run(al.handles.issued + 1, direction.cached->range.begin))
        return try_copy(dst, src, size, &direction, true);
    return ACP_HANDLE_NULL;
}

acp_handle_t acp_copy(acp_ga_t dst, acp_ga_t src, size_t size, acp_handle_t order)
{
    const struct direction direction = direction_of(dst, src);
    acp_handle_t handle = ACP_HANDLE_NULL;
    uint64_t after = (uint64_t)order;

    al_lock();
    if (after >= ACP_HANDLE_CONT)
        after = al.handles.issued;
    if (__builtin_expect(al.handles.issued - al.handles.complete < AL_QUEUE, 1)) {
        if (__builtin_expect(after <= al.handles.complete, 1))
            handle = try_copy(dst, src, size, &direction, false);
        else if ((uint64_t)order == ACP_HANDLE_CONT)
            handle = copy_behind(dst, src, size);
    }
    if (__builtin_expect(handle == ACP_HANDLE_NULL, 0))
        handle = al_gma_copy(dst, src, size, order);
    al_unlock();
    return handle;
}

bool al_direct_execute(struct al_task *task)
{
    const struct direction direction = direction_of(task->dst, task->src);
    struct utofu_mrq_notice notice;
    int polled = 0;
    enum posted posted = post_copy(&direction, task->size, 0, &notice, &polled);

    if (posted == ENDED) {
        al_task_end(task);
    } else if (posted == IN_FLIGHT) {
        make_task(task);
        take_polled(al.ranges.own.port, polled, &notice);
    }
    return posted != REFUSED;
}

/*
 * Functions that issue GMAs
 */

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
