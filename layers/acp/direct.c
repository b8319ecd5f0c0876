/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common case: a copy between memory of this process and memory of another one, both of which
 * were used before, that waits for nothing. acp_copy() posts it and polls once. Where uTofu has
 * executed it by then, as between processes of one host, it is complete when acp_copy() returns: no
 * entry of the queue and no op was touched. Otherwise it becomes an ordinary GMA in flight. All
 * other copies are for queue.c and task.c, which hands over what it looked up (al_direct_learn).
 */
#include "layer.h"

enum { MAX_SIZE = 16777215, REMOTES = 16 }; /* uTofu's limit */

/* A range of GAs, and where it lies. The STADD of a GA is the GA plus `shift`. */
struct range {
    acp_ga_t begin;
    uint64_t size; /* 0: none */
    uint64_t shift;
};

static struct {
    struct range range;
    struct al_port *port;
} own; /* of this process, used last */

static struct remote {
    struct range range;
    utofu_vcq_id_t id;
} remotes[REMOTES];

/* The puts that were issued last, one behind the other, are on their way to one region on one VCQ.
 * One more with ACP_HANDLE_CONT need not wait for them, where nothing else is pending: uTofu's
 * strong order has the same effect. */
static struct {
    uint64_t first, last; /* handles; 0: none */
    acp_ga_t region;
    const struct al_port *port;
} run;

void al_direct_forget_all(void)
{
    run.last = 0;
    own.range.size = 0;
    for (int i = 0; i < REMOTES; i++)
        remotes[i].range.size = 0;
}

void al_direct_use(struct al_use *use)
{
    use->fixed += sizeof(own) + sizeof(remotes) + sizeof(run);
}

/* By rank, color and tag; a region of class 1 has several places. */
static struct remote *remote_at(acp_ga_t ga)
{
    return &remotes[(ga >> al_address_offset_bits) * 0x9e3779b97f4a7c15ull >> 60];
}

static bool is_within(const struct range *range, acp_ga_t ga, uint64_t size)
{
    uint64_t offset = ga - range->begin;

    return offset < range->size && size <= range->size - offset;
}

void al_direct_forget(acp_ga_t ga)
{
    struct remote *remote = remote_at(ga);

    run.last = 0;
    if (is_within(&remote->range, ga, 0))
        remote->range.size = 0;
}

static struct range range_of(acp_ga_t ga, const struct al_extent *extent, utofu_stadd_t stadd)
{
    return (struct range){.begin = ga - extent->before, .size = extent->size, .shift = stadd - ga};
}

void al_direct_learn(acp_ga_t own_ga, const struct al_extent *own_extent, utofu_stadd_t mine,
                     acp_ga_t remote_ga, const struct al_target *target)
{
    own.range = range_of(own_ga, own_extent, mine);
    own.port = al_port(al_color_of(own_ga));
    *remote_at(remote_ga) = (struct remote){
        .range = range_of(remote_ga, &target->extent, target->stadd), .id = target->id};
}

/* It is not complete: it gets what an ordinary one has. The op is the next that is free. */
static struct al_op *make_ordinary(struct al_task *task, const struct al_task *what)
{
    bool put = al_rank_of(what->src) == al.rank;

    *task = *what;
    task->state = AL_RUNS;
    task->value = what->size;
    task->in_flight = 1;
    al_task_uses(task, remote_at(put ? what->dst : what->src)->range.begin +
                           remote_at(put ? what->dst : what->src)->range.shift);
    return al_task_op(task, al_rank_of(put ? what->dst : what->src),
                      al_color_of(put ? what->src : what->dst));
}

static bool continues_run(uint64_t handle, acp_ga_t region)
{
    return run.last != 0 && run.last + 1 == handle && run.region == region &&
           run.port == own.port && al_handles.complete + 1 >= run.first;
}

static void note_run(uint64_t handle, bool put, acp_ga_t region)
{
    if (!put)
        run.last = 0;
    else if (continues_run(handle, region))
        run.last = handle;
    else
        run = (typeof(run)){.first = handle, .last = handle, .region = region, .port = own.port};
}

/* What one poll finds just behind the post. */
static void poll_once(uint8_t index, const struct al_task *what)
{
    struct utofu_mrq_notice notice;
    struct al_task *task;
    int rc = utofu_poll_mrq(own.port->vcq, 0, &notice);

    if (__builtin_expect(rc == UTOFU_SUCCESS && notice.edata == index &&
                             notice.notice_type != UTOFU_MRQ_TYPE_RMT_PUT,
                         1)) {
        if (__builtin_expect(al_handles.complete + 1 == al_handles.issued, 1))
            __atomic_store_n(&al_handles.complete, al_handles.issued, __ATOMIC_RELEASE);
        else
            al_queue_slot((uint32_t)(al_handles.issued % AL_QUEUE))->state = AL_ENDED;
        return;
    }
    task = al_queue_slot((uint32_t)(al_handles.issued % AL_QUEUE));
    make_ordinary(task, what);
    note_run(al_handles.issued, al_rank_of(what->src) == al.rank,
             remote_at(what->dst)->range.begin);
    if (rc != UTOFU_ERR_NOT_FOUND)
        al_net_take(own.port, rc, &notice);
}

/* `behind`: with strong order. */
static acp_handle_t start(acp_ga_t dst, acp_ga_t src, uint64_t size, bool behind)
{
    const struct al_task what = {
        .kind = AL_COPY, .dst = dst, .src = src, .size = size, .behind = behind};
    bool put = al_rank_of(src) == al.rank;
    acp_ga_t own_ga = put ? src : dst, remote_ga = put ? dst : src;
    const struct remote *remote = remote_at(remote_ga);
    struct al_port *port = own.port;
    uint64_t handle;
    uint8_t index;
    int rc;

    if (!is_within(&own.range, own_ga, size) || !is_within(&remote->range, remote_ga, size) ||
        size - 1 >= MAX_SIZE || port->num_free == 0)
        return ACP_HANDLE_NULL;
    index = port->free_ops[port->num_free - 1];
    rc = (put ? utofu_put : utofu_get)(port->vcq, remote->id, own_ga + own.range.shift,
                                       remote_ga + remote->range.shift, size, index,
                                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |
                                           (behind ? UTOFU_ONESIDED_FLAG_STRONG_ORDER : 0),
                                       &port->ops[index]);
    if (rc != UTOFU_SUCCESS)
        return ACP_HANDLE_NULL; /* task.c tries it again, and says what is wrong */
    handle = ++al_handles.issued;
    poll_once(index, &what);
    return (acp_handle_t)handle;
}

acp_handle_t al_direct_copy(acp_ga_t dst, acp_ga_t src, uint64_t size)
{
    return start(dst, src, size, false);
}

acp_handle_t al_direct_copy_behind(acp_ga_t dst, acp_ga_t src, uint64_t size)
{
    if (al_rank_of(src) == al.rank &&
        continues_run(al_handles.issued + 1, remote_at(dst)->range.begin))
        return start(dst, src, size, true);
    return ACP_HANDLE_NULL;
}
