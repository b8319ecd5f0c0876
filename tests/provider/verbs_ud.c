/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams of a port without a device: what ports/ud.c asks of libibverbs, which this file
 * replaces; what it gives back when one step fails; which buffers are in use.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs/ports/ud.h"
#include "verbs/wake.h"
#include "util/env.h"
#include "util/fd.h"
#include "checked_locks.h"
#include "../harness/check.h"

enum { RECVS = 256, SENDS = 128, HEADER = 40, BUFFER = 320, PORT = 3, QPN = 4711, KEYS = 4 };
enum step {
    QUERY_PORT,
    QUERY_GID,
    ALLOC_PD,
    CREATE_AH,
    REG_MR,
    CREATE_CHANNEL,
    CREATE_RECV_CQ,
    CREATE_SEND_CQ,
    CREATE_QP,
    TO_INIT,
    POST_RECV,
    TO_RTR,
    TO_RTS,
    NOTIFY,
    STEPS
};

/* The provider's memory */

static bool no_memory;
static size_t most_asked; /* bytes of the largest block */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if (count * size > most_asked)
        most_asked = count * size;
    return no_memory ? NULL : __real_calloc(count, size);
}

/*
 * The device: each object counts, each step may fail
 */

static int fails[STEPS]; /* errno; -1: without an errno */
static unsigned int live[STEPS], made[STEPS];
static struct ibv_device device = {.name = "fake0"};
static struct ibv_context context = {.device = &device};
static struct ibv_pd own_pd = {.context = &context};
static struct vp_device dev = {.context = &context, .pd = &own_pd};
static struct vp_port port;
static struct vp_prov prov;

static struct ibv_port_attr port_attr;
static union ibv_gid port_gid;
static uint32_t asked_gid;
static uint16_t pkeys[KEYS];
static bool pkey_fails[KEYS];
static unsigned int most_pkeys; /* the table ends here */
static struct ibv_ah_attr path;
static void (*while_ah_is_made)(void);
static struct ibv_qp_init_attr qp_init;
static uint8_t *slab;
static size_t slab_size;
static int reg_access;
static bool posted[RECVS];
static unsigned int num_posted, notified, acked, events;
static struct ibv_cq *recv_cq, *send_cq;
static struct ibv_send_wr sent;
static struct ibv_sge sent_sge;
static uint8_t sent_data[VP_UD_MAX];
static uint64_t in_flight[SENDS + 1];
static unsigned int num_in_flight, num_done;
static bool refuses;
static struct ibv_wc arrived[8];
static unsigned int num_arrived, hidden; /* the second poll sees the hidden ones, too */

static bool begin(enum step step)
{
    if (fails[step]) {
        if (fails[step] > 0)
            errno = fails[step];
        return false;
    }
    live[step]++;
    made[step]++;
    return true;
}

static void end(enum step step)
{
    CHECK(live[step]-- > 0);
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t num, struct _compat_ibv_port_attr *attr)
{
    CHECK(c == &context && num == PORT);
    *(struct ibv_port_attr *)attr = port_attr;
    return fails[QUERY_PORT];
}

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t num, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    CHECK(c == &context && num == PORT && flags == 0 && size == sizeof(*entry));
    asked_gid = index;
    if (!fails[QUERY_GID])
        entry->gid = port_gid;
    return fails[QUERY_GID];
}

int ibv_query_pkey(struct ibv_context *c, uint8_t num, int index, __be16 *pkey)
{
    CHECK(c == &context && num == PORT && index >= 0 && (unsigned int)index < most_pkeys);
    *pkey = htobe16(pkeys[index]);
    return pkey_fails[index] ? -1 : 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
    static struct ibv_pd pd;

    pd.context = c;
    return begin(ALLOC_PD) ? &pd : NULL;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    CHECK(pd != &own_pd);
    end(ALLOC_PD);
    return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    void (*other_thread)(void) = while_ah_is_made;

    path = *attr;
    while_ah_is_made = NULL;
    if (other_thread)
        other_thread();
    if (!begin(CREATE_AH))
        return NULL;
    struct ibv_ah *ah = __real_calloc(1, sizeof(*ah));
    ah->pd = pd;
    return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    end(CREATE_AH);
    free(ah);
    return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t size, int access)
{
    static struct ibv_mr mr = {.lkey = 99};

    CHECK(pd == &own_pd);
    slab = addr;
    slab_size = size;
    reg_access = access;
    return begin(REG_MR) ? &mr : NULL;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t size, uint64_t iova,
                                unsigned int access)
{
    CHECK(iova == (uintptr_t)addr);
    return ibv_reg_mr(pd, addr, size, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    CHECK(mr->lkey == 99 && live[CREATE_QP] == 0);
    end(REG_MR);
    return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
    static struct ibv_comp_channel channel;

    if (!begin(CREATE_CHANNEL))
        return NULL;
    channel = (struct ibv_comp_channel){.context = c, .fd = eventfd(0, EFD_CLOEXEC)};
    CHECK(channel.fd >= 0);
    return &channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    CHECK(live[CREATE_RECV_CQ] == 0);
    close(channel->fd);
    end(CREATE_CHANNEL);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *arg,
                             struct ibv_comp_channel *channel, int vector)
{
    static struct ibv_cq cqs[2];

    CHECK(!arg && vector == 0);
    if (!begin(channel ? CREATE_RECV_CQ : CREATE_SEND_CQ))
        return NULL;
    CHECK(cqe == (channel ? RECVS : SENDS));
    *(channel ? &recv_cq : &send_cq) = &cqs[!channel];
    cqs[!channel] = (struct ibv_cq){.context = c, .cqe = cqe, .channel = channel};
    return &cqs[!channel];
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    CHECK(live[CREATE_QP] == 0);
    end(cq->channel ? CREATE_RECV_CQ : CREATE_SEND_CQ);
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    static struct ibv_qp qp = {.qp_num = QPN};

    CHECK(pd == &own_pd);
    qp.context = &context;
    qp_init = *attr;
    return begin(CREATE_QP) ? &qp : NULL;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    CHECK(qp->qp_num == QPN && live[CREATE_QP] == 1);
    end(CREATE_QP);
    return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    static const struct {
        enum step step;
        int mask;
    } to[] = {
        [IBV_QPS_INIT] = {TO_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
        [IBV_QPS_RTR] = {TO_RTR, IBV_QP_STATE},
        [IBV_QPS_RTS] = {TO_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN}};

    CHECK(qp->qp_num == QPN && attr->qp_state >= IBV_QPS_INIT && attr->qp_state <= IBV_QPS_RTS);
    CHECK(mask == to[attr->qp_state].mask);
    CHECK(attr->qp_state != IBV_QPS_INIT ||
          (attr->pkey_index == port.pkey_index && attr->port_num == PORT && attr->qkey == 0x1234));
    CHECK(made[TO_INIT] == (attr->qp_state > IBV_QPS_INIT) &&
          made[TO_RTR] == (attr->qp_state > IBV_QPS_RTR));
    made[to[attr->qp_state].step] += !fails[to[attr->qp_state].step];
    return fails[to[attr->qp_state].step];
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **arg)
{
    CHECK((fcntl(channel->fd, F_GETFL) & O_NONBLOCK) != 0);
    *arg = NULL;
    if (!events)
        return -1;
    events--;
    *cq = recv_cq;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
    CHECK(cq == recv_cq);
    acked += n;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    *bad = wr;
    if (fails[POST_RECV])
        return fails[POST_RECV];
    CHECK(qp->qp_num == QPN && wr->num_sge == 1 && !wr->next && wr->wr_id < RECVS);
    CHECK(!posted[wr->wr_id] && wr->sg_list->length == BUFFER && wr->sg_list->lkey == 99);
    CHECK(wr->sg_list->addr == (uintptr_t)slab + wr->wr_id * BUFFER);
    posted[wr->wr_id] = true;
    num_posted++;
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    *bad = wr;
    if (refuses)
        return ENOMEM;
    CHECK(qp->qp_num == QPN && !wr->next && num_in_flight < SENDS);
    CHECK(wr->opcode == IBV_WR_SEND && wr->send_flags == IBV_SEND_SIGNALED && wr->num_sge == 1);
    for (unsigned int i = 0; i < num_in_flight; i++)
        CHECK(in_flight[i] != wr->sg_list->addr);
    in_flight[num_in_flight++] = wr->sg_list->addr;
    CHECK(wr->sg_list->addr >= (uintptr_t)slab + RECVS * BUFFER);
    CHECK(wr->sg_list->addr + BUFFER <= (uintptr_t)slab + slab_size);
    CHECK(wr->sg_list->addr == (uintptr_t)slab + wr->wr_id * BUFFER);
    sent = *wr;
    sent_sge = *wr->sg_list;
    memcpy(sent_data, slab + wr->wr_id * BUFFER, wr->sg_list->length);
    return 0;
}

/* The first requests in flight are done. */
static int take_sends(int most, struct ibv_wc *wc)
{
    int n = 0;

    while (n < most && num_done > 0 && num_in_flight > 0) {
        wc[n] = (struct ibv_wc){.wr_id = (in_flight[0] - (uintptr_t)slab) / BUFFER};
        memmove(in_flight, in_flight + 1, --num_in_flight * sizeof(in_flight[0]));
        num_done--;
        n++;
    }
    return n;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    CHECK(cq == recv_cq || cq == send_cq);
    if (cq == send_cq)
        return take_sends(most, wc);
    CHECK(most == 1);
    if (num_arrived == hidden) {
        hidden = 0;
        return 0;
    }
    *wc = arrived[0];
    posted[wc->wr_id] = false;
    memmove(arrived, arrived + 1, --num_arrived * sizeof(arrived[0]));
    return 1;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    CHECK(cq == recv_cq && !solicited);
    notified += !fails[NOTIFY];
    return fails[NOTIFY];
}

/*
 * A port
 */

static void reset(void)
{
    memset(fails, 0, sizeof(fails));
    memset(made, 0, sizeof(made));
    memset(posted, 0, sizeof(posted));
    num_posted = notified = acked = events = num_in_flight = num_done = num_arrived = hidden = 0;
    refuses = false;
    port = (struct vp_port){.dev = &dev,
                            .num = PORT,
                            .gid_index = -1,
                            .pkey_index = 2,
                            .traffic_class = -1,
                            .at.qkey = 0x1234,
                            .name = "fake0"};
    pkeys[0] = 0x7fff, pkeys[1] = 0x8001, pkeys[2] = 0xffff, pkeys[3] = 0x0002;
    memset(pkey_fails, 0, sizeof(pkey_fails));
    most_pkeys = KEYS;
    port_attr = (struct ibv_port_attr){
        .lid = 17, .active_mtu = IBV_MTU_2048, .pkey_tbl_len = KEYS, .state = IBV_PORT_ACTIVE};
    memset(&port_gid, 0x5a, sizeof(port_gid));
}

static void check_nothing_is_left(void)
{
    for (int i = 0; i < STEPS; i++)
        CHECK(live[i] == 0);
}

static void open_port(void)
{
    reset();
    CHECK(vp_ud_open(&prov, &port) == 0);
}

static void close_port(const char *what)
{
    vp_ud_close(&port);
    CHECK(!port.ud);
    vp_ud_close(&port); /* a second time: nothing */
    check_nothing_is_left();
    if (what)
        printf("ok: %s\n", what);
}

/* Runs a test with UTOFU_VERBS_CONNECT of its own; before this process has read its own. */
static void with_connect(const char *value, void (*test)(void))
{
    int status;
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setenv("UTOFU_VERBS_CONNECT", value, 1);
        CHECK(ut_env_load() == 0);
        test();
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/*
 * Probing
 */

static void infiniband_ports_have_a_lid(void)
{
    for (int grh = 0; grh < 2; grh++) {
        reset();
        port.at.lid = 1;
        port_attr.flags = grh ? IBV_QPF_GRH_REQUIRED | 1 << 7 : 1 << 7;
        CHECK(vp_ud_probe_port(&port, -1) == 0);
        CHECK(port.gid_index == -1 && port.at.lid == 17 && port.mtu == IBV_MTU_2048);
        CHECK(port.needs_grh == grh && asked_gid == 0 && port.pkey_index == 1);
        CHECK(memcmp(&port.at.gid, &port_gid, sizeof(port_gid)) == 0);
        CHECK(path.dlid == 17 && path.port_num == PORT && path.is_global == grh);
        CHECK(made[ALLOC_PD] == 1 && made[CREATE_AH] == 1);
        check_nothing_is_left();
    }
    fails[QUERY_GID] = EINVAL; /* a LID is enough */
    CHECK(vp_ud_probe_port(&port, -1) == 0 && port.at.lid == 17);
    printf("ok: InfiniBand ports have a LID\n");
}

static void roce_ports_have_a_gid(void)
{
    reset();
    port.at.lid = 1;
    CHECK(vp_ud_probe_port(&port, 5) == 0);
    CHECK(port.gid_index == 5 && port.at.lid == 0 && asked_gid == 5);
    CHECK(path.is_global && path.grh.sgid_index == 5 &&
          memcmp(&path.grh.dgid, &port_gid, sizeof(port_gid)) == 0);
    fails[QUERY_GID] = ENODATA;
    CHECK(vp_ud_probe_port(&port, 0) == -ENODATA && asked_gid == 0);
    fails[QUERY_GID] = 0;
    CHECK(vp_ud_probe_port(&port, 0) == 0 && port.gid_index == 0 && path.is_global);
    CHECK(port.at.lid == 0);
    check_nothing_is_left();
    printf("ok: RoCE ports have a GID\n");
}

static void probes_that_fail_keep_nothing(void)
{
    reset();
    fails[QUERY_PORT] = 1;
    CHECK(vp_ud_probe_port(&port, -1) == -EIO && made[ALLOC_PD] == 0);
    reset();
    fails[ALLOC_PD] = ENOSPC;
    CHECK(vp_ud_probe_port(&port, -1) == -ENOSPC);
    reset();
    fails[CREATE_AH] = ENETUNREACH;
    CHECK(vp_ud_probe_port(&port, -1) == -ENETUNREACH && made[ALLOC_PD] == 1);
    check_nothing_is_left();
    printf("ok: probes that fail keep nothing\n");
}

/* The first partition of which the port is a full member; those that cannot be read are passed by;
 * without one the first of all. */
static void partition_is_the_first_full_one(void)
{
    reset();
    pkey_fails[1] = true;
    CHECK(vp_ud_probe_port(&port, -1) == 0 && port.pkey_index == 2);
    port_attr.pkey_tbl_len = 2;
    most_pkeys = 2;
    CHECK(vp_ud_probe_port(&port, -1) == 0 && port.pkey_index == 0);
    pkey_fails[1] = false;
    CHECK(vp_ud_probe_port(&port, -1) == 0 && port.pkey_index == 1);
    printf("ok: the partition is the first full one\n");
}

static void partition_is_the_wanted_one(void) /* pkey=0x7fff */
{
    reset();
    CHECK(vp_ud_probe_port(&port, -1) == 0 && port.pkey_index == 0);
    pkeys[0] = 0x1fff;
    CHECK(vp_ud_probe_port(&port, -1) == 0 && port.pkey_index == 2);
    pkeys[2] = 0xfffe;
    CHECK(vp_ud_probe_port(&port, -1) == -ENOENT && made[ALLOC_PD] == 2);
    CHECK(vp_ud_probe_port(&port, 0) == 0 && port.pkey_index == 1); /* RoCE has no partitions */
    check_nothing_is_left();
}

/*
 * Paths
 */

static const struct vp_ud_addr far_away = {.lid = 9, .sl = 6, .qpn = 77, .qkey = 88};

static void check_path(int gid_index, bool needs_grh, int traffic_class, uint8_t sl, uint8_t class)
{
    struct ibv_ah_attr attr;
    struct vp_ud_addr to = far_away;

    reset();
    memset(&attr, 0xff, sizeof(attr));
    memset(&to.gid, 0x33, sizeof(to.gid));
    port.gid_index = gid_index;
    port.needs_grh = needs_grh;
    port.traffic_class = (int16_t)traffic_class;
    port.rdmacm_class = 0x50;
    vp_ud_path(&port, &to, &attr);
    bool global = gid_index >= 0 || needs_grh;
    CHECK(attr.port_num == PORT && attr.dlid == 9 && attr.sl == sl && attr.is_global == global);
    CHECK(attr.static_rate == 0 && attr.src_path_bits == 0 && attr.grh.flow_label == 0);
    CHECK((memcmp(&attr.grh.dgid, &to.gid, sizeof(to.gid)) == 0) == global);
    CHECK(attr.grh.sgid_index == (gid_index > 0 ? gid_index : 0));
    CHECK(attr.grh.hop_limit == (global ? 64 : 0) && attr.grh.traffic_class == class);
}

static void paths_by_default(void)
{
    check_path(-1, false, -1, 6, 0);
    check_path(-1, true, 0x60, 6, 0);
    check_path(0, false, -1, 0x50 >> 5, 0x50);
    check_path(3, false, 0x60, 3, 0x60);
    check_path(1, true, 0, 0, 0);
    check_path(2, true, 0xe0, 7, 0xe0);
    printf("ok: paths by default\n");
}

static void paths_by_the_variable(void) /* sl=4,traffic_class=255 */
{
    check_path(-1, false, -1, 4, 0);
    check_path(-1, true, 0x60, 4, 255);
    check_path(0, false, 0x60, 7, 255);
}

static void paths_by_a_class_of_0(void) /* sl=0,traffic_class=0 */
{
    check_path(-1, true, 0x60, 0, 0);
    check_path(0, false, 0x60, 0, 0);
}

/*
 * Opening
 */

static void an_open_port_receives(void)
{
    struct epoll_event event;

    for (int relaxed = 0; relaxed < 2; relaxed++) {
        dev.relaxed = relaxed;
        open_port();
        CHECK(port.at.qpn == QPN && num_posted == RECVS && notified == 1);
        CHECK(slab_size == (size_t)(RECVS + SENDS) * BUFFER && most_asked == slab_size);
        CHECK(ut_fd_is_still_ours(vp_ud_fd(&port))); /* given up in forked processes */
        CHECK(reg_access == (IBV_ACCESS_LOCAL_WRITE | (relaxed ? VP_ACCESS_RELAXED : 0)));
        CHECK(qp_init.qp_type == IBV_QPT_UD && qp_init.recv_cq == recv_cq &&
              qp_init.send_cq == send_cq && !qp_init.sq_sig_all);
        CHECK(qp_init.cap.max_send_wr == SENDS && qp_init.cap.max_recv_wr == RECVS &&
              qp_init.cap.max_send_sge == 1 && qp_init.cap.max_recv_sge == 1);
        CHECK(made[TO_INIT] == 1 && made[TO_RTR] == 1 && made[TO_RTS] == 1);
        CHECK(vp_ud_sends_are_done(&port));
        uint64_t one = 1;
        CHECK(write(vp_ud_fd(&port), &one, sizeof(one)) == sizeof(one));
        CHECK(epoll_wait(prov.epoll_fd, &event, 1, 0) == 1 && event.data.u32 == VP_WATCH_UD);
        close_port(NULL);
    }
    printf("ok: an open port receives\n");
}

static void a_port_that_cannot_be_opened_keeps_nothing(void)
{
    static const enum step steps[] = {REG_MR,    CREATE_CHANNEL, CREATE_RECV_CQ, CREATE_SEND_CQ,
                                      CREATE_QP, TO_INIT,        POST_RECV,      TO_RTR,
                                      TO_RTS,    NOTIFY};

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        reset();
        fails[steps[i]] = EPERM;
        CHECK(vp_ud_open(&prov, &port) == -EPERM && !port.ud);
        CHECK(port.at.qpn == 0);
        CHECK(num_posted == (steps[i] > POST_RECV ? RECVS : 0));
        check_nothing_is_left();
    }
    reset();
    fails[CREATE_QP] = -1; /* no reason: taken for a lack of memory */
    CHECK(vp_ud_open(&prov, &port) == -ENOMEM && !port.ud);
    reset();
    int epoll_fd = prov.epoll_fd;
    prov.epoll_fd = -1;
    CHECK(vp_ud_open(&prov, &port) == -EIO && !port.ud);
    prov.epoll_fd = epoll_fd;
    check_nothing_is_left();
    printf("ok: a port that cannot be opened keeps nothing\n");
}

/*
 * Addresses
 */

static struct vp_ud_addr to;

static void another_thread_resolves(void)
{
    CHECK(vp_ud_resolve(&port, &to) == 0);
}

static void each_path_has_one_handle(void)
{
    open_port();
    to = far_away;
    for (int i = 0; i < 3; i++)
        CHECK(vp_ud_resolve(&port, &to) == 0);
    CHECK(made[CREATE_AH] == 1 && live[CREATE_AH] == 1 && path.dlid == 9);
    to.qpn++; /* another process of the same port */
    CHECK(vp_ud_resolve(&port, &to) == 0 && made[CREATE_AH] == 1);
    to.sl++; /* the same hash */
    CHECK(vp_ud_resolve(&port, &to) == 0 && made[CREATE_AH] == 2);
    to.gid.raw[0] = to.gid.raw[8] = 1; /* the same hash */
    CHECK(vp_ud_resolve(&port, &to) == 0 && made[CREATE_AH] == 3);
    to.gid.raw[8]++;
    to.lid--; /* the same hash */
    to.gid.raw[0] = 0;
    to.gid.raw[8] = 1;
    CHECK(vp_ud_resolve(&port, &to) == 0 && made[CREATE_AH] == 4);
    for (uint8_t i = 0; i < 100; i++) {
        to.gid.raw[15] = i;
        CHECK(vp_ud_resolve(&port, &to) == 0);
    }
    CHECK(made[CREATE_AH] == 103 && live[CREATE_AH] == 103);
    to.lid = 1000;
    while_ah_is_made = another_thread_resolves;
    CHECK(vp_ud_resolve(&port, &to) == 0);
    CHECK(made[CREATE_AH] == 105 && live[CREATE_AH] == 104);
    close_port("each path has one handle");
}

static void paths_that_lead_nowhere(void)
{
    open_port();
    to = far_away;
    fails[CREATE_AH] = ETIMEDOUT;
    CHECK(vp_ud_resolve(&port, &to) == -ETIMEDOUT);
    fails[CREATE_AH] = -1;
    errno = 0;
    CHECK(vp_ud_resolve(&port, &to) == -EHOSTUNREACH);
    CHECK(!vp_ud_send(&port, &to, "a", 1) && num_in_flight == 0);
    fails[CREATE_AH] = 0;
    CHECK(vp_ud_resolve(&port, &to) == 0 && vp_ud_send(&port, &to, "a", 1));
    close_port("paths that lead nowhere");
}

static void no_memory_for_a_handle(void)
{
    open_port();
    to = far_away;
    for (unsigned int i = 0; i < 2; i++, to.lid++) { /* the first also needs a table */
        no_memory = true;
        int rc = vp_ud_resolve(&port, &to);
        no_memory = false;
        CHECK(rc == -ENOMEM && live[CREATE_AH] == i);
        CHECK(vp_ud_resolve(&port, &to) == 0 && live[CREATE_AH] == i + 1);
    }
    close_port(NULL);
    reset();
    no_memory = true;
    int rc = vp_ud_open(&prov, &port);
    no_memory = false;
    CHECK(rc == -ENOMEM && !port.ud);
    printf("ok: no memory for a handle\n");
}

/*
 * Sending
 */

static void datagrams_are_copied(void)
{
    uint8_t data[VP_UD_MAX];
    static const size_t sizes[] = {1, 100, VP_UD_MAX};

    open_port();
    to = far_away;
    CHECK(vp_ud_resolve(&port, &to) == 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(data, (int)i + 1, sizeof(data));
        CHECK(vp_ud_send(&port, &to, data, sizes[i]));
        CHECK(sent_sge.length == sizes[i] && sent_sge.lkey == 99);
        CHECK(memcmp(sent_data, data, sizes[i]) == 0);
        CHECK(sent.wr.ud.ah && sent.wr.ud.remote_qpn == 77 && sent.wr.ud.remote_qkey == 88);
        CHECK(!vp_ud_sends_are_done(&port));
    }
    struct ibv_ah *first = sent.wr.ud.ah;
    to.lid++;
    CHECK(!vp_ud_send(&port, &to, data, 1)); /* not resolved */
    CHECK(vp_ud_resolve(&port, &to) == 0 && vp_ud_send(&port, &to, data, 1));
    CHECK(sent.wr.ud.ah != first);
    close_port("datagrams are copied");
}

/* Each of the buffers serves one datagram at a time, also after some were refused. */
static void so_many_datagrams_are_in_flight(void)
{
    static const unsigned int done[] = {1, 15, 16, 17, 40, SENDS - 1, SENDS};

    open_port();
    to = far_away;
    CHECK(vp_ud_resolve(&port, &to) == 0);
    for (size_t i = 0; i < sizeof(done) / sizeof(done[0]); i++) {
        while (vp_ud_send(&port, &to, "a", 1))
            ;
        CHECK(num_in_flight == SENDS);
        num_done = done[i];
        refuses = true;
        for (int k = 0; k < 3; k++)
            CHECK(!vp_ud_send(&port, &to, "a", 1));
        refuses = false;
        CHECK(num_in_flight == SENDS - done[i]);
        CHECK(vp_ud_sends_are_done(&port) == (done[i] == SENDS));
    }
    CHECK(vp_ud_send(&port, &to, "a", 1));
    num_done = 1;
    CHECK(vp_ud_sends_are_done(&port));
    close_port("so many datagrams are in flight");
}

/*
 * Receiving
 */

static void arrive(uint64_t buffer, uint32_t size, enum ibv_wc_status status)
{
    CHECK(posted[buffer]);
    memset(slab + buffer * BUFFER, 0xee, HEADER);
    memset(slab + buffer * BUFFER + HEADER, (int)(buffer | 1), BUFFER - HEADER);
    arrived[num_arrived++] = (struct ibv_wc){
        .wr_id = buffer, .byte_len = size, .status = status, .sl = (uint8_t)(buffer % 16)};
}

static void check_received(uint64_t buffer, size_t size)
{
    uint8_t data[VP_UD_MAX + 1], sl = 99;

    memset(data, 0, sizeof(data));
    CHECK(vp_ud_recv(&port, data, &sl) == size);
    CHECK(sl == (size ? buffer % 16 : 99));
    for (size_t i = 0; i < sizeof(data); i++)
        CHECK(data[i] == (i < size ? buffer | 1 : 0));
}

static void what_arrives_is_taken_in_order(void)
{
    open_port();
    check_received(0, 0);
    arrive(0, HEADER + 1, IBV_WC_SUCCESS);
    arrive(5, HEADER + VP_UD_MAX, IBV_WC_SUCCESS);
    arrive(255, HEADER + 100, IBV_WC_SUCCESS);
    check_received(0, 1);
    CHECK(posted[0]); /* again */
    check_received(5, VP_UD_MAX);
    check_received(255, 100);
    check_received(0, 0);
    CHECK(num_posted == RECVS + 3);
    close_port("what arrives is taken in order");
}

/* Datagrams of a wrong size are none; a buffer that was flushed does not return to the queue. */
static void what_is_no_datagram_is_passed_by(void)
{
    open_port();
    arrive(1, HEADER, IBV_WC_SUCCESS);
    arrive(2, HEADER + VP_UD_MAX + 1, IBV_WC_SUCCESS);
    arrive(3, HEADER + 8, IBV_WC_LOC_LEN_ERR);
    arrive(4, HEADER + 8, IBV_WC_WR_FLUSH_ERR);
    arrive(6, HEADER + 8, IBV_WC_SUCCESS);
    check_received(6, 8);
    CHECK(posted[1] && posted[2] && posted[3] && !posted[4] && posted[6]);
    arrive(7, HEADER + 8, IBV_WC_SUCCESS);
    fails[POST_RECV] = ENOMEM;
    check_received(7, 8);
    CHECK(!posted[7]);
    close_port("what is no datagram is passed by");
}

/* After an event, the queue is armed once and looked at once more. */
static void queue_is_armed_before_the_last_look(void)
{
    open_port();
    check_received(0, 0);
    CHECK(notified == 1); /* when it was opened */
    events = 3;
    arrive(9, HEADER + 2, IBV_WC_SUCCESS);
    hidden = 1; /* arrives between the two looks */
    check_received(9, 2);
    CHECK(events == 0 && acked == 3 && notified == 2);
    check_received(0, 0);
    CHECK(notified == 2);
    arrive(9, HEADER + 2, IBV_WC_SUCCESS);
    hidden = 1;
    check_received(0, 0); /* no event: nothing has arrived yet */
    check_received(9, 2);
    events = 1;
    fails[NOTIFY] = EIO;
    check_received(0, 0);
    fails[NOTIFY] = 0;
    check_received(0, 0); /* tries again */
    CHECK(acked == 4 && notified == 3);
    close_port("the queue is armed before the last look");
}

int main(void)
{
    context.ops.post_recv = post_recv;
    context.ops.post_send = post_send;
    context.ops.poll_cq = poll_cq;
    context.ops.req_notify_cq = req_notify_cq;
    prov.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    with_connect("auto,pkey=32767", partition_is_the_wanted_one);
    with_connect("auto,sl=4,traffic_class=255", paths_by_the_variable);
    with_connect("auto,sl=0,traffic_class=0", paths_by_a_class_of_0);
    CHECK(ut_env_load() == 0);
    infiniband_ports_have_a_lid();
    roce_ports_have_a_gid();
    probes_that_fail_keep_nothing();
    partition_is_the_first_full_one();
    paths_by_default();
    an_open_port_receives();
    a_port_that_cannot_be_opened_keeps_nothing();
    each_path_has_one_handle();
    paths_that_lead_nowhere();
    no_memory_for_a_handle();
    datagrams_are_copied();
    so_many_datagrams_are_in_flight();
    what_arrives_is_taken_in_order();
    what_is_no_datagram_is_passed_by();
    queue_is_armed_before_the_last_look();
    close(prov.epoll_fd);
    return 0;
}
