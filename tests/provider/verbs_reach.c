/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether two InfiniBand ports reach each other (ports/reach.c), and the LID that the subnet
 * manager has for a GID (ports/lid.c), without a device: this file replaces libibverbs, librdmacm
 * and what ports/ud.c does with a port.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "../harness/fake_clock.h"
#include <infiniband/ib.h>
#include "verbs/ports/lid.h"
#include "verbs/ports/reach.h"
#include "verbs/ports/ud.h"
#include "../harness/check.h"

enum { HEADER = 40, NONCE = 8, BYTES = HEADER + NONCE, TRIES = 3, FROM = 1, TO = 2 };
enum step { PROBE, PD, CQ, MR, QP, TO_INIT, RECV, TO_RTR, TO_RTS, AH, SEND, STEPS };

/*
 * Two ports, numbers 1 and 2; each object belongs to one of them
 */

static struct ibv_device device = {.name = "fake0"};
static struct ibv_context contexts[3];
static struct vp_device devs[3];
static struct vp_port ports[3];
static struct ibv_port_attr port_attrs[3];
static int port_query_fails; /* the number of the port */
static enum step fails;      /* at port */
static int fails_at;
static unsigned int live[STEPS];
static struct ibv_qp qps[3];
static uint8_t *bytes[3]; /* registered */
static uint32_t qkeys[3];
static unsigned int receives[3], sends, polls, naps;
static uint8_t nonce[NONCE];
static struct ibv_ah_attr path;

/* What becomes of the n-th datagram, from 1. */
static struct {
    unsigned int arrives; /* the number of the one that arrives; 0: none */
    unsigned int after;   /* so many looks */
    enum ibv_wc_status status;
    enum ibv_wc_opcode opcode;
    bool garbled;
} network;
static bool on_the_way;

static int number_of(const struct ibv_context *context)
{
    return (int)(context - contexts);
}

static bool begin(enum step step, int number)
{
    if (step == fails && number == fails_at)
        return false;
    live[step]++;
    return true;
}

static void end(enum step step)
{
    CHECK(live[step]-- > 0);
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t num, struct _compat_ibv_port_attr *attr)
{
    CHECK(num == number_of(c));
    *(struct ibv_port_attr *)attr = port_attrs[num];
    return num == port_query_fails ? -1 : 0;
}

int vp_ud_probe_port(struct vp_port *port, int gid_index)
{
    CHECK(gid_index == -1);
    port->pkey_index = (uint16_t)(port->num + 4);
    port->at.lid = port->num;
    return fails == PROBE && fails_at == port->num ? -ENOENT : 0;
}

void vp_ud_path(const struct vp_port *port, const struct vp_ud_addr *to, struct ibv_ah_attr *attr)
{
    *attr = (struct ibv_ah_attr){.port_num = port->num, .dlid = to->lid};
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
    static struct ibv_pd pds[3];

    pds[number_of(c)].context = c;
    return begin(PD, number_of(c)) ? &pds[number_of(c)] : NULL;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    CHECK(pd->context && (live[PD] > 1 || live[MR] + live[QP] == 0));
    end(PD);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *arg,
                             struct ibv_comp_channel *channel, int vector)
{
    static struct ibv_cq cqs[3];

    CHECK(cqe == 2 * TRIES && !arg && !channel && vector == 0);
    cqs[number_of(c)].context = c;
    return begin(CQ, number_of(c)) ? &cqs[number_of(c)] : NULL;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    CHECK(cq->context);
    end(CQ);
    return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t size, int access)
{
    static struct ibv_mr mrs[3];
    int n = number_of(pd->context);

    CHECK(size == BYTES && access == IBV_ACCESS_LOCAL_WRITE);
    bytes[n] = addr;
    mrs[n].lkey = (uint32_t)n + 50;
    return begin(MR, n) ? &mrs[n] : NULL;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t size, uint64_t iova,
                                unsigned int access)
{
    CHECK(iova == (uintptr_t)addr);
    return ibv_reg_mr(pd, addr, size, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    CHECK(mr->lkey > 50);
    end(MR);
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    int n = number_of(pd->context);

    CHECK(attr->qp_type == IBV_QPT_UD && attr->sq_sig_all && attr->send_cq == attr->recv_cq &&
          number_of(attr->send_cq->context) == n);
    CHECK(attr->cap.max_send_wr == TRIES && attr->cap.max_recv_wr == TRIES &&
          attr->cap.max_send_sge == 1 && attr->cap.max_recv_sge == 1);
    qps[n] = (struct ibv_qp){.context = pd->context, .qp_num = (uint32_t)n + 70};
    return begin(QP, n) ? &qps[n] : NULL;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    CHECK(qp->context);
    end(QP);
    return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int n = number_of(qp->context);
    enum step step = attr->qp_state == IBV_QPS_INIT  ? TO_INIT
                     : attr->qp_state == IBV_QPS_RTR ? TO_RTR
                                                     : TO_RTS;

    CHECK(qp->state + 1 == attr->qp_state);
    CHECK(receives[n] == (step == TO_INIT ? 0 : TRIES));
    CHECK(mask == (step == TO_INIT  ? (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
                   : step == TO_RTR ? IBV_QP_STATE
                                    : (IBV_QP_STATE | IBV_QP_SQ_PSN)));
    CHECK(attr->port_num == n && attr->pkey_index == n + 4);
    CHECK((attr->qkey & 1u << 31) == 0);
    qkeys[n] = attr->qkey;
    qp->state = attr->qp_state;
    return step == fails && n == fails_at ? EINVAL : 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    static struct ibv_ah ah;

    CHECK(number_of(pd->context) == FROM);
    path = *attr;
    return begin(AH, FROM) ? &ah : NULL;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    CHECK(ah);
    end(AH);
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    int n = number_of(qp->context);

    *bad = wr;
    CHECK(wr->num_sge == 1 && !wr->next && wr->sg_list->length == BYTES);
    CHECK(wr->sg_list->addr == (uintptr_t)bytes[n] && wr->sg_list->lkey == (uint32_t)n + 50);
    receives[n]++;
    return fails == RECV && fails_at == n ? ENOMEM : 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    *bad = wr;
    CHECK(number_of(qp->context) == FROM && qp->state == IBV_QPS_RTS && wr->wr.ud.ah);
    CHECK(wr->wr.ud.remote_qpn == TO + 70 && wr->wr.ud.remote_qkey == qkeys[TO]);
    CHECK(wr->num_sge == 1 && wr->opcode == IBV_WR_SEND && wr->sg_list->length == NONCE);
    CHECK(wr->sg_list->addr == (uintptr_t)bytes[FROM] + HEADER && wr->sg_list->lkey == FROM + 50);
    if (fails == SEND)
        return ENOMEM;
    memcpy(nonce, bytes[FROM] + HEADER, NONCE);
    sends++;
    polls = 0;
    on_the_way = sends == network.arrives;
    return 0;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    CHECK(number_of(cq->context) == TO && most == 1);
    if (polls++ < network.after || !on_the_way)
        return 0;
    on_the_way = false;
    *wc = (struct ibv_wc){.status = network.status, .opcode = network.opcode};
    memcpy(bytes[TO] + HEADER, bytes[FROM] + HEADER, NONCE);
    bytes[TO][HEADER + NONCE - 1] ^= network.garbled;
    return 1;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
    CHECK(!left && pause->tv_sec == 0 && pause->tv_nsec >= 50000 && pause->tv_nsec <= 200000);
    naps++;
    fake_clock_pass_ms(1);
    return 0;
}

static void reset(void)
{
    memset(live, 0, sizeof(live));
    memset(receives, 0, sizeof(receives));
    sends = polls = naps = 0;
    on_the_way = false;
    fails_at = port_query_fails = 0;
    network.arrives = 1;
    network.after = 0;
    network.status = IBV_WC_SUCCESS;
    network.opcode = IBV_WC_RECV;
    network.garbled = false;
    for (int n = 1; n <= 2; n++) {
        contexts[n] = (struct ibv_context){
            .device = &device,
            .ops = {.post_recv = post_recv, .post_send = post_send, .poll_cq = poll_cq}};
        devs[n].context = &contexts[n];
        ports[n] = (struct vp_port){.dev = &devs[n], .num = (uint8_t)n};
        port_attrs[n] = (struct ibv_port_attr){.sm_lid = 9, .lid = (uint16_t)n};
    }
}

static bool reaches(void)
{
    bool reached = vp_port_reaches(&ports[FROM], &ports[TO]);

    for (int i = 0; i < STEPS; i++)
        CHECK(live[i] == 0); /* everything is given back */
    return reached;
}

/*
 * Do the ports reach each other?
 */

static void a_datagram_that_arrives(void)
{
    uint32_t qkey = 0;
    uint8_t before[NONCE] = {0};

    for (int i = 0; i < 2; i++) {
        reset();
        CHECK(reaches() && sends == 1 && path.dlid == TO && path.port_num == FROM);
        CHECK(qkeys[FROM] == qkeys[TO] && qkeys[TO] != qkey); /* drawn each time */
        qkey = qkeys[TO];
        CHECK(memcmp(nonce, before, NONCE) != 0); /* this, too */
        memcpy(before, nonce, NONCE);
    }
    reset();
    network.arrives = TRIES;
    CHECK(reaches() && sends == TRIES);
    reset();
    network.after = 8; /* milliseconds */
    CHECK(reaches() && sends == 1);
    printf("ok: a datagram that arrives\n");
}

static void datagrams_that_do_not_arrive(void)
{
    reset();
    network.arrives = 0;
    uint64_t before = fake_clock_ms();
    CHECK(!reaches() && sends == TRIES);
    CHECK(fake_clock_ms() - before >= 30 && fake_clock_ms() - before < 60 && naps >= 30);
    reset();
    network.status = IBV_WC_LOC_PROT_ERR;
    CHECK(!reaches());
    reset();
    network.opcode = IBV_WC_SEND;
    CHECK(!reaches());
    reset();
    network.garbled = true; /* somebody else's */
    CHECK(!reaches());
    printf("ok: datagrams that do not arrive\n");
}

static void ports_that_cannot_be_tried(void)
{
    for (int number = FROM; number <= TO; number++) {
        for (enum step step = PROBE; step <= TO_RTS; step++) {
            reset();
            fails = step;
            fails_at = number;
            CHECK(!reaches() && sends == 0);
        }
    }
    for (enum step step = AH; step <= SEND; step++) {
        reset();
        fails = step;
        fails_at = FROM;
        CHECK(!reaches() && sends == 0);
    }
    printf("ok: ports that cannot be tried\n");
}

/* Ports whose subnets differ are not tried: the LID would be that of another port. */
static void ports_of_other_subnets(void)
{
    reset();
    port_attrs[TO].sm_lid++;
    CHECK(!reaches() && receives[FROM] == 0);
    reset();
    port_attrs[TO].lid = port_attrs[FROM].lid;
    CHECK(!reaches() && receives[FROM] == 0);
    for (int number = FROM; number <= TO; number++) {
        reset();
        port_query_fails = number;
        CHECK(!reaches() && receives[FROM] == 0);
    }
    printf("ok: ports of other subnets\n");
}

/*
 * The subnet manager
 */

enum ask { NO_CHANNEL, NO_PKEY, NO_ID, NO_ADDR, NO_ROUTE, NO_PATHS, ANSWERS };
static enum ask asks;
static unsigned int channels, cm_ids, cm_events;
static enum rdma_cm_event_type next_event, events[2];
static int poll_result = 1;
static struct ibv_sa_path_rec record;
static const union ibv_gid wanted_gid = {.raw = {[0] = 0xfe, [15] = 0x77}};

int ibv_query_pkey(struct ibv_context *c, uint8_t num, int index, __be16 *pkey)
{
    CHECK(number_of(c) == FROM && num == FROM && index == 6);
    *pkey = htobe16(0x8123);
    return asks == NO_PKEY ? -1 : 0;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
    static struct rdma_event_channel channel = {.fd = 12345};

    CHECK(fcntl(0, F_GETFD) >= 0); /* the channel's descriptor is not 0 */
    channels += asks != NO_CHANNEL;
    return asks == NO_CHANNEL ? NULL : &channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    CHECK(channel->fd == 12345 && cm_ids == 0);
    channels--;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *ctx,
                   enum rdma_port_space space)
{
    static struct rdma_cm_id cm_id;

    CHECK(!ctx && space == RDMA_PS_IB);
    cm_id = (struct rdma_cm_id){.channel = channel};
    cm_id.route.num_paths = asks != NO_PATHS;
    cm_id.route.path_rec = &record;
    *id = &cm_id;
    cm_ids += asks != NO_ID;
    return asks == NO_ID ? -1 : 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    CHECK(id->channel && cm_events == 0);
    id->channel = NULL;
    cm_ids--;
    return 0;
}

static void check_address(const struct sockaddr *sa, const union ibv_gid *gid)
{
    const struct sockaddr_ib *addr = (const void *)sa;

    CHECK(addr->sib_family == 27 /* AF_IB */ && addr->sib_pkey == htobe16(0x8123));
    CHECK(memcmp(&addr->sib_addr, gid->raw, sizeof(gid->raw)) == 0);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
                      int timeout)
{
    CHECK(id->channel && timeout == 250);
    check_address(from, &ports[FROM].at.gid);
    check_address(to, &wanted_gid);
    next_event = events[0];
    return asks == NO_ADDR ? -1 : 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout)
{
    CHECK(id->channel && timeout == 250 && next_event == events[0]);
    next_event = events[1];
    return asks == NO_ROUTE ? -1 : 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    CHECK(count == 1 && fds->fd == 12345 && fds->events == POLLIN && timeout == 250);
    return poll_result;
}

static bool event_is_lost;

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    static struct rdma_cm_event cm_event;

    CHECK(channel->fd == 12345);
    cm_event = (struct rdma_cm_event){.event = next_event};
    *event = &cm_event;
    cm_events += !event_is_lost;
    return event_is_lost ? -1 : 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    CHECK(event->event == next_event);
    cm_events--;
    return 0;
}

static uint16_t lid_of(enum ask how, enum rdma_cm_event_type first, enum rdma_cm_event_type second)
{
    uint8_t sl = 99;

    reset();
    asks = how;
    events[0] = first;
    events[1] = second;
    ports[FROM].pkey_index = 6;
    ports[FROM].at.gid.raw[3] = 33;
    record.dlid = htobe16(0x4321);
    record.sl = 5;
    uint16_t lid = vp_query_lid(&ports[FROM], &wanted_gid, 250, &sl);
    CHECK(fcntl(0, F_GETFD) < 0 && errno == EBADF);
    CHECK(channels == 0 && cm_ids == 0 && cm_events == 0);
    CHECK(sl == (lid ? 5 : 99));
    return lid;
}

static void the_subnet_manager_is_asked(void)
{
    const enum rdma_cm_event_type addr = RDMA_CM_EVENT_ADDR_RESOLVED,
                                  route = RDMA_CM_EVENT_ROUTE_RESOLVED;

    close(0); /* as a program may */
    CHECK(lid_of(ANSWERS, addr, route) == 0x4321);
    for (enum ask how = NO_CHANNEL; how < ANSWERS; how++)
        CHECK(lid_of(how, addr, route) == 0);
    CHECK(lid_of(ANSWERS, RDMA_CM_EVENT_ADDR_ERROR, route) == 0);
    CHECK(lid_of(ANSWERS, addr, RDMA_CM_EVENT_ROUTE_ERROR) == 0);
    event_is_lost = true;
    CHECK(lid_of(ANSWERS, addr, route) == 0);
    event_is_lost = false;
    poll_result = 0; /* it does not answer */
    CHECK(lid_of(ANSWERS, addr, route) == 0);
    poll_result = 1;
    printf("ok: the subnet manager is asked\n");
}

int main(void)
{
    a_datagram_that_arrives();
    datagrams_that_do_not_arrive();
    ports_that_cannot_be_tried();
    ports_of_other_subnets();
    the_subnet_manager_is_asked();
    return 0;
}
