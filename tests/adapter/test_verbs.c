/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The behaviour of a device for users of libibverbs, which the software adapter shares with
 * rdma_rxe: runs on both. Two queue pairs of one process.
 */
#include <signal.h>

#include "check_verbs.h"

static const struct wishes usual = {.rnr_retry = 7};

static void every_operation_moves_its_data(void)
{
    struct end a, b;

    pair_open(&a, &b, &usual);
    memcpy(a.mem, "write!!!", 8);
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, 8);
    CHECK(post(&a, &r) == 0);
    CHECK(next(a.send_cq).status == IBV_WC_SUCCESS && memcmp(b.mem, "write!!!", 8) == 0);
    b.mem[3] = 'X';
    r = request(&a, &b, IBV_WR_RDMA_READ, 8);
    CHECK(post(&a, &r) == 0);
    CHECK(next(a.send_cq).opcode == IBV_WC_RDMA_READ && a.mem[3] == 'X');
    end_close(&a);
    end_close(&b);
}

static void atomics_return_what_was_there(void)
{
    struct end a, b;

    if (dev.attr.atomic_cap == IBV_ATOMIC_NONE)
        return;
    pair_open(&a, &b, &usual);
    *(uint64_t *)(void *)b.mem = 40;
    struct request r = request(&a, &b, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
    r.wr.wr.atomic.compare_add = 2;
    CHECK(post(&a, &r) == 0 && next(a.send_cq).status == IBV_WC_SUCCESS);
    CHECK(*(uint64_t *)(void *)a.mem == 40 && *(uint64_t *)(void *)b.mem == 42);
    r = request(&a, &b, IBV_WR_ATOMIC_CMP_AND_SWP, 8);
    r.wr.wr.atomic.compare_add = 41;
    r.wr.wr.atomic.swap = 7;
    CHECK(post(&a, &r) == 0 && next(a.send_cq).status == IBV_WC_SUCCESS);
    CHECK(*(uint64_t *)(void *)b.mem == 42);
    r.wr.wr.atomic.compare_add = 42;
    CHECK(post(&a, &r) == 0 && next(a.send_cq).status == IBV_WC_SUCCESS);
    CHECK(*(uint64_t *)(void *)b.mem == 7);
    end_close(&a);
    end_close(&b);
}

static void receives_carry_size_and_immediate(void)
{
    struct end a, b;

    pair_open(&a, &b, &usual);
    for (uint64_t i = 10; i < 12; i++)
        CHECK(post_receive(&b, i, 100) == 0);
    struct request r = request(&a, &b, IBV_WR_SEND, 33);
    CHECK(post(&a, &r) == 0);
    struct ibv_wc wc = next(b.recv_cq);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id == 10);
    CHECK(wc.byte_len == 33 && wc.qp_num == b.qp->qp_num && !(wc.wc_flags & IBV_WC_WITH_IMM));
    r = request(&a, &b, IBV_WR_RDMA_WRITE_WITH_IMM, 200);
    r.wr.imm_data = 0x12345678;
    CHECK(post(&a, &r) == 0);
    wc = next(b.recv_cq);
    CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wr_id == 11 && wc.byte_len == 200);
    CHECK(wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == 0x12345678);
    end_close(&a);
    end_close(&b);
}

static void inline_data_may_be_overwritten_at_once(void)
{
    struct end a, b;

    pair_open(&a, &b, &usual);
    memcpy(a.mem, "first   ", 8);
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, 8);
    if (a.max_inline) {
        r.wr.send_flags |= IBV_SEND_INLINE;
        r.sge.lkey = 0; /* the key is ignored */
    }
    CHECK(post(&a, &r) == 0);
    if (a.max_inline)
        memcpy(a.mem, "second  ", 8);
    CHECK(next(a.send_cq).status == IBV_WC_SUCCESS && memcmp(b.mem, "first   ", 8) == 0);
    end_close(&a);
    end_close(&b);
}

/* A request that the other end refuses breaks both ends; later requests are flushed. */
static void is_refused(struct request (*bad)(const struct end *a, const struct end *b),
                       const struct wishes *w, enum ibv_wc_status want)
{
    struct end a, b;

    pair_open(&a, &b, w);
    struct request good = request(&a, &b, IBV_WR_RDMA_WRITE, 0), r = bad(&a, &b);
    CHECK(post(&a, &good) == 0 && post(&a, &r) == 0 && post(&a, &good) == 0);
    CHECK(next(a.send_cq).status == IBV_WC_SUCCESS);
    enum ibv_wc_status status = next(a.send_cq).status;
    /* rdma_rxe has another status for a wrong local key */
    bool fits = status == want || (want == IBV_WC_LOC_PROT_ERR && status == IBV_WC_LOC_QP_OP_ERR);
    if (!fits)
        fprintf(stderr, "%s, not %s\n", ibv_wc_status_str(status), ibv_wc_status_str(want));
    CHECK(fits);
    CHECK(next(a.send_cq).status == IBV_WC_WR_FLUSH_ERR && is_empty(a.send_cq));
    CHECK(state_of(a.qp) == IBV_QPS_ERR);
    CHECK(post(&a, &good) == 0 && next(a.send_cq).status == IBV_WC_WR_FLUSH_ERR);
    end_close(&a);
    end_close(&b);
}

static struct request wrong_rkey(const struct end *a, const struct end *b)
{
    struct request r = request(a, b, IBV_WR_RDMA_WRITE, 8);

    r.wr.wr.rdma.rkey ^= 0x5a5a00;
    return r;
}

static struct request one_byte_too_far(const struct end *a, const struct end *b)
{
    struct request r = request(a, b, IBV_WR_RDMA_WRITE, 8);

    r.wr.wr.rdma.remote_addr += MEM - 7;
    return r;
}

static struct request one_byte_too_early(const struct end *a, const struct end *b)
{
    struct request r = request(a, b, IBV_WR_RDMA_READ, 8);

    r.wr.wr.rdma.remote_addr--;
    return r;
}

static struct request a_write(const struct end *a, const struct end *b)
{
    return request(a, b, IBV_WR_RDMA_WRITE, 8);
}

static struct request a_read(const struct end *a, const struct end *b)
{
    return request(a, b, IBV_WR_RDMA_READ, 8);
}

static void remote_keys_ranges_and_rights_are_checked(void)
{
    struct wishes no_write = {.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ};
    struct wishes no_read = {.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};

    is_refused(wrong_rkey, &usual, IBV_WC_REM_ACCESS_ERR);
    is_refused(one_byte_too_far, &usual, IBV_WC_REM_ACCESS_ERR);
    is_refused(one_byte_too_early, &usual, IBV_WC_REM_ACCESS_ERR);
    is_refused(a_write, &no_write, IBV_WC_REM_ACCESS_ERR);
    is_refused(a_read, &no_read, IBV_WC_REM_ACCESS_ERR);
}

static void the_last_bytes_of_a_region_are_in_it(void)
{
    struct end a, b;

    pair_open(&a, &b, &usual);
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, 8);
    memcpy(a.mem, "the end.", 8);
    r.wr.wr.rdma.remote_addr += MEM - 8;
    CHECK(post(&a, &r) == 0 && next(a.send_cq).status == IBV_WC_SUCCESS);
    CHECK(memcmp(b.mem + MEM - 8, "the end.", 8) == 0);
    end_close(&a);
    end_close(&b);
}

static struct request wrong_lkey(const struct end *a, const struct end *b)
{
    struct request r = request(a, b, IBV_WR_RDMA_WRITE, 8);

    r.sge.lkey ^= 0x5a5a00;
    return r;
}

static void local_keys_are_checked(void)
{
    is_refused(wrong_lkey, &usual, IBV_WC_LOC_PROT_ERR);
}

static void a_key_of_another_domain_is_refused(void)
{
    struct ibv_pd *other = ibv_alloc_pd(dev.context);
    struct end a, b;

    pair_open(&a, &b, &usual);
    struct ibv_mr *mr =
        ibv_reg_mr(other, b.mem, MEM, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr);
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, 8);
    r.wr.wr.rdma.rkey = mr->rkey;
    CHECK(post(&a, &r) == 0 && next(a.send_cq).status == IBV_WC_REM_ACCESS_ERR);
    CHECK(ibv_dealloc_pd(other) == EBUSY);
    CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(other) == 0);
    end_close(&a);
    end_close(&b);
}

static void a_message_longer_than_its_receive_breaks_both(void)
{
    struct end a, b;

    pair_open(&a, &b, &usual);
    CHECK(post_receive(&b, 5, 32) == 0);
    struct request r = request(&a, &b, IBV_WR_SEND, 33);
    CHECK(post(&a, &r) == 0);
    struct ibv_wc wc = next(b.recv_cq);
    /* rdma_rxe has other statuses for it */
    bool is_rxe = wc.status == IBV_WC_LOC_QP_OP_ERR;
    CHECK((is_rxe || wc.status == IBV_WC_LOC_LEN_ERR) && wc.wr_id == 5);
    expect_status(a.send_cq, is_rxe ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR);
    end_close(&a);
    end_close(&b);
}

static void a_send_waits_for_a_receive(void)
{
    struct end a, b;

    pair_open(&a, &b, &usual);
    struct request r = request(&a, &b, IBV_WR_SEND, 8);
    CHECK(post(&a, &r) == 0);
    usleep(20000); /* many times the RNR timer */
    CHECK(is_empty(a.send_cq) && is_empty(b.recv_cq));
    CHECK(post_receive(&b, 1, 8) == 0);
    CHECK(next(a.send_cq).status == IBV_WC_SUCCESS && next(b.recv_cq).status == IBV_WC_SUCCESS);
    end_close(&a);
    end_close(&b);
}

static void without_rnr_retries_it_does_not_wait(void)
{
    struct wishes w = {.rnr_retry = 0};
    struct end a, b;

    pair_open(&a, &b, &w);
    struct request r = request(&a, &b, IBV_WR_SEND, 8);
    CHECK(post(&a, &r) == 0);
    CHECK(next(a.send_cq).status == IBV_WC_RNR_RETRY_EXC_ERR);
    end_close(&a);
    end_close(&b);
}

static void silence_ends_with_the_retries(void)
{
    struct wishes w = {.rnr_retry = 7, .timeout = 12, .retry_cnt = 2};
    struct end a, b;

    pair_open(&a, &b, &w);
    CHECK(ibv_destroy_qp(b.qp) == 0);
    b.qp = NULL;
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, 8);
    CHECK(post(&a, &r) == 0);
    CHECK(next(a.send_cq).status == IBV_WC_RETRY_EXC_ERR);
    CHECK(state_of(a.qp) == IBV_QPS_ERR);
    end_close(&a);
    end_close(&b);
}

/* The other end stops in the middle of a WRITE: writes reported as executed are complete. */
static void what_succeeded_is_there_when_the_other_end_stops(void)
{
    const struct wishes w = {.timeout = 8, .retry_cnt = 1, .rnr_retry = 7};
    struct ibv_qp_attr stop = {.qp_state = IBV_QPS_ERR};

    for (int round = 0; round < 40; round++) {
        struct end a, b;
        pair_open(&a, &b, &w);
        memset(a.mem, round + 1, MEM);
        struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, MEM);
        CHECK(post(&a, &r) == 0);
        if (round % 2) {
            CHECK(ibv_modify_qp(b.qp, &stop, IBV_QP_STATE) == 0);
        } else {
            CHECK(ibv_destroy_qp(b.qp) == 0);
            b.qp = NULL;
        }
        enum ibv_wc_status status = next(a.send_cq).status;
        CHECK(status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_SUCCESS);
        CHECK(status != IBV_WC_SUCCESS || memcmp(a.mem, b.mem, MEM) == 0);
        end_close(&a);
        end_close(&b);
    }
}

/* A request with a bad key fails; the requests sent before it are executed. */
static void a_request_is_refused_behind_those_before_it(void)
{
    enum { WRITES = 8, BAD = 5 };
    const struct wishes w = {.timeout = 8, .retry_cnt = 1, .rnr_retry = 7, .sq_depth = WRITES};
    struct end a, b;

    pair_open(&a, &b, &w);
    memset(a.mem, 0x5a, MEM);
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, MEM);
    for (uint64_t i = 0; i < WRITES; i++) {
        r.wr.wr_id = i;
        r.wr.wr.rdma.rkey = i == BAD ? b.mr->rkey ^ 0x5a5a00 : b.mr->rkey;
        CHECK(post(&a, &r) == 0);
    }
    for (uint64_t i = 0; i < WRITES; i++) {
        struct ibv_wc wc = next(a.send_cq);
        CHECK(wc.wr_id == i);
        CHECK(wc.status == (i < BAD    ? IBV_WC_SUCCESS
                            : i == BAD ? IBV_WC_REM_ACCESS_ERR
                                       : IBV_WC_WR_FLUSH_ERR));
    }
    CHECK(memcmp(a.mem, b.mem, MEM) == 0);
    end_close(&a);
    end_close(&b);
}

static void an_error_flushes_both_queues_in_order(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct end a, b;

    pair_open(&a, &b, &usual);
    struct request r = request(&a, &b, IBV_WR_SEND, 8); /* without receives at the target */
    for (uint64_t i = 0; i < 3; i++) {
        r.wr.wr_id = 20 + i;
        r.wr.send_flags = 0; /* flushed requests are always reported */
        CHECK(post(&a, &r) == 0 && post_receive(&a, 30 + i, 8) == 0);
    }
    CHECK(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE) == 0);
    for (uint64_t i = 0; i < 3; i++) {
        struct ibv_wc s = next(a.send_cq), t = next(a.recv_cq);
        CHECK(s.status == IBV_WC_WR_FLUSH_ERR && s.wr_id == 20 + i);
        CHECK(t.status == IBV_WC_WR_FLUSH_ERR && t.wr_id == 30 + i);
    }
    CHECK(is_empty(b.recv_cq));
    end_close(&a);
    end_close(&b);
}

static void a_full_send_queue_and_bad_requests_are_refused(void)
{
    struct wishes w = {.rnr_retry = 7, .sq_depth = 4};
    struct end a, b;

    pair_open(&a, &b, &w);
    struct request r = request(&a, &b, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
    r.wr.wr.atomic.remote_addr += 4;
    CHECK(post(&a, &r) == EINVAL);
    r = request(&a, &b, IBV_WR_RDMA_WRITE, 1000);
    r.wr.send_flags |= IBV_SEND_INLINE;
    CHECK(post(&a, &r) != 0);
    r = request(&a, &b, IBV_WR_SEND, 8);
    int posted = 0;
    while (posted < 1000 && post(&a, &r) == 0)
        posted++;
    CHECK(posted >= 4 && posted < 1000); /* a device may have more room than requested */
    for (int i = 0; i < posted; i++) {
        CHECK(post_receive(&b, 1, 8) == 0);
        CHECK(next(a.send_cq).status == IBV_WC_SUCCESS);
    }
    CHECK(post(&a, &r) == 0); /* there is room again */
    end_close(&a);
    end_close(&b);
}

static void states_follow_each_other(void)
{
    struct end a;
    struct request r;

    end_open(&a, &usual);
    r = request(&a, &a, IBV_WR_SEND, 8);
    CHECK(post(&a, &r) == EINVAL);
    CHECK(to_rts(a.qp, &usual) != 0 && to_rtr(a.qp, 1) != 0);
    CHECK(to_init(a.qp) == 0 && to_rts(a.qp, &usual) != 0);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    CHECK(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE) != 0); /* without a remote queue pair */
    CHECK(to_rtr(a.qp, 1) == 0 && to_rts(a.qp, &usual) == 0);
    CHECK(state_of(a.qp) == IBV_QPS_RTS);
    end_close(&a);
}

static void the_shared_receive_queue_tells_once_that_it_runs_low(void)
{
    struct wishes w = {.rnr_retry = 7, .srq = true};
    struct ibv_srq_attr limit = {.srq_limit = 2};
    struct ibv_async_event event;
    struct end a, b;

    if (!dev.attr.max_srq)
        return;
    pair_open(&a, &b, &w);
    struct request r = request(&a, &b, IBV_WR_SEND, 8);
    for (uint64_t i = 0; i < 4; i++)
        CHECK(post_receive(&b, i, 8) == 0);
    CHECK(ibv_modify_srq(b.srq, &limit, IBV_SRQ_LIMIT) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(post(&a, &r) == 0 && next(b.recv_cq).status == IBV_WC_SUCCESS);
    CHECK(!readable(dev.context->async_fd, 50));
    for (int i = 0; i < 2; i++)
        CHECK(post(&a, &r) == 0 && next(b.recv_cq).status == IBV_WC_SUCCESS);
    CHECK(readable(dev.context->async_fd, PATIENCE_S * 1000));
    CHECK(ibv_get_async_event(dev.context, &event) == 0);
    CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == b.srq);
    ibv_ack_async_event(&event);
    CHECK(!readable(dev.context->async_fd, 50));
    end_close(&a);
    end_close(&b);
}

static void an_armed_queue_wakes_once_and_only_for_what_was_asked(void)
{
    struct end a, b;
    struct ibv_cq *cq;
    void *user;

    pair_open(&a, &b, &usual);
    for (uint64_t i = 0; i < 4; i++)
        CHECK(post_receive(&b, i, 8) == 0);
    CHECK(ibv_req_notify_cq(b.recv_cq, 1) == 0);
    struct request r = request(&a, &b, IBV_WR_SEND, 8);
    CHECK(post(&a, &r) == 0 && next(b.recv_cq).status == IBV_WC_SUCCESS);
    CHECK(!readable(b.channel->fd, 50)); /* the message was not solicited */
    r.wr.send_flags |= IBV_SEND_SOLICITED;
    for (int i = 0; i < 2; i++)
        CHECK(post(&a, &r) == 0 && next(b.recv_cq).status == IBV_WC_SUCCESS);
    CHECK(readable(b.channel->fd, PATIENCE_S * 1000));
    CHECK(ibv_get_cq_event(b.channel, &cq, &user) == 0 && cq == b.recv_cq);
    ibv_ack_cq_events(cq, 1);
    CHECK(!readable(b.channel->fd, 50)); /* one event for both */
    CHECK(ibv_req_notify_cq(b.recv_cq, 0) == 0);
    r.wr.send_flags &= ~(unsigned int)IBV_SEND_SOLICITED;
    CHECK(post(&a, &r) == 0 && readable(b.channel->fd, PATIENCE_S * 1000));
    CHECK(ibv_get_cq_event(b.channel, &cq, &user) == 0);
    ibv_ack_cq_events(cq, 1);
    end_close(&a);
    end_close(&b);
}

static void a_completion_queue_that_overflows_says_so(void)
{
    struct wishes w = {.rnr_retry = 7, .cq_size = 1, .sig_all = true};
    struct ibv_async_event event;
    struct end a, b;

    pair_open(&a, &b, &w);
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, 8);
    r.wr.send_flags = 0; /* sq_sig_all */
    for (int i = 0; i < DEPTH; i++)
        CHECK(post(&a, &r) == 0);
    CHECK(readable(dev.context->async_fd, PATIENCE_S * 1000));
    CHECK(ibv_get_async_event(dev.context, &event) == 0);
    CHECK(event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == a.send_cq);
    ibv_ack_async_event(&event);
    end_close(&a);
    end_close(&b);
}

static void objects_in_use_are_not_destroyed(void)
{
    struct wishes w = {.srq = dev.attr.max_srq > 0};
    struct end a;

    end_open(&a, &w);
    CHECK(ibv_destroy_cq(a.send_cq) == EBUSY);
    CHECK(!a.srq || ibv_destroy_srq(a.srq) == EBUSY);
    end_close(&a);
}

static void memory_that_is_not_there_is_not_registered(void)
{
    uint8_t *mem = mmap(NULL, MEM, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(!ibv_reg_mr(dev.pd, mem, MEM, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
    CHECK(!ibv_reg_mr(dev.pd, mem, MEM, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
    munmap(mem + MEM / 2, MEM / 2);
    CHECK(!ibv_reg_mr(dev.pd, mem, MEM, IBV_ACCESS_REMOTE_READ) && errno == EFAULT);
}

/* Enhancements: both ends use those of the first end's offer that the second end supports. On a
 * device without enhancements none can be set, and the connection works as usual. */
static void enhancements_are_agreed_on_where_there_are_any(void)
{
    struct ibv_ece offer, used, other;
    struct end a, b;

    end_open(&a, &usual);
    end_open(&b, &usual);
    bool has = ibv_query_ece(a.qp, &offer) == 0;
    if (!has) {
        offer = (struct ibv_ece){.vendor_id = dev.attr.vendor_id, .options = 1};
        CHECK(ibv_set_ece(a.qp, &offer) == EOPNOTSUPP);
    } else {
        CHECK(offer.vendor_id && offer.options && !offer.comp_mask);
        other = (struct ibv_ece){.vendor_id = offer.vendor_id + 1, .options = offer.options};
        CHECK(ibv_set_ece(b.qp, &other) != 0);
        offer.options |= UINT32_C(1) << 20; /* not supported by the second end */
        CHECK(ibv_set_ece(b.qp, &offer) == 0);
    }
    CHECK(to_init(b.qp) == 0 && to_rtr(b.qp, a.qp->qp_num) == 0 && to_rts(b.qp, &usual) == 0);
    if (has) {
        CHECK(ibv_query_ece(b.qp, &used) == 0 && used.vendor_id == offer.vendor_id);
        CHECK(used.options == (offer.options & ~(UINT32_C(1) << 20)));
        CHECK(ibv_set_ece(a.qp, &used) == 0);
    }
    CHECK(to_init(a.qp) == 0 && to_rtr(a.qp, b.qp->qp_num) == 0 && to_rts(a.qp, &usual) == 0);
    struct request r = request(&a, &b, IBV_WR_RDMA_WRITE, 8);
    CHECK(post(&a, &r) == 0 && next(a.send_cq).status == IBV_WC_SUCCESS);
    end_close(&a);
    end_close(&b);
}

/* What two processes tell each other. */
struct told {
    uint32_t qpn[2], rkey;
    uint64_t addr;
    int step;
};

static void reach(struct told *told, int step)
{
    __atomic_store_n(&told->step, step, __ATOMIC_SEQ_CST);
}

static void await(const struct told *told, int step)
{
    while (__atomic_load_n(&told->step, __ATOMIC_SEQ_CST) < step)
        usleep(1000);
}

/* Has a message under way, which waits for a receive, and a child that keeps its device open until
 * the other end of the pipe is closed. */
static void wait_for_the_end(struct told *told, const int pipe_fds[2])
{
    struct end a;
    char byte;

    open_device();
    end_open(&a, &usual);
    memset(a.mem, 0x5a, MEM);
    told->qpn[0] = a.qp->qp_num;
    told->addr = (uintptr_t)a.mem;
    told->rkey = a.mr->rkey;
    reach(told, 1);
    await(told, 2);
    CHECK(to_init(a.qp) == 0 && to_rtr(a.qp, told->qpn[1]) == 0 && to_rts(a.qp, &usual) == 0);
    if (fork() == 0) {
        close(pipe_fds[1]);
        _exit(read(pipe_fds[0], &byte, 1) != 0);
    }
    struct request r = request(&a, &a, IBV_WR_SEND, 4096);
    CHECK(post(&a, &r) == 0);
    reach(told, 3);
    for (;;)
        pause();
}

static bool is_all(const uint8_t *at, size_t size, uint8_t value)
{
    while (size > 0 && at[size - 1] == value)
        size--;
    return size == 0;
}

/* Its data come, as its memory is pinned while its device is open; or nothing comes. */
static void a_process_that_has_ended_gives_its_data_or_none(void)
{
    static const struct wishes impatient = {.rnr_retry = 7, .timeout = 12, .retry_cnt = 2};
    struct told *told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct end b;
    int pipe_fds[2];
    struct ibv_wc wc;

    CHECK(told != MAP_FAILED && pipe(pipe_fds) == 0);
    pid_t pid = fork();
    if (pid == 0)
        wait_for_the_end(told, pipe_fds);
    end_open(&b, &impatient);
    await(told, 1);
    told->qpn[1] = b.qp->qp_num;
    CHECK(to_init(b.qp) == 0 && to_rtr(b.qp, told->qpn[0]) == 0 && to_rts(b.qp, &impatient) == 0);
    reach(told, 2);
    await(told, 3);
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    CHECK(post_receive(&b, 1, 4096) == 0);
    struct request r = request(&b, &b, IBV_WR_RDMA_READ, 4096);
    r.sge.addr += 4096;
    r.wr.wr.rdma.remote_addr = told->addr;
    r.wr.wr.rdma.rkey = told->rkey;
    CHECK(post(&b, &r) == 0);
    CHECK(next(b.send_cq).status != IBV_WC_SUCCESS || is_all(b.mem + 4096, 4096, 0x5a));
    if (ibv_poll_cq(b.recv_cq, 1, &wc) == 1)
        CHECK(wc.status != IBV_WC_SUCCESS || is_all(b.mem, 4096, 0x5a));
    close(pipe_fds[1]);
    end_close(&b);
    munmap(told, 4096);
}

static const struct named_test tests[] = {
    TEST(a_process_that_has_ended_gives_its_data_or_none),
    TEST(every_operation_moves_its_data),
    TEST(atomics_return_what_was_there),
    TEST(receives_carry_size_and_immediate),
    TEST(inline_data_may_be_overwritten_at_once),
    TEST(remote_keys_ranges_and_rights_are_checked),
    TEST(the_last_bytes_of_a_region_are_in_it),
    TEST(local_keys_are_checked),
    TEST(a_key_of_another_domain_is_refused),
    TEST(a_message_longer_than_its_receive_breaks_both),
    TEST(a_send_waits_for_a_receive),
    TEST(without_rnr_retries_it_does_not_wait),
    TEST(silence_ends_with_the_retries),
    TEST(what_succeeded_is_there_when_the_other_end_stops),
    TEST(a_request_is_refused_behind_those_before_it),
    TEST(an_error_flushes_both_queues_in_order),
    TEST(a_full_send_queue_and_bad_requests_are_refused),
    TEST(states_follow_each_other),
    TEST(the_shared_receive_queue_tells_once_that_it_runs_low),
    TEST(an_armed_queue_wakes_once_and_only_for_what_was_asked),
    TEST(a_completion_queue_that_overflows_says_so),
    TEST(objects_in_use_are_not_destroyed),
    TEST(memory_that_is_not_there_is_not_registered),
    TEST(enhancements_are_agreed_on_where_there_are_any),
};

int main(int argc, char **argv)
{
    return run_tests(tests, sizeof(tests) / sizeof(tests[0]), argc > 1 ? argv[1] : NULL);
}
