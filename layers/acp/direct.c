/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common case: a copy between memory of this process and memory of another one, both of which
 * were used before, that waits for nothing. acp_copy() posts it and polls once. Where uTofu has
 * executed it by then, as between processes of one host, it is complete when acp_copy() returns: no
 * entry of the queue and no op was touched. Otherwise it becomes an ordinary GMA in flight. What
 * this file does not know, queue.c and task.c do, and tell it what they found.
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

void al_direct_forget_all(void)
{
    own.range.size = 0;
    for (int i = 0; i < REMOTES; i++)
        remotes[i].range.size = 0;
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
static struct al_op *make_ordinary(struct al_task *task, acp_ga_t dst, acp_ga_t src, uint64_t size)
{
    *task = (struct al_task){.kind = AL_COPY,
                             .state = AL_RUNS,
                             .dst = dst,
                             .src = src,
                             .size = size,
                             .value = size,
                             .in_flight = 1};
    return al_task_op(task, al_rank_of(al_rank_of(src) == al.rank ? dst : src),
                      al_color_of(al_rank_of(src) == al.rank ? src : dst));
}

/* What one poll finds just behind the post. */
static void poll_once(uint8_t index, acp_ga_t dst, acp_ga_t src, uint64_t size)
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
    make_ordinary(task, dst, src, size);
    if (rc != UTOFU_ERR_NOT_FOUND)
        al_net_take(own.port, rc, &notice);
}

acp_handle_t al_direct_copy(acp_ga_t dst, acp_ga_t src, uint64_t size)
{
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
                                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, &port->ops[index]);
    if (rc != UTOFU_SUCCESS)
        return ACP_HANDLE_NULL; /* task.c tries it again, and says what is wrong */
    handle = ++al_handles.issued;
    poll_once(index, dst, src, size);
    return (acp_handle_t)handle;
}
