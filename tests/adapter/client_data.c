/* SPDX-License-Identifier: Apache-2.0 */
/* Posting and polling: entries of queues in memory that the adapter's process has mapped, too. */
#include "client.h"

#include <errno.h>
#include <string.h>

/*** counts ***/

static struct ad_counts counts;

static void count(uint64_t *what, uint64_t n)
{
    __atomic_fetch_add(what, n, __ATOMIC_RELAXED);
}

void cl_counts(struct ad_counts *out)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(uint64_t); i++)
        ((uint64_t *)out)[i] = __atomic_load_n((const uint64_t *)&counts + i, __ATOMIC_RELAXED);
}

static void count_requests(const struct cl_qp *qp)
{
    for (uint32_t i = qp->sq->head; i != qp->built; i++) {
        const struct ad_wqe *wqe = ad_entry(client.segment, qp->sq, i);
        count(&counts.opcodes[wqe->opcode % AD_NUM_OPCODES], 1);
        count(&counts.signalled, (wqe->flags & IBV_SEND_SIGNALED) != 0);
        count(&counts.inlined, (wqe->flags & IBV_SEND_INLINE) != 0);
        count(&counts.fenced, (wqe->flags & IBV_SEND_FENCE) != 0);
        count(&counts.solicited, (wqe->flags & IBV_SEND_SOLICITED) != 0);
    }
    count(&counts.doorbells, 1);
}

static void count_completions(const struct ibv_wc *wc, int n)
{
    for (int i = 0; i < n; i++)
        count(wc[i].opcode & IBV_WC_RECV ? &counts.recvs : &counts.completions, 1);
}

static uint32_t used(const struct ad_ring *ring, uint32_t head)
{
    return head - AD_LOAD(ring->tail);
}

/*** receives ***/

static int put_receive(struct ad_ring *ring, const struct ibv_recv_wr *wr)
{
    struct ad_rwqe *entry = ad_entry(client.segment, ring, ring->head);

    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > ring->max_sge)
        return EINVAL;
    if (used(ring, ring->head) >= ring->limit)
        return ENOMEM;
    entry->wr_id = wr->wr_id;
    entry->num_sge = (uint32_t)wr->num_sge;
    for (uint32_t i = 0; i < entry->num_sge; i++)
        ((struct ibv_sge *)(entry + 1))[i] = wr->sg_list[i];
    AD_STORE(ring->head, ring->head + 1);
    return 0;
}

static int post_receives(struct ad_ring *ring, pthread_mutex_t *lock, struct ibv_recv_wr *wr,
                         struct ibv_recv_wr **bad)
{
    int rc = 0;

    pthread_mutex_lock(lock);
    for (; wr && !rc; wr = rc ? wr : wr->next)
        rc = put_receive(ring, wr);
    pthread_mutex_unlock(lock);
    if (rc)
        *bad = wr;
    return rc;
}

static int post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct cl_srq *srq = (struct cl_srq *)base;

    return post_receives(srq->ring, &srq->lock, wr, bad);
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct cl_qp *qp = (struct cl_qp *)base;
    int rc = EINVAL;

    *bad = wr;
    if (qp->rq && AD_LOAD(qp->sq->state) != IBV_QPS_RESET)
        rc = post_receives(qp->rq, &qp->lock, wr, bad);
    if (!rc && AD_LOAD(qp->sq->state) == IBV_QPS_ERR)
        cl_ring(qp); /* to be flushed */
    return rc;
}

/*** sends ***/

static bool takes_state(const struct cl_qp *qp)
{
    uint32_t state = AD_LOAD(qp->sq->state);

    return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE ||
           state == IBV_QPS_ERR;
}

static bool is_ud(const struct cl_qp *qp)
{
    return qp->qpx.qp_base.qp_type == IBV_QPT_UD;
}

/* The driver's checks before it puts a request into the queue. */
static int check_request(const struct cl_qp *qp, const struct ad_wqe *wqe)
{
    switch (wqe->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return 0;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return is_ud(qp) ? EINVAL : 0;
    case IBV_WR_RDMA_READ:
        return is_ud(qp) || wqe->flags & IBV_SEND_INLINE ? EINVAL : 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return is_ud(qp) || wqe->flags & IBV_SEND_INLINE || wqe->remote_addr % 8 ? EINVAL : 0;
    default:
        return EINVAL;
    }
}

static int put_inline(const struct cl_qp *qp, struct ad_wqe *wqe, const void *data, size_t size)
{
    if (wqe->inline_size + size > qp->max_inline)
        return EINVAL;
    memcpy((char *)(wqe + 1) + wqe->inline_size, data, size);
    wqe->inline_size += (uint32_t)size;
    return 0;
}

static int put_data(const struct cl_qp *qp, struct ad_wqe *wqe, const struct ibv_sge *sge, int num)
{
    int rc = 0;

    if (num < 0 || (uint32_t)num > qp->sq->max_sge)
        return EINVAL;
    if (!(wqe->flags & IBV_SEND_INLINE)) {
        for (int i = 0; i < num; i++)
            ((struct ibv_sge *)(wqe + 1))[i] = sge[i];
        wqe->num_sge = (uint32_t)num;
        return 0;
    }
    for (int i = 0; i < num && !rc; i++)
        rc = put_inline(qp, wqe, (void *)(uintptr_t)sge[i].addr, sge[i].length);
    return rc;
}

static uint32_t signal_all(const struct cl_qp *qp)
{
    return qp->sig_all ? IBV_SEND_SIGNALED : 0;
}

/* AD_FAULT_POST: does this one fail? */
static bool fails(void)
{
    uint32_t *to_go = &((struct ad_bells *)client.segment)->posts_to_go;

    return AD_LOAD(*to_go) && __atomic_sub_fetch(to_go, 1, __ATOMIC_RELAXED) == 0;
}

static int put_send(struct cl_qp *qp, const struct ibv_send_wr *wr)
{
    struct ad_wqe *wqe = ad_entry(client.segment, qp->sq, qp->built);

    if (used(qp->sq, qp->built) >= qp->sq->limit || fails())
        return ENOMEM;
    *wqe = (struct ad_wqe){.wr_id = wr->wr_id,
                           .opcode = wr->opcode,
                           .flags = wr->send_flags | signal_all(qp),
                           .imm = wr->imm_data};
    if (is_ud(qp)) {
        wqe->ah = wr->wr.ud.ah ? wr->wr.ud.ah->handle : 0;
        wqe->remote_qpn = wr->wr.ud.remote_qpn;
        wqe->qkey = wr->wr.ud.remote_qkey;
    } else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
               wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wqe->remote_addr = wr->wr.atomic.remote_addr;
        wqe->rkey = wr->wr.atomic.rkey;
        wqe->compare_add = wr->wr.atomic.compare_add;
        wqe->swap = wr->wr.atomic.swap;
    } else {
        wqe->remote_addr = wr->wr.rdma.remote_addr;
        wqe->rkey = wr->wr.rdma.rkey;
    }
    int rc = put_data(qp, wqe, wr->sg_list, wr->num_sge);
    if (!rc)
        rc = check_request(qp, wqe);
    if (!rc)
        qp->built++;
    return rc;
}

static void doorbell(struct cl_qp *qp)
{
    count_requests(qp);
    AD_STORE(qp->sq->head, qp->built);
    cl_ring(qp);
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct cl_qp *qp = (struct cl_qp *)base;
    int rc = takes_state(qp) ? 0 : EINVAL;

    pthread_mutex_lock(&qp->lock);
    qp->built = qp->sq->head;
    while (wr && !rc) {
        rc = put_send(qp, wr);
        if (!rc)
            wr = wr->next;
    }
    if (qp->built != qp->sq->head)
        doorbell(qp);
    pthread_mutex_unlock(&qp->lock);
    if (rc)
        *bad = wr;
    return rc;
}

/*** ibv_wr_start() to ibv_wr_complete() ***/

static void wr_start(struct ibv_qp_ex *qpx)
{
    struct cl_qp *qp = (struct cl_qp *)qpx;

    pthread_mutex_lock(&qp->lock);
    qp->built = qp->sq->head;
    qp->wqe = NULL;
    qp->rc = 0;
}

static void close_request(struct cl_qp *qp)
{
    if (qp->wqe && !qp->rc) {
        qp->rc = check_request(qp, qp->wqe);
        qp->built++;
    }
    qp->wqe = NULL;
}

static struct ad_wqe *begin(struct ibv_qp_ex *qpx, enum ibv_wr_opcode opcode)
{
    static struct ad_wqe nowhere;
    struct cl_qp *qp = (struct cl_qp *)qpx;

    close_request(qp);
    if (!qp->rc && (used(qp->sq, qp->built) >= qp->sq->limit || fails()))
        qp->rc = ENOMEM;
    if (qp->rc)
        return &nowhere;
    qp->wqe = ad_entry(client.segment, qp->sq, qp->built);
    *qp->wqe = (struct ad_wqe){
        .wr_id = qpx->wr_id, .opcode = opcode, .flags = qpx->wr_flags | signal_all(qp)};
    return qp->wqe;
}

static void begin_remote(struct ibv_qp_ex *qpx, enum ibv_wr_opcode opcode, uint32_t rkey,
                         uint64_t addr, uint32_t imm)
{
    struct ad_wqe *wqe = begin(qpx, opcode);

    wqe->rkey = rkey;
    wqe->remote_addr = addr;
    wqe->imm = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr)
{
    begin_remote(qpx, IBV_WR_RDMA_READ, rkey, addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr)
{
    begin_remote(qpx, IBV_WR_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr, __be32 imm)
{
    begin_remote(qpx, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_send(struct ibv_qp_ex *qpx)
{
    begin(qpx, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qpx, __be32 imm)
{
    begin(qpx, IBV_WR_SEND_WITH_IMM)->imm = imm;
}

static void wr_atomic(struct ibv_qp_ex *qpx, enum ibv_wr_opcode opcode, uint32_t rkey,
                      uint64_t addr, uint64_t compare_add, uint64_t swap)
{
    struct ad_wqe *wqe = begin(qpx, opcode);

    wqe->rkey = rkey;
    wqe->remote_addr = addr;
    wqe->compare_add = compare_add;
    wqe->swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr, uint64_t compare,
                              uint64_t swap)
{
    wr_atomic(qpx, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr, uint64_t add)
{
    wr_atomic(qpx, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

static void wr_set_sge_list(struct ibv_qp_ex *qpx, size_t num, const struct ibv_sge *list)
{
    struct cl_qp *qp = (struct cl_qp *)qpx;

    if (qp->wqe && !qp->rc)
        qp->rc = num > qp->sq->max_sge ? EINVAL : put_data(qp, qp->wqe, list, (int)num);
}

static void wr_set_sge(struct ibv_qp_ex *qpx, uint32_t lkey, uint64_t addr, uint32_t length)
{
    struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

    wr_set_sge_list(qpx, 1, &sge);
}

static void wr_set_inline_data(struct ibv_qp_ex *qpx, void *addr, size_t length)
{
    struct cl_qp *qp = (struct cl_qp *)qpx;

    if (!qp->wqe || qp->rc)
        return;
    qp->wqe->flags |= IBV_SEND_INLINE;
    qp->rc = put_inline(qp, qp->wqe, addr, length);
}

static int wr_complete(struct ibv_qp_ex *qpx)
{
    struct cl_qp *qp = (struct cl_qp *)qpx;

    close_request(qp);
    if (!qp->rc && !takes_state(qp))
        qp->rc = EINVAL;
    if (!qp->rc)
        doorbell(qp);
    int rc = qp->rc;
    pthread_mutex_unlock(&qp->lock);
    return rc;
}

static void wr_abort(struct ibv_qp_ex *qpx)
{
    pthread_mutex_unlock(&((struct cl_qp *)qpx)->lock);
}

void cl_wr_ops(struct ibv_qp_ex *qpx)
{
    qpx->wr_start = wr_start;
    qpx->wr_complete = wr_complete;
    qpx->wr_abort = wr_abort;
    qpx->wr_rdma_read = wr_rdma_read;
    qpx->wr_rdma_write = wr_rdma_write;
    qpx->wr_rdma_write_imm = wr_rdma_write_imm;
    qpx->wr_send = wr_send;
    qpx->wr_send_imm = wr_send_imm;
    qpx->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    qpx->wr_atomic_fetch_add = wr_atomic_fetch_add;
    qpx->wr_set_sge = wr_set_sge;
    qpx->wr_set_sge_list = wr_set_sge_list;
    qpx->wr_set_inline_data = wr_set_inline_data;
}

/*** completion queues ***/

static struct ibv_wc *cq_entry(const struct ad_cq *ring, uint32_t index)
{
    return (struct ibv_wc *)((char *)client.segment + ring->data) + (index & ring->mask);
}

static int poll_cq(struct ibv_cq *base, int most, struct ibv_wc *wc)
{
    struct cl_cq *cq = (struct cl_cq *)base;
    struct ad_cq *ring = cq->ring;
    int n = 0;

    if (AD_LOAD(ring->head) == AD_LOAD(ring->tail))
        return 0;
    pthread_mutex_lock(&cq->lock);
    uint32_t head = AD_LOAD(ring->head), tail = ring->tail;
    while (n < most && tail != head)
        wc[n++] = *cq_entry(ring, tail++);
    AD_STORE(ring->tail, tail);
    pthread_mutex_unlock(&cq->lock);
    count_completions(wc, n);
    return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    uint32_t *armed = &((struct cl_cq *)cq)->ring->armed;
    uint32_t how = solicited_only ? AD_ARM_SOLICITED : AD_ARM_ANY;

    __atomic_fetch_or(armed, how, __ATOMIC_SEQ_CST);
    return 0;
}

/* Drops the completions of a destroyed queue pair. */
void cl_cq_clean(struct ibv_cq *base, uint32_t qpn)
{
    struct cl_cq *cq = (struct cl_cq *)base;
    struct ad_cq *ring = cq->ring;

    pthread_mutex_lock(&cq->lock);
    uint32_t from = AD_LOAD(ring->head), to = from;
    while (from != ring->tail) {
        const struct ibv_wc *wc = cq_entry(ring, --from);
        if (wc->qp_num != qpn)
            *cq_entry(ring, --to) = *wc;
    }
    AD_STORE(ring->tail, to);
    pthread_mutex_unlock(&cq->lock);
}

void cl_data_ops(struct ibv_context_ops *ops)
{
    ops->poll_cq = poll_cq;
    ops->req_notify_cq = req_notify_cq;
    ops->post_srq_recv = post_srq_recv;
    ops->post_send = post_send;
    ops->post_recv = post_recv;
}
