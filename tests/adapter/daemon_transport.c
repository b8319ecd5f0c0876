/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport of reliable connections: executes the requests of queue pairs in order, at both
 * ends at once. A request succeeds, fails, waits for a receive (RNR), or gets no answer and is
 * repeated until its retries are used up.
 */
#include "daemon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum {
    REQUESTS_A_ROUND = 64,
    CHUNK = 1 << 18,
    MOST_SGE = 32,
    LINE = 256,        /* bytes of a line, of which the last */
    TORN = 8,          /* bytes become visible last */
    MOST_PARTS = 1024, /* maximum of the kernel */
    PLACE_MOST_US = 200,
    PLACED_AT_ONCE = 4,
    RELAXED_UNIT = 64,  /* for writes with a key with relaxed ordering */
    UNITS_MOST = 65536, /* the middle of a longer write is placed in packets */
    UNITS_NEAR = 4096,
    ATOMIC_MOST_US = 50,
};

enum { LAST_MOST_US = 3000 }; /* from the error state to the last receive's completion */

enum outcome { DONE, FAILED, NO_ANSWER, NOT_READY, LATER };

static struct vp_list ready = {&ready, &ready};

/* Memory of a process, or inline data. */
struct vec {
    pid_t pid;
    const void *inline_data;
    struct iovec iov[MOST_SGE];
    int num;
    uint64_t size;
};

/* A part of a WRITE in flight. */
struct piece {
    uint32_t seq, rkey; /* the request's number, the target's key */
    pid_t pid;
    uint64_t addr;
    uint32_t size;
    uint8_t data[];
};

static void retry_due(struct timer *timer);
static void place_due(struct timer *timer);
static void last_due(struct timer *timer);
static void qp_has_failed(struct qp *qp);

void qp_init(struct qp *qp)
{
    vp_list_init(&qp->ready);
    timer_init(&qp->timer, retry_due);
    timer_init(&qp->placing, place_due);
    timer_init(&qp->ending, last_due);
}

void qp_has_rings(struct qp *qp)
{
    qp->parts = calloc(qp->sq->mask + 1, sizeof(*qp->parts));
    if (!qp->parts)
        abort();
}

void qp_ready(struct qp *qp)
{
    if (vp_list_empty(&qp->ready))
        vp_list_append(&ready, &qp->ready);
}

void qp_set_state(struct qp *qp, enum ibv_qp_state state)
{
    qp->attr.qp_state = state;
    AD_STORE(qp->sq->state, (uint32_t)state);
}

static void *at(struct proc *proc, uint64_t offset)
{
    return (char *)proc->segment + offset;
}

/*** completions ***/

static void notify(struct cq *cq, bool solicited)
{
    uint32_t armed = AD_LOAD(cq->ring->armed);

    if (armed < AD_ARM_ANY && !(armed && solicited))
        return;
    AD_STORE(cq->ring->armed, AD_ARM_NONE);
    if (cq->channel)
        queue_add(&cq->channel->queue, &cq->base);
}

static void complete(struct cq *cq, const struct ibv_wc *wc, bool solicited)
{
    struct ad_cq *ring = cq->ring;
    struct ibv_wc *entries = at(cq->base.proc, ring->data);

    if (cq->overflowed)
        return;
    if (ring->head - AD_LOAD(ring->tail) >= ring->limit) {
        cq->overflowed = true;
        async_event(cq->context, &cq->base, IBV_EVENT_CQ_ERR, 0);
        return;
    }
    entries[ring->head & ring->mask] = *wc;
    __atomic_store_n(&ring->head, ring->head + 1, __ATOMIC_SEQ_CST);
    notify(cq, solicited || (profile.errors_notify && wc->status != IBV_WC_SUCCESS));
}

static enum ibv_wc_opcode send_opcode(uint32_t opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

static struct ad_wqe *wqe_at(const struct qp *qp, uint32_t seq)
{
    return ad_entry(qp->base.proc->segment, qp->sq, seq);
}

/* The oldest request has ended. Its entry is freed before its completion is visible. */
static void report(struct qp *qp, enum ibv_wc_status status)
{
    const struct ad_wqe *w = wqe_at(qp, qp->sq->tail);
    bool wanted = status != IBV_WC_SUCCESS || w->flags & IBV_SEND_SIGNALED;
    struct ibv_wc wc = {
        .wr_id = w->wr_id, .status = status, .opcode = send_opcode(w->opcode), .qp_num = qp->qpn};

    AD_STORE(qp->sq->tail, qp->sq->tail + 1);
    if (wanted)
        complete(qp->send_cq, &wc, false);
}

/*** memory ***/

/* A real kernel would have pinned the pages: memory that is no longer accessible reads as zeros,
 * and writes to it are lost. False: the process has ended, and nothing is known of its memory. The
 * kernel takes that before the socket (Linux 6.1, kernel/exit.c, do_exit(): exit_mm() comes before
 * exit_files()), so that its queue pairs may still be there. */
static bool get_bytes(pid_t pid, const struct iovec *iov, int num, void *to, size_t size)
{
    struct iovec local = {to, size};
    ssize_t n = process_vm_readv(pid, &local, 1, iov, (unsigned long)num, 0);

    if (n < 0 && errno == ESRCH)
        return false;
    if (n < (ssize_t)size)
        memset((char *)to + (n > 0 ? n : 0), 0, size - (size_t)(n > 0 ? n : 0));
    return true;
}

/* Bytes that are placed in this order, part by part. */
struct placing {
    pid_t pid;
    const uint8_t *from;
    size_t size;
    unsigned long num;
    struct iovec to[MOST_PARTS];
    bool ended; /* the process, as in get_bytes() */
};

static void place_parts(struct placing *p)
{
    struct iovec local = {(void *)(uintptr_t)p->from, p->size};

    if (p->num)
        p->ended |= process_vm_writev(p->pid, &local, 1, p->to, p->num, 0) < 0 && errno == ESRCH;
    p->from += p->size;
    p->size = p->num = 0;
}

static void add_part(struct placing *p, uintptr_t at, uintptr_t end)
{
    if (p->num == MOST_PARTS)
        place_parts(p);
    p->to[p->num++] = (struct iovec){(void *)at, end - at};
    p->size += end - at;
}

/* In order of addresses, line by line, and the last word of each line separately: the kernel's copy
 * function has no order within a part. False: the process has ended. */
static bool put_bytes(pid_t pid, const struct iovec *iov, int num, const void *from)
{
    static struct placing p;

    p.pid = pid;
    p.from = from;
    p.ended = false;
    for (int i = 0; i < num; i++) {
        uintptr_t at = (uintptr_t)iov[i].iov_base, end = at + iov[i].iov_len;
        while (at < end) {
            uintptr_t next = (at | (LINE - 1)) + 1;
            uintptr_t stop = next < end ? next : end, word = (stop - 1) & ~(uintptr_t)(TORN - 1);
            if (word > at)
                add_part(&p, at, word);
            add_part(&p, word > at ? word : at, stop);
            at = stop;
        }
    }
    place_parts(&p);
    return !p.ended;
}

/* The parts of a vector with the bytes [from, from + size). */
static int slice(const struct vec *v, uint64_t from, uint64_t size, struct iovec *out)
{
    int n = 0;

    for (int i = 0; i < v->num && size; i++) {
        uint64_t length = v->iov[i].iov_len;
        if (from >= length) {
            from -= length;
            continue;
        }
        uint64_t part = length - from < size ? length - from : size;
        out[n++] = (struct iovec){(char *)v->iov[i].iov_base + from, part};
        size -= part;
        from = 0;
    }
    return n;
}

/* False: the process has ended. */
static bool gather(const struct vec *v, uint64_t from, uint64_t size, void *to)
{
    struct iovec part[MOST_SGE];

    if (!v->inline_data)
        return get_bytes(v->pid, part, slice(v, from, size, part), to, size);
    memcpy(to, (const char *)v->inline_data + from, size);
    return true;
}

static bool scatter(const struct vec *v, uint64_t from, uint64_t size, const void *data)
{
    struct iovec part[MOST_SGE];

    return put_bytes(v->pid, part, slice(v, from, size, part), data);
}

/* These copy all; false: a process has ended, and nobody knows what it has got. */
static bool copy(const struct vec *from, const struct vec *to, uint64_t size)
{
    static uint8_t buffer[CHUNK];

    for (uint64_t done = 0; done < size; done += CHUNK) {
        uint64_t n = size - done < CHUNK ? size - done : CHUNK;
        if (!gather(from, done, n, buffer) || !scatter(to, done, n, buffer))
            return false;
    }
    return true;
}

static uint32_t packet_of(const struct qp *qp)
{
    return 128u << qp->attr.path_mtu;
}

/* The last packet first, and the first one last. */
static bool copy_backwards(const struct vec *from, const struct vec *to, uint64_t size,
                           uint32_t packet)
{
    static uint8_t buffer[4096];

    for (uint64_t left = size, n; left; left -= n) {
        n = left % packet ? left % packet : packet;
        if (!gather(from, left - n, n, buffer) || !scatter(to, left - n, n, buffer))
            return false;
    }
    return true;
}

/* Units in any order. */
static bool copy_units(const struct vec *from, const struct vec *to, uint64_t size, uint32_t unit)
{
    static uint8_t buffer[UNITS_MOST];
    static uint32_t order[UNITS_MOST / RELAXED_UNIT + 1];
    uint32_t in_first = (uint32_t)((uintptr_t)to->iov[0].iov_base % unit);
    uint32_t num = (uint32_t)((in_first + size + unit - 1) / unit);

    if (!gather(from, 0, size, buffer))
        return false;
    for (uint32_t i = 0; i < num; i++) {
        uint32_t other = random_below(i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    for (uint32_t i = 0; i < num; i++) {
        uint64_t begin = order[i] ? (uint64_t)order[i] * unit - in_first : 0;
        uint64_t end = ((uint64_t)order[i] + 1) * unit - in_first;
        if (!scatter(to, begin, (end < size ? end : size) - begin, buffer + begin))
            return false;
    }
    return true;
}

/* May an owner of this domain use the range in this way? */
static bool may_use(const struct mr *mr, const struct object *pd, uint64_t addr, uint64_t size,
                    uint32_t access)
{
    return mr && mr->base.parent == pd && (mr->access & access) == access && addr >= mr->iova &&
           size <= mr->size && addr - mr->iova <= mr->size - size;
}

static void *real_address(const struct mr *mr, uint64_t addr)
{
    return (void *)(uintptr_t)(mr->addr + (addr - mr->iova));
}

static bool local_vec(const struct qp *qp, const struct ibv_sge *sge, uint32_t num, uint32_t access,
                      struct vec *out)
{
    *out = (struct vec){.pid = qp->base.proc->pid};
    if (num > MOST_SGE)
        return false;
    for (uint32_t i = 0; i < num; i++) {
        const struct mr *mr = mr_find(sge[i].lkey);
        if (!sge[i].length)
            continue;
        if (!may_use(mr, qp->base.parent, sge[i].addr, sge[i].length, access))
            return false;
        out->iov[out->num++] = (struct iovec){real_address(mr, sge[i].addr), sge[i].length};
        out->size += sge[i].length;
    }
    return true;
}

static bool source_vec(const struct qp *qp, struct ad_wqe *w, uint32_t access, struct vec *out)
{
    if (w->flags & IBV_SEND_INLINE) {
        *out = (struct vec){.inline_data = w + 1, .size = w->inline_size};
        return true;
    }
    return local_vec(qp, (struct ibv_sge *)(w + 1), w->num_sge, access, out);
}

static bool remote_vec(const struct qp *peer, const struct ad_wqe *w, uint64_t size,
                       uint32_t access, struct vec *out)
{
    const struct mr *mr = size ? mr_find(w->rkey) : NULL;

    *out = (struct vec){.pid = peer->base.proc->pid, .size = size};
    if (!size)
        return true; /* the key is ignored */
    if (!may_use(mr, peer->base.parent, w->remote_addr, size, access))
        return false;
    out->iov[out->num++] = (struct iovec){real_address(mr, w->remote_addr), size};
    return true;
}

/** * writes that overtake each other ** */

static uint64_t num_waiting; /* pieces of all queue pairs */

bool pieces_wait(void)
{
    return num_waiting > 0;
}

static void place(struct qp *qp, bool lost)
{
    struct piece **which = &qp->pieces[random_below(qp->num_pieces)], *piece = *which;
    struct iovec iov = {(void *)(uintptr_t)piece->addr, piece->size};

    if (!lost)
        put_bytes(piece->pid, &iov, 1, piece->data);
    qp->parts[piece->seq & qp->sq->mask]--;
    *which = qp->pieces[--qp->num_pieces];
    num_waiting--;
    free(piece);
}

static void add_piece(struct qp *qp, struct piece *piece)
{
    if (qp->num_pieces == qp->room_pieces) {
        qp->room_pieces = qp->room_pieces * 2 + 64;
        qp->pieces = realloc(qp->pieces, qp->room_pieces * sizeof(struct piece *));
        if (!qp->pieces)
            abort();
    }
    qp->pieces[qp->num_pieces++] = piece;
    num_waiting++;
    qp->parts[piece->seq & qp->sq->mask]++;
}

static bool is_placed(const struct qp *qp, uint32_t seq)
{
    return qp->parts[seq & qp->sq->mask] == 0 || fault_late_ms();
}

static void report_placed(struct qp *qp)
{
    while (qp->sq->tail != qp->executed && is_placed(qp, qp->sq->tail))
        report(qp, IBV_WC_SUCCESS);
}

static void place_all(struct qp *qp)
{
    while (qp->num_pieces)
        place(qp, false);
    timer_stop(&qp->placing);
    report_placed(qp);
}

void qp_place_all_of(struct qp *qp, uint32_t rkey)
{
    for (uint32_t i = 0; i < qp->num_pieces; i++) {
        if (qp->pieces[i]->rkey == rkey) {
            place_all(qp);
            return;
        }
    }
}

static void place_later(struct qp *qp)
{
    if (vp_list_empty(&qp->placing.link) && qp->num_pieces)
        timer_set(&qp->placing, now_ns() + (fault_late_ms() ? fault_late_ms() * NS_PER_MS
                                                            : random_below(PLACE_MOST_US) * 1000));
}

static void place_due(struct timer *timer)
{
    struct qp *qp = vp_container_of(timer, struct qp, placing);

    /* with many pieces several at once, as long writes would otherwise take seconds */
    for (uint32_t n = 1 + random_below(PLACED_AT_ONCE + qp->num_pieces / 4); n && qp->num_pieces;
         n--)
        place(qp, false);
    report_placed(qp);
    place_later(qp);
}

/* The size of units that are placed in any order; 0: all data are in order. */
static uint32_t unit_of(const struct mr *mr)
{
    if (profile.unit)
        return profile.unit;
    return mr && (mr->access & IBV_ACCESS_RELAXED_ORDERING) ? RELAXED_UNIT : 0;
}

/* The length of the next piece of a transfer to `to`, with `done` bytes already cut. */
static uint32_t piece_size(uint64_t to, uint64_t done, uint64_t size, uint32_t unit, uint32_t mtu)
{
    uint64_t left = size - done, n = mtu;

    if (unit && (size <= UNITS_MOST || done < UNITS_NEAR || left <= UNITS_NEAR + mtu))
        n = unit - (to + done) % unit;
    return (uint32_t)(n < left ? n : left);
}

/* False: the origin has ended, and its queue pair is about to. */
static bool cut_up(struct qp *qp, const struct ad_wqe *w, const struct vec *from,
                   const struct vec *to)
{
    uint32_t mtu = packet_of(qp), unit = from->size ? unit_of(mr_find(w->rkey)) : 0;

    for (uint64_t done = 0, n; done < from->size; done += n) {
        n = piece_size((uintptr_t)to->iov[0].iov_base, done, from->size, unit, mtu);
        struct piece *piece = malloc(sizeof(*piece) + n);
        if (!piece)
            abort();
        *piece = (struct piece){.seq = qp->executed,
                                .rkey = w->rkey,
                                .pid = to->pid,
                                .addr = (uintptr_t)to->iov[0].iov_base + done,
                                .size = (uint32_t)n};
        if (!gather(from, done, n, piece->data)) {
            free(piece);
            return false;
        }
        add_piece(qp, piece);
    }
    place_later(qp);
    return true;
}

/*** the responder ***/

/* The next receive, if any; the queue's owner may have written anything. */
static const struct ad_rwqe *next_receive(const struct qp *peer)
{
    const struct ad_ring *ring = peer->srq ? peer->srq->ring : peer->rq;

    return ring->tail != AD_LOAD(ring->head) ? ad_entry(peer->base.proc->segment, ring, ring->tail)
                                             : NULL;
}

static void take_receive(struct qp *peer)
{
    struct srq *srq = peer->srq;
    struct ad_ring *ring = srq ? srq->ring : peer->rq;

    AD_STORE(ring->tail, ring->tail + 1);
    if (srq && srq->limit && AD_LOAD(ring->head) - ring->tail < srq->limit) {
        srq->limit = 0;
        async_event(srq->context, &srq->base, IBV_EVENT_SRQ_LIMIT_REACHED, 0);
    }
}

static void established(struct qp *peer)
{
    if (peer->established || peer->attr.qp_state != IBV_QPS_RTR)
        return;
    peer->established = true;
    async_event(peer->context, &peer->base, IBV_EVENT_COMM_EST, 0);
}

static struct qp *responder(const struct qp *qp)
{
    struct qp *peer = qp_find(qp->attr.dest_qp_num);

    if (!peer || fault_is_silent() || peer->attr.dest_qp_num != qp->qpn ||
        peer->type != IBV_QPT_RC || !share_partition(qp, peer) ||
        port_at(&qp->attr.ah_attr) != peer->attr.port_num || !is_let_through(&qp->attr.ah_attr) ||
        !ports_reach(qp->attr.port_num, peer->attr.port_num))
        return NULL;
    if (qp->ece.used != peer->ece.used)
        return NULL; /* its messages cannot be understood */
    return peer->attr.qp_state == IBV_QPS_RTR || peer->attr.qp_state == IBV_QPS_RTS ? peer : NULL;
}

static uint32_t mtu_of(const struct qp *qp)
{
    return 128u << profile.device.ports[qp->attr.port_num - 1].attr.active_mtu;
}

/* RoCE: a packet larger than the MTU of either port gets lost. */
static bool fits_the_wire(const struct qp *from, const struct qp *to, uint64_t size)
{
    uint64_t packet = size < packet_of(from) ? size : packet_of(from);

    return packet <= mtu_of(from) && packet <= mtu_of(to);
}

/* Requests are answered in order: earlier ones have been executed. */
static enum outcome refused(struct qp *peer, enum ibv_wc_status status, uint32_t event,
                            enum ibv_wc_status *out)
{
    struct qp *origin = qp_find(peer->attr.dest_qp_num);

    if (origin)
        place_all(origin);
    if (profile.raises_qp_errors)
        async_event(peer->context, &peer->base, event, 0);
    qp_has_failed(peer);
    *out = status;
    return FAILED;
}

static enum outcome no_access(struct qp *peer, enum ibv_wc_status *status)
{
    return refused(peer, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, status);
}

static enum outcome invalid(struct qp *peer, enum ibv_wc_status *status)
{
    return refused(peer, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, status);
}

static void receive_done(struct qp *peer, const struct qp *qp, const struct ad_wqe *w,
                         const struct ad_rwqe *rwqe, enum ibv_wc_status status, uint64_t size)
{
    bool imm = w->opcode == IBV_WR_SEND_WITH_IMM || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    struct ibv_wc wc = {
        .wr_id = rwqe->wr_id,
        .status = status,
        .opcode = w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
        .byte_len = (uint32_t)size,
        .qp_num = peer->qpn,
        .src_qp = qp->qpn};

    if (imm) {
        wc.imm_data = w->imm;
        wc.wc_flags = IBV_WC_WITH_IMM;
    }
    take_receive(peer);
    complete(peer->recv_cq, &wc, w->flags & IBV_SEND_SOLICITED);
}

static enum outcome receive(struct qp *qp, struct qp *peer, const struct ad_wqe *w,
                            const struct vec *from, enum ibv_wc_status *status)
{
    const struct ad_rwqe *rwqe = next_receive(peer);
    const struct ibv_sge *sge = (const struct ibv_sge *)(rwqe + 1);
    struct vec to;

    if (!rwqe)
        return NOT_READY;
    bool usable = local_vec(peer, sge, rwqe->num_sge, IBV_ACCESS_LOCAL_WRITE, &to);
    bool fits = usable && from->size <= to.size;
    if (!fits && (profile.words_of_rxe || !usable)) {
        receive_done(peer, qp, w, rwqe,
                     profile.words_of_rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR, 0);
        return refused(peer, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL, status);
    }
    if (!fits) {
        receive_done(peer, qp, w, rwqe, IBV_WC_LOC_LEN_ERR, 0);
        return invalid(peer, status);
    }
    if (!copy(from, &to, from->size))
        return NO_ANSWER;
    receive_done(peer, qp, w, rwqe, IBV_WC_SUCCESS, from->size);
    return DONE;
}

/* `wc` has its origin. False: no receive, or one that is too short, and the datagram is lost. */
bool receive_datagram(struct qp *to, const struct ibv_wc *wc, const void *data, uint32_t size,
                      bool solicited)
{
    const struct ad_rwqe *rwqe = next_receive(to);
    struct ibv_wc own = *wc;
    struct vec vec;

    if (!rwqe ||
        !local_vec(to, (const struct ibv_sge *)(rwqe + 1), rwqe->num_sge, IBV_ACCESS_LOCAL_WRITE,
                   &vec) ||
        vec.size < size)
        return false;
    scatter(&vec, 0, size, data);
    own.wr_id = rwqe->wr_id;
    take_receive(to);
    complete(to->recv_cq, &own, solicited);
    return true;
}

static enum outcome write_to(struct qp *qp, struct qp *peer, const struct ad_wqe *w,
                             const struct vec *from, enum ibv_wc_status *status)
{
    bool imm = w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    const struct ad_rwqe *rwqe = imm ? next_receive(peer) : NULL;
    struct vec to;

    if (!(peer->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
        return invalid(peer, status);
    if (!remote_vec(peer, w, from->size, IBV_ACCESS_REMOTE_WRITE, &to))
        return no_access(peer, status);
    if (imm && !rwqe)
        return NOT_READY;
    bool by_units = from->size && unit_of(mr_find(w->rkey));
    if (imm && !by_units)
        place_all(qp);
    bool in_parts = by_units || ((profile.reorders || fault_late_ms()) && !imm);
    if (!(in_parts ? cut_up(qp, w, from, &to) : copy(from, &to, from->size)))
        return NO_ANSWER;
    if (imm)
        place_all(qp); /* the receive's completion announces the data */
    if (imm)
        receive_done(peer, qp, w, rwqe, IBV_WC_SUCCESS, from->size);
    if (!imm && fault_hits(AD_FAULT_UNKNOWN)) {
        place_all(qp);
        *status = IBV_WC_RETRY_EXC_ERR;
        return FAILED;
    }
    return DONE;
}

static enum outcome read_from(struct qp *qp, struct qp *peer, const struct ad_wqe *w,
                              const struct vec *to, enum ibv_wc_status *status)
{
    struct vec from;
    bool there;

    if (!qp->attr.max_rd_atomic) {
        *status = IBV_WC_LOC_QP_OP_ERR;
        return FAILED;
    }
    if (!(peer->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) || !peer->attr.max_dest_rd_atomic)
        return invalid(peer, status);
    if (!remote_vec(peer, w, to->size, IBV_ACCESS_REMOTE_READ, &from))
        return no_access(peer, status);
    uint32_t unit = to->size ? unit_of(mr_find(((const struct ibv_sge *)(w + 1))->lkey)) : 0;
    if (unit && to->num == 1 && to->size <= UNITS_MOST)
        there = copy_units(&from, to, to->size, unit);
    else if (profile.reorders && random_below(2))
        there = copy_backwards(&from, to, to->size, packet_of(qp));
    else
        there = copy(&from, to, to->size);
    return there ? DONE : NO_ANSWER;
}

/*** several devices ***/

static void wait_for(struct qp *qp, uint64_t ns)
{
    qp->waits = true;
    timer_set(&qp->timer, now_ns() + ns);
}

/* Which queue pair's atomic a device is executing. */
static const struct qp *executing[AD_MAX_PORTS];

static void stop_atomic(struct qp *qp)
{
    for (int d = 0; d < AD_MAX_PORTS; d++)
        if (executing[d] == qp)
            executing[d] = NULL;
    qp->loaded = false;
}

/* A device whose atomics are those of one device holds other atomics of its own back until the word
 * is written, and knows nothing of the other device's. DONE: the word may be written; LATER: it is
 * to be read later, or written later; NO_ANSWER: its process has ended. */
static enum outcome load_word(struct qp *qp, const struct qp *peer, const struct vec *target)
{
    const struct qp **holder = &executing[peer->context->device];

    if (!profile.device.other[0] || profile.device.attr.atomic_cap == IBV_ATOMIC_GLOB)
        return gather(target, 0, sizeof(qp->found), &qp->found) ? DONE : NO_ANSWER;
    if (qp->loaded) {
        stop_atomic(qp);
        return DONE;
    }
    if (!*holder) {
        if (!gather(target, 0, sizeof(qp->found), &qp->found))
            return NO_ANSWER;
        *holder = qp;
        qp->loaded = true;
    }
    wait_for(qp, random_below(ATOMIC_MOST_US) * UINT64_C(1000));
    return LATER;
}

static enum outcome atomic(struct qp *qp, struct qp *peer, const struct ad_wqe *w,
                           const struct vec *to, enum ibv_wc_status *status)
{
    struct vec target;
    enum outcome loaded;
    uint64_t old, value;

    if (!qp->attr.max_rd_atomic || to->size != sizeof(old)) {
        *status = to->size != sizeof(old) ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_QP_OP_ERR;
        return FAILED;
    }
    if (!(peer->attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) || w->remote_addr % sizeof(old) ||
        !peer->attr.max_dest_rd_atomic || profile.device.attr.atomic_cap == IBV_ATOMIC_NONE)
        return invalid(peer, status);
    if (!remote_vec(peer, w, sizeof(old), IBV_ACCESS_REMOTE_ATOMIC, &target))
        return no_access(peer, status);
    loaded = load_word(qp, peer, &target);
    if (loaded != DONE)
        return loaded;
    old = qp->found;
    value = w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? old + w->compare_add
            : old == w->compare_add                  ? w->swap
                                                     : old;
    if (!scatter(&target, 0, sizeof(value), &value))
        return NO_ANSWER;
    if (fault_hits(AD_FAULT_UNKNOWN)) {
        *status = IBV_WC_RETRY_EXC_ERR;
        return FAILED;
    }
    scatter(to, 0, sizeof(old), &old);
    return DONE;
}

/*** the requester ***/

static bool returns_data(uint32_t opcode)
{
    return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
           opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* A datagram counts as sent when it is on the wire, whether it arrives or not. */
static enum outcome datagram(struct qp *qp, const struct ad_wqe *w, const struct vec *from,
                             enum ibv_wc_status *status)
{
    uint8_t data[4096];

    if (from->size > 128u << profile.device.ports[0].attr.active_mtu) {
        *status = IBV_WC_LOC_LEN_ERR;
        return profile.words_of_rxe ? DONE : FAILED; /* rdma_rxe drops it silently */
    }
    if (!gather(from, 0, from->size, data))
        return DONE; /* it is lost */
    if (send_datagram(qp, w, data, (uint32_t)from->size))
        return DONE;
    *status = IBV_WC_LOC_QP_OP_ERR;
    return FAILED;
}

/*** what a port moves in a second ***/

/* Each direction of a port, or of a link of a bond, is busy till then. */
static struct {
    uint64_t out, in;
} busy[AD_MAX_PORTS];

enum { LABEL_LOW = 0x3fff, LABEL_LOW_BITS = 14 };

/* The port, or the link of a bond, by which packets of the queue pair go, from 1 on. Links are
 * chosen by the UDP source port, which follows from the label as in Linux 6.1,
 * include/rdma/ib_verbs.h, rdma_flow_label_to_udp_sport(). Without a label it is a hash of the
 * queue pairs' numbers there; here it is the first link. */
static uint32_t wire_of(const struct qp *qp)
{
    uint32_t label = qp->attr.ah_attr.grh.flow_label;

    if (!profile.bonded)
        return qp->attr.port_num;
    return label ? 1 + (((label & LABEL_LOW) ^ label >> LABEL_LOW_BITS) & 1) : 1;
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The request waits until its bytes have gone through both ports, behind those of others. One that
 * was posted before its predecessor ended begins when that did, not when this process got on with
 * it. */
static bool takes_time(struct qp *qp, const struct qp *peer, const struct ad_wqe *w, uint64_t size)
{
    const struct qp *from = returns_data(w->opcode) ? peer : qp, *to = from == qp ? peer : qp;
    uint64_t rate = fault_rate(), now = now_ns(), at;

    if (!rate || !size)
        return false;
    at = later_of(busy[wire_of(from) - 1].out, busy[wire_of(to) - 1].in);
    at = later_of(at, qp->follows ? qp->left_wire : now) + size * NS_PER_MS / rate;
    busy[wire_of(from) - 1].out = busy[wire_of(to) - 1].in = at;
    qp->left_wire = at;
    qp->on_wire = true;
    wait_for(qp, at > now ? at - now : 0);
    return true;
}

void wires_end(void)
{
    memset(busy, 0, sizeof(busy));
    for (struct vp_list *p = all_procs.next; p != &all_procs; p = p->next) {
        struct proc *proc = vp_container_of(p, struct proc, link);
        for (struct vp_list *l = proc->objects.next; l != &proc->objects; l = l->next) {
            struct object *object = vp_container_of(l, struct object, link);
            struct qp *qp = (struct qp *)object;
            if (object->kind != K_QP)
                continue;
            qp->follows = false;
            if (qp->on_wire && qp->waits)
                timer_set(&qp->timer, now_ns());
        }
    }
}

static enum outcome execute(struct qp *qp, struct ad_wqe *w, enum ibv_wc_status *status)
{
    struct vec local;

    if (!source_vec(qp, w, returns_data(w->opcode) ? IBV_ACCESS_LOCAL_WRITE : 0, &local)) {
        *status = profile.words_of_rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR;
        return FAILED;
    }
    if (local.size > profile.device.ports[0].attr.max_msg_sz) {
        *status = IBV_WC_LOC_LEN_ERR;
        return FAILED;
    }
    if (qp->type == IBV_QPT_UD)
        return datagram(qp, w, &local, status);
    struct qp *peer = responder(qp);
    bool answers = w->opcode == IBV_WR_RDMA_READ;
    if (!peer || !fits_the_wire(answers ? peer : qp, answers ? qp : peer, local.size))
        return NO_ANSWER;
    established(peer);
    if (fault_cuts(wire_of(qp))) {
        *status = IBV_WC_RETRY_EXC_ERR;
        return FAILED;
    }
    if (fault_holds(wire_of(qp))) {
        wait_for(qp, NS_PER_MS);
        return LATER;
    }
    if (!qp->on_wire && takes_time(qp, peer, w, local.size))
        return LATER;
    switch (w->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return write_to(qp, peer, w, &local, status);
    case IBV_WR_RDMA_READ:
        return read_from(qp, peer, w, &local, status);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return atomic(qp, peer, w, &local, status);
    default:
        return receive(qp, peer, w, &local, status);
    }
}

/* No answer: repeated after the QP's timeout, 0: which never comes. Seven retries are seven. */
static bool retry_later(struct qp *qp)
{
    if (!qp->attr.timeout) {
        qp->waits = true;
        return true;
    }
    if (qp->retries > qp->attr.retry_cnt)
        return false;
    qp->retries++;
    wait_for(qp, UINT64_C(4096) << qp->attr.timeout);
    return true;
}

/* The values of min_rnr_timer, in units of 10 us. */
static const uint32_t rnr_delays[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                        16,    24,   32,   48,    64,    96,    128,   192,
                                        256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                        4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

static bool rnr_later(struct qp *qp)
{
    const struct qp *peer = qp_find(qp->attr.dest_qp_num);

    if (qp->attr.rnr_retry < 7 && qp->rnr_retries >= qp->attr.rnr_retry)
        return false;
    qp->rnr_retries++;
    wait_for(qp, rnr_delays[peer ? peer->attr.min_rnr_timer : 0] * UINT64_C(10000));
    return true;
}

static void retry_due(struct timer *timer)
{
    struct qp *qp = vp_container_of(timer, struct qp, timer);

    qp->waits = false;
    qp_ready(qp);
}

static void fail(struct qp *qp, enum ibv_wc_status status)
{
    place_all(qp);
    report(qp, status);
    qp->executed++;
    qp_has_failed(qp);
}

/* Executes one request; false: it waits. */
static bool step(struct qp *qp)
{
    struct ad_wqe *w = wqe_at(qp, qp->executed);
    enum ibv_wc_status status = IBV_WC_SUCCESS;

    if (w->opcode != IBV_WR_RDMA_WRITE && w->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
        place_all(qp);
    enum outcome outcome = execute(qp, w, &status);
    if (outcome == DONE || outcome == FAILED)
        qp->on_wire = false;
    switch (outcome) {
    case DONE:
        qp->retries = qp->rnr_retries = 0;
        qp->executed++;
        qp->follows = qp->left_wire && qp->executed != AD_LOAD(qp->sq->head);
        report_placed(qp);
        return true;
    case FAILED:
        fail(qp, status);
        return false;
    case NO_ANSWER:
        if (!retry_later(qp))
            fail(qp, IBV_WC_RETRY_EXC_ERR);
        return false;
    case LATER:
        return false;
    default:
        if (!rnr_later(qp))
            fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
        return false;
    }
}

static void flush_receives(struct qp *qp)
{
    struct ad_ring *ring = qp->rq;

    while (ring && ring->tail != AD_LOAD(ring->head)) {
        const struct ad_rwqe *rwqe = ad_entry(qp->base.proc->segment, ring, ring->tail);
        struct ibv_wc wc = {.wr_id = rwqe->wr_id,
                            .status = IBV_WC_WR_FLUSH_ERR,
                            .opcode = IBV_WC_RECV,
                            .qp_num = qp->qpn};
        AD_STORE(ring->tail, ring->tail + 1);
        complete(qp->recv_cq, &wc, false);
    }
}

static void flush(struct qp *qp)
{
    while (qp->sq->tail != AD_LOAD(qp->sq->head))
        report(qp, IBV_WC_WR_FLUSH_ERR);
    qp->executed = qp->sq->tail;
    flush_receives(qp);
}

/* Data in flight arrive or are lost. */
static void lose_some(struct qp *qp)
{
    while (qp->num_pieces)
        place(qp, !fault_late_ms() && random_below(2));
    timer_stop(&qp->placing);
}

/* The queue pair no longer answers: of the peer's WRITEs in flight some parts have arrived, and no
 * more will. They are not acknowledged: the peer repeats them until its retries are used up. */
static void stops_answering(const struct qp *qp)
{
    struct qp *peer = qp_find(qp->attr.dest_qp_num);

    if (!peer || peer == qp || peer->attr.dest_qp_num != qp->qpn || !peer->num_pieces)
        return;
    lose_some(peer);
    peer->executed = peer->sq->tail;
    qp_ready(peer);
}

/* A message was arriving, in every second queue pair that ends: it has taken a receive of the
 * SRQ. */
static void take_for_a_message(struct qp *qp, enum ibv_qp_state state)
{
    const struct ad_rwqe *rwqe = qp->srq ? next_receive(qp) : NULL;

    if (!rwqe || !(profile.raises_last_wqe || profile.raises_at_error) || qp->holds ||
        (state != IBV_QPS_RTR && state != IBV_QPS_RTS) || random_below(2))
        return;
    qp->holds = true;
    qp->held = rwqe->wr_id;
    take_receive(qp);
}

/* The last receive that the queue pair had taken is reported; then LAST_WQE_REACHED is raised. */
static void last_due(struct timer *timer)
{
    struct qp *qp = vp_container_of(timer, struct qp, ending);
    struct ibv_wc wc = {
        .wr_id = qp->held, .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV, .qp_num = qp->qpn};

    if (qp->holds)
        complete(qp->recv_cq, &wc, false);
    qp->holds = false;
    if (profile.raises_last_wqe)
        async_event(qp->context, &qp->base, IBV_EVENT_QP_LAST_WQE_REACHED, 0);
}

void qp_to_error(struct qp *qp)
{
    enum ibv_qp_state from = qp->attr.qp_state;
    bool first = from != IBV_QPS_ERR;

    qp_set_state(qp, IBV_QPS_ERR);
    timer_stop(&qp->timer);
    stop_atomic(qp);
    qp->waits = qp->on_wire = false;
    stops_answering(qp);
    lose_some(qp);
    flush(qp);
    if (first && qp->srq && (profile.raises_last_wqe || profile.raises_at_error)) {
        take_for_a_message(qp, from);
        timer_set(&qp->ending, now_ns() + random_below(LAST_MOST_US) * UINT64_C(1000) +
                                   fault_last_late_ms() * NS_PER_MS);
    }
}

/* By itself, not by its owner. */
static void qp_has_failed(struct qp *qp)
{
    qp_to_error(qp);
    if (qp->srq && profile.raises_at_error)
        async_event(qp->context, &qp->base, IBV_EVENT_QP_LAST_WQE_REACHED, 0);
}

void qp_gone(struct qp *qp)
{
    take_for_a_message(qp, qp->attr.qp_state);
    qp->holds = false; /* it is lost with the queue pair */
    timer_stop(&qp->ending);
    timer_stop(&qp->timer);
    stop_atomic(qp);
    stops_answering(qp);
    lose_some(qp);
    vp_list_remove(&qp->ready);
}

void qp_reset(struct qp *qp)
{
    qp_gone(qp);
    qp->waits = qp->established = qp->on_wire = false;
    qp->retries = qp->rnr_retries = 0;
    AD_STORE(qp->sq->tail, AD_LOAD(qp->sq->head));
    qp->executed = qp->sq->tail;
    if (qp->rq)
        AD_STORE(qp->rq->tail, AD_LOAD(qp->rq->head));
    qp->attr.dest_qp_num = 0;
    qp_set_state(qp, IBV_QPS_RESET);
}

/* False: there is more work. */
static bool run(struct qp *qp)
{
    if (qp->attr.qp_state == IBV_QPS_ERR)
        flush(qp);
    if (qp->attr.qp_state != IBV_QPS_RTS)
        return true;
    for (int i = 0; i < REQUESTS_A_ROUND; i++)
        if (qp->waits || qp->executed == AD_LOAD(qp->sq->head) || !step(qp))
            return true;
    return false;
}

bool run_ready(void)
{
    struct vp_list now;

    vp_list_init(&now);
    while (!vp_list_empty(&ready))
        vp_list_append(&now, ready.next);
    while (!vp_list_empty(&now)) {
        struct qp *qp = vp_container_of(now.next, struct qp, ready);
        vp_list_remove(&qp->ready);
        if (!run(qp))
            qp_ready(qp);
    }
    return !vp_list_empty(&ready);
}
