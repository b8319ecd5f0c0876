/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices and ports are found and used, and what is given back when a call fails
 * (ports/device.c), without a device: this file replaces libibverbs and librdmacm, the settings of
 * the environment, and the modules that select ports and look for addresses.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>

#include "../harness/check.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/log.h"
#include "verbs/connect/cm_ops.h"
#include "verbs/ports/candidate.h"
#include "verbs/ports/ece.h"
#include "verbs/ports/netdev.h"
#include "verbs/ports/order.h"
#include "verbs/ports/qp_budget.h"
#include "verbs/ports/reach.h"
#include "verbs/ports/select.h"
#include "verbs/ports/ud.h"
#include "verbs/wake.h"
#include "steps.h"
#include "failing_calls.h"

enum { DEVICES = VP_MAX_DEVICES + 1, PORTS = 3 };

/*
 * The machine
 */

static struct machine {
    unsigned int num_devices, num_ports; /* ports of each device */
    enum ibv_transport_type transport;
    enum ibv_port_state state;
    uint8_t link;
    uint32_t vendor;
    int max_srq;
    int num_addresses; /* of each port */
    int bad_addresses; /* so many of them cannot be bound, */
    int foreign;       /* then so many belong to other devices, */
    int other_port;    /* and so many to the other port */
    bool takes_datagrams, other_subnets, has_no_qps;
    int no_datagrams_at; /* this port */
    unsigned int other_namespaces;
    unsigned int most_inline;
    bool has_wr_api;
    int rlimit_fails;
    rlim_t memlock;
    bool same_address;
} m;
static const char *listed, *listed_subnets;
static bool subnets_are_wrong, wants_gid;
static uint64_t chosen_cm, ud_from, wr_api_setting, srq_setting, provider_setting;
static struct ibv_device devices[DEVICES];
static struct ibv_context contexts[DEVICES];
static struct ibv_comp_channel comp_channels[DEVICES];
static struct vp_prov own;
static int lists, opens, pds, channels, cqs, qps, ids, datagrams, most_opens;
static unsigned int used_limit; /* what vp_ports_sort() returns at most */

/*
 * libibverbs
 */

struct ibv_device **ibv_get_device_list(int *count)
{
    static struct ibv_device *list[DEVICES + 1];

    CHECK(!count);
    if (fails("ibv_get_device_list"))
        return NULL;
    for (unsigned int i = 0; i <= DEVICES; i++)
        list[i] = i < m.num_devices ? &devices[i] : NULL;
    lists++;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    CHECK(list);
    lists--;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *context = &contexts[device - devices];

    if (fails("ibv_open_device"))
        return NULL;
    context->device = device;
    context->cmd_fd = context->async_fd = 700 + (int)(device - devices);
    opens++;
    most_opens = opens > most_opens ? opens : most_opens;
    return context;
}

int ibv_close_device(struct ibv_context *context)
{
    CHECK(context->device);
    opens--;
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    CHECK(context->device);
    if (fails("ibv_query_device"))
        return ENOMEM;
    memset(attr, 0, sizeof(*attr));
    attr->phys_port_cnt = (uint8_t)m.num_ports;
    attr->vendor_id = m.vendor;
    attr->max_srq = m.max_srq;
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    static struct ibv_pd pd;

    pd.context = context;
    if (fails("ibv_alloc_pd"))
        return NULL;
    pds++;
    return &pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    CHECK(pd && opens > 0);
    pds--;
    return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = &comp_channels[context - contexts];

    if (fails("ibv_create_comp_channel"))
        return NULL;
    channel->fd = 800 + (int)(context - contexts);
    channels++;
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    CHECK(channel && pds > 0);
    channels--;
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *arg,
                             struct ibv_comp_channel *channel, int vector)
{
    static struct ibv_cq cq;

    CHECK(context->device && cqe == 16 && !arg && !channel && vector == 0);
    if (fails("ibv_create_cq"))
        return NULL;
    cqs++;
    return &cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    CHECK(cq && qps == 0);
    cqs--;
    return 0;
}

static struct ibv_qp *create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    static struct ibv_qp qp;
    bool by_calls = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

    CHECK(context->device && attr->cap.max_send_wr == 16 && attr->cap.max_recv_wr == 1);
    CHECK(attr->cap.max_send_sge == 1 && attr->cap.max_recv_sge == 1 && attr->pd);
    CHECK(attr->qp_type == IBV_QPT_RC && attr->send_cq && attr->recv_cq);
    step("%s%u ", by_calls ? "w" : "q", attr->cap.max_inline_data);
    errno = EINVAL;
    if (m.has_no_qps || attr->cap.max_inline_data > m.most_inline || (by_calls && !m.has_wr_api))
        return NULL;
    if (fails("ibv_create_qp_ex"))
        return NULL;
    attr->cap.max_inline_data += attr->cap.max_inline_data / 2; /* or more than was asked for */
    qps++;
    return &qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    CHECK(qp && cqs > 0);
    qps--;
    return 0;
}

const char *ibv_port_state_str(enum ibv_port_state state)
{
    return state == IBV_PORT_DOWN ? "PORT_DOWN" : "another";
}

static int query_state(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    CHECK(context && port > 0);
    attr->state = m.state;
    return fails("ibv_query_port") ? EIO : 0;
}

static int query_gid(struct ibv_context *context, uint32_t port, uint32_t index,
                     struct ibv_gid_entry *gid, uint32_t flags)
{
    CHECK(context->device && port > 0 && flags == 0);
    if (fails("ibv_query_gid_ex"))
        return EIO;
    *gid = (struct ibv_gid_entry){.gid_index = index, .ndev_ifindex = 40 + port};
    gid->gid.raw[0] = 0xfd;
    return 0;
}

static ssize_t query_gids(struct ibv_context *context, struct ibv_gid_entry *table, size_t max,
                          uint32_t flags)
{
    CHECK(context->device && max == VP_MAX_GIDS && flags == 0);
    if (fails("ibv_query_gid_table"))
        return -EIO;
    for (unsigned int i = 0; i < 2; i++)
        table[i] = (struct ibv_gid_entry){.gid_index = i, .port_num = i + 1};
    return 2;
}

/*
 * librdmacm
 */

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space space)
{
    CHECK(channel && context == own.cm.listener && space == RDMA_PS_TCP);
    if (fails("rdma_create_id"))
        return -1;
    *id = calloc(1, sizeof(**id));
    ids++;
    return 0;
}

/* The address of a port has its device, its port and its own number at the end. */
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
    uint32_t ip = ntohl(in->sin_addr.s_addr);
    int number = ip & 0xff;

    CHECK(in->sin_port == 0);
    if (number < m.bad_addresses || fails("rdma_bind_addr"))
        return -1;
    number -= m.bad_addresses;
    bool is_foreign = number < m.foreign;
    id->verbs = is_foreign && number == 0 ? NULL : &contexts[(ip >> 16 & 0xff) + is_foreign];
    if (id->verbs)
        id->verbs->device = &devices[id->verbs - contexts];
    number -= m.foreign;
    id->port_num = (uint8_t)((ip >> 8 & 0xff) + (!is_foreign && number < m.other_port));
    if (!is_foreign && m.other_port && number == m.other_port)
        id->port_num = 0; /* of any port */
    return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    CHECK(id->verbs && backlog == 1024);
    return fails("rdma_listen") ? -1 : 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    CHECK(id->verbs);
    return htons(4791);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    CHECK(id && ids > 0);
    free(id);
    ids--;
    return 0;
}

/*
 * The other modules
 */

static uint64_t env_num(enum ut_env_id id)
{
    return id == UT_ENV_VERBS_CONNECT     ? chosen_cm
           : id == UT_ENV_VERBS_UD_FROM   ? ud_from
           : id == UT_ENV_VERBS_WR_API    ? wr_api_setting
           : id == UT_ENV_VERBS_SRQ       ? srq_setting
           : id == UT_ENV_VERBS_GID_INDEX ? 7
           : id == UT_ENV_PROVIDER        ? provider_setting
                                          : 99;
}

static const char *env_str(enum ut_env_id id)
{
    CHECK(id == UT_ENV_VERBS_DEVICES || id == UT_ENV_VERBS_SUBNETS);
    return id == UT_ENV_VERBS_DEVICES ? listed : listed_subnets;
}

static bool is_valid(void)
{
    return !subnets_are_wrong;
}

static bool has_gid(void)
{
    return wants_gid;
}

static void fill_candidate(const struct ibv_gid_entry *gid, struct vp_candidate *out)
{
    memset(out, 0, sizeof(*out));
    out->addr.in.sin_family = AF_INET;
    out->addr.in.sin_addr.s_addr = htonl(0x0a000000 + gid->gid_index);
}

static int find_candidates(const struct vp_device *dev, unsigned int port, bool roce,
                           struct vp_candidate *out, unsigned int *others)
{
    CHECK(roce == (m.link == IBV_LINK_LAYER_ETHERNET));
    memset(out, 0, VP_MAX_CANDIDATES * sizeof(*out));
    for (int i = 0; i < m.num_addresses; i++) {
        out[i].addr.in.sin_family = AF_INET;
        out[i].addr.in.sin_port = 77;
        out[i].addr.in.sin_addr.s_addr =
            htonl(0x0a000000 | (uint32_t)(dev->context - contexts) << 16 | port << 8 | (uint32_t)i);
        out[i].gid_index = 3 + i;
    }
    *others = m.other_namespaces;
    return m.num_addresses;
}

static int query_port(struct ibv_context *context, unsigned int port, union vp_port_attr *out)
{
    CHECK(context->device && port >= 1 && port <= m.num_ports);
    memset(out, 0, sizeof(*out));
    out->attr.state = m.state;
    out->attr.link_layer = m.link;
    out->attr.max_msg_sz = 5000 + port;
    out->attr.active_mtu = IBV_MTU_2048;
    return fails("vp_query_port") ? EIO : 0;
}

static unsigned int speed_of(const union vp_port_attr *attr)
{
    return attr->attr.max_msg_sz;
}

static int class_of(const char *device, unsigned int port)
{
    CHECK(device && port);
    return 96 + (int)port;
}

static int cm_class_of(const char *device, unsigned int port)
{
    return class_of(device, port) + 8;
}

static void pci_of(const char *device, char text[VP_FUNCTION_TEXT])
{
    snprintf(text, VP_FUNCTION_TEXT, "pci %.2s", device);
}

static uint64_t adapter_of(const struct ibv_device_attr *attr)
{
    return attr->vendor_id + 1;
}

static int connector_of(const char *device, unsigned int port, const char *function)
{
    CHECK(strncmp(function, "pci ", 4) == 0 && strcmp(function + 4, device) == 0);
    return (int)port - 1;
}

static bool is_near(const char *device)
{
    return device[0] == 'a';
}

static void network_of(const union vp_sockaddr *addr, struct vp_network *out)
{
    *out = (struct vp_network){.family = (uint8_t)addr->sa.sa_family, .prefix = 24, .by_ip = true};
}

static void network_of_gid(const union ibv_gid *gid, struct vp_network *out)
{
    *out = (struct vp_network){.family = AF_INET6, .prefix = 64, .address = {gid->raw[0]}};
}

static bool name_bond(unsigned int index, char *text, size_t size)
{
    return snprintf(text, size, "bond%u", index) > 0;
}

static uint8_t paths_of(unsigned int index)
{
    return (uint8_t)(index - 38);
}

static bool reaches(const struct vp_port *from, const struct vp_port *to)
{
    return from != to;
}

static void group(struct vp_usable_port *usable, unsigned int count,
                  bool (*fn)(const struct vp_port *from, const struct vp_port *to))
{
    CHECK(usable && fn == (chosen_cm == UT_VERBS_CONNECT_RDMACM ? NULL : reaches));
    step("group %u ", count);
}

static const char *excluded_port; /* by the selection */

static void select_ports(struct vp_usable_port *usable, unsigned int count, bool chosen)
{
    CHECK(chosen == (*listed || *listed_subnets));
    for (unsigned int i = 0; i < count; i++) {
        if (excluded_port && strcmp(usable[i].name, excluded_port) == 0)
            snprintf(usable[i].why_not, sizeof(usable[i].why_not), "is slow");
        if (m.same_address)
            snprintf(usable[i].same_address_as, sizeof(usable[i].same_address_as), "z0:1");
    }
}

static unsigned int sort(struct vp_usable_port *usable, unsigned int count, bool chosen,
                         unsigned int local_rank)
{
    unsigned int used = 0;

    CHECK(chosen == (*listed || *listed_subnets) && local_rank == 2);
    for (unsigned int i = 0; i < count; i++) {
        if (usable[i].why_not[0])
            continue;
        struct vp_usable_port one = usable[used];
        usable[used++] = usable[i];
        if (used - 1 != i)
            usable[i] = one;
    }
    return used < used_limit ? used : used_limit;
}

static void find_links(struct vp_usable_port *usable, unsigned int used)
{
    for (unsigned int i = 0; i < used; i++)
        usable[i].port.phys_link = (uint8_t)(i + 1);
}

static bool need_datagrams_by_network;

static bool need_datagrams(const struct vp_usable_port *usable, unsigned int used)
{
    CHECK(usable && used <= used_limit);
    return need_datagrams_by_network;
}

static int probe_datagrams(struct vp_port *port, int gid_index)
{
    CHECK(port->dev->context && (gid_index < 0) == (m.link == IBV_LINK_LAYER_INFINIBAND));
    step("probe %d ", gid_index);
    if (!m.takes_datagrams || port->num == m.no_datagrams_at || fails("vp_ud_probe_port"))
        return -EOPNOTSUPP;
    port->gid_index = gid_index;
    port->at.lid = 9;
    port->at.gid.raw[7] = m.other_subnets ? port->num : 0;
    port->at.gid.raw[8] = port->num;
    return 0;
}

static int open_datagrams(struct vp_prov *p, struct vp_port *port)
{
    CHECK(p == &own && port->uses_datagrams && port->dev->pd);
    if (fails("vp_ud_open"))
        return -ENOMEM;
    port->ud = (struct vp_ud *)port;
    datagrams++;
    return 0;
}

static void close_datagrams(struct vp_port *port)
{
    datagrams -= port->ud != NULL;
    port->ud = NULL;
}

static int watch(struct vp_prov *p, int fd, unsigned int what)
{
    int device = (int)(what & 0xff);

    CHECK(p == &own && fd % 100 == p->devices[device].context - contexts);
    CHECK(fd / 100 == (what & VP_WATCH_COMP ? 8 : 7));
    return fails("vp_watch") ? -EIO : 0;
}

static struct vp_ece ece_of(struct ibv_qp *qp)
{
    CHECK(qp);
    return (struct vp_ece){3, 4};
}

static void detect_order(struct vp_device *dev, const struct vp_port *port, struct ibv_qp *qp)
{
    CHECK(qp && port->num > 0);
    dev->order = VP_ORDER_PROMISED;
}

static void init_budget(const struct vp_prov *p, struct vp_device *dev)
{
    CHECK(p == &own && dev->attr.phys_port_cnt > 0);
    dev->budget.max = 11;
}

static int mark_ours(int fd)
{
    return fd;
}

static bool are_nonblocking[DEVICES][2];

static int control_fd(int fd, int command, ...)
{
    va_list args;
    int flags = 0;

    va_start(args, command);
    if (command == F_SETFL)
        flags = va_arg(args, int);
    va_end(args);
    if (fails(command == F_GETFL ? "F_GETFL" : "F_SETFL"))
        return -1;
    if (command == F_SETFL)
        are_nonblocking[fd % 100][fd / 100 - 7] = flags == (O_RDWR | O_NONBLOCK);
    return command == F_GETFL ? O_RDWR : 0;
}

static int get_limit(int resource, struct rlimit *limit)
{
    CHECK(resource == RLIMIT_MEMLOCK);
    limit->rlim_cur = m.memlock;
    return m.rlimit_fails;
}

#include "noted_lines.h"
#undef ibv_query_port
#define ut_env_num              env_num
#define ut_env_str              env_str
#define ut_fd_mark_ours         mark_ours
#define ibv_create_qp_ex        create_qp
#define ibv_query_port          query_state
#define ibv_query_gid_ex        query_gid
#define ibv_query_gid_table     query_gids
#define vp_subnets_are_valid    is_valid
#define vp_wants_gid            has_gid
#define vp_gid_candidate        fill_candidate
#define vp_candidates           find_candidates
#define vp_query_port           query_port
#define vp_port_speed           speed_of
#define vp_traffic_class        class_of
#define vp_rdmacm_class         cm_class_of
#define vp_pci_function         pci_of
#define vp_adapter_id           adapter_of
#define vp_adapter_connector    connector_of
#define vp_is_numa_local        is_near
#define vp_network_of           network_of
#define vp_network_of_gid       network_of_gid
#define vp_netdev_bond          name_bond
#define vp_netdev_paths         paths_of
#define vp_port_reaches         reaches
#define vp_ports_group_fabrics  group
#define vp_ports_select         select_ports
#define vp_ports_sort           sort
#define vp_ports_find_links     find_links
#define vp_ports_need_datagrams need_datagrams
#define vp_ud_probe_port        probe_datagrams
#define vp_ud_open              open_datagrams
#define vp_ud_close             close_datagrams
#define vp_watch                watch
#define vp_ece_of               ece_of
#define vp_detect_order         detect_order
#define vp_budget_init          init_budget
#define fcntl                   control_fd
#define getrlimit               get_limit
#define calloc                  get_memory
#define free                    give_memory
#include "../../provider/verbs/ports/device.c"
#undef calloc
#undef free

/*
 * What is found
 */

static struct vp_survey survey;

static void reset(unsigned int num_devices, unsigned int num_ports)
{
    static struct rdma_event_channel channel;
    static const struct vp_cm_ops rdmacm = {.name = "rdmacm"}, ud = {.name = "ud"};
    static struct vp_cm_id listener;

    m = (struct machine){.num_devices = num_devices,
                         .num_ports = num_ports,
                         .transport = IBV_TRANSPORT_IB,
                         .state = IBV_PORT_ACTIVE,
                         .link = IBV_LINK_LAYER_ETHERNET,
                         .vendor = 5,
                         .max_srq = 1,
                         .num_addresses = 2,
                         .takes_datagrams = true,
                         .most_inline = 64,
                         .has_wr_api = true,
                         .memlock = RLIM_INFINITY};
    for (unsigned int i = 0; i < DEVICES; i++) {
        memset(&devices[i], 0, sizeof(devices[i]));
        snprintf(devices[i].name, sizeof(devices[i].name), "%c0", 'a' + i);
        devices[i].transport_type = m.transport;
    }
    listed = listed_subnets = "";
    subnets_are_wrong = wants_gid = need_datagrams_by_network = false;
    chosen_cm = UT_VERBS_CONNECT_AUTO;
    ud_from = provider_setting = 0;
    wr_api_setting = srq_setting = 1;
    excluded_port = NULL;
    used_limit = UINT32_MAX;
    most_opens = 0;
    fail_at = NONE;
    lines[0] = steps[0] = failed_call[0] = '\0';
    memset(are_nonblocking, 0, sizeof(are_nonblocking));
    memset(&survey, 0, sizeof(survey));
    memset(&own, 0, sizeof(own));
    own.config = (struct prov_config){.num_tnis = 6, .local_rank = 2, .job_size = 10};
    own.tuning.inline_size = 64;
    own.channel = &channel;
    own.cm.rdmacm = &rdmacm;
    own.cm.ud = &ud;
    own.cm.listener = &listener;
    own.survey = &survey;
    own.qkey = 1234;
    memset(own.ud_key, 0x3c, sizeof(own.ud_key));
}

static int open_now(void)
{
    int rc = vp_devices_open(&own);

    CHECK(lists == 0 && blocks == 0 && qps == 0 && cqs == 0);
    CHECK(opens == (int)own.num_devices && pds == opens && channels == opens);
    return rc;
}

static void close_now(const char *what)
{
    vp_devices_close(&own);
    if (opens || pds || channels || ids || datagrams)
        printf("%s: %d devices, %d pds, %d channels, %d ids, %d ports for datagrams\n", what, opens,
               pds, channels, ids, datagrams);
    CHECK(!opens && !pds && !channels && !ids && !datagrams);
    CHECK(own.num_ports == 0 && own.num_devices == 0);
}

/* The reason why a port is not used. */
static bool is_excluded(const char *device, unsigned int port, const char *why)
{
    for (unsigned int i = 0; i < survey.num_exclusions; i++) {
        const struct vp_port_exclusion *e = &survey.exclusions[i];
        if (strcmp(e->device, device) == 0 && e->port == port && strcmp(e->why, why) == 0)
            return true;
    }
    printf("%s:%u: not excluded because it %s\n%s", device, port, why, lines);
    return false;
}

/* All that a port and a device tell goes to the provider. */
static void ports_are_adopted(void)
{
    reset(2, 2);
    CHECK(open_now() == 0 && own.num_devices == 2 && own.num_ports == 4 && own.many_ports);
    CHECK(ids == 4 && survey.num_exclusions == 0);
    for (unsigned int i = 0; i < 4; i++) {
        const struct vp_port *port = &own.ports[i];
        const struct vp_device *dev = &own.devices[i / 2];
        char name[80], text[INET6_ADDRSTRLEN];
        CHECK(port->dev == dev && port->num == i % 2 + 1 && port->cm_ops == own.cm.rdmacm);
        CHECK(port->max_msg == 5001 + i % 2 && port->speed == 5001 + i % 2);
        CHECK(port->mtu == IBV_MTU_2048 && port->gid_index == 3 && port->listener);
        CHECK(port->traffic_class == (int)(97 + i % 2) && port->rdmacm_class == 105 + i % 2);
        CHECK(port->phys_link == i + 1 && !port->uses_datagrams && !port->ud);
        CHECK(vp_ip_port(&port->addr) == htons(4791));
        CHECK(port->network.family == AF_INET && port->network.prefix == 24);
        CHECK(port->at.qkey == 1234 && memcmp(port->at.key, own.ud_key, VP_UD_KEY_BYTES) == 0);
        snprintf(name, sizeof(name), "%c0:%u gid 3 (%s)", 'a' + i / 2, i % 2 + 1,
                 vp_addr_text(&port->addr, text, sizeof(text)));
        CHECK(strcmp(port->name, name) == 0);
        CHECK(dev->context == &contexts[i / 2] && dev->index == i / 2 && dev->has_srq);
        CHECK(dev->pd && dev->channel && dev->has_wr_api && dev->max_inline == 64);
        CHECK(dev->last_wqe == VP_LAST_WQE_UNKNOWN && dev->budget.max == 11);
        CHECK(dev->ece.options == 4 && dev->order == VP_ORDER_PROMISED);
        CHECK(are_nonblocking[i / 2][0] && are_nonblocking[i / 2][1]);
    }
    close_now("adopted");
}

/* A TNI more than ports begins again with the first one; more ports than TNIs are not used. */
static void tnis_take_turns(void)
{
    static const struct {
        unsigned int tnis, ports;
    } cases[] = {{1, 1}, {2, 2}, {5, 5}, {6, 6}, {7, 6}};

    reset(1, 2);
    CHECK(open_now() == 0 && own.num_ports == 2);
    CHECK(said("I: TNI 0: a0:1 gid 3 (10.0.1.0); connects by rdmacm; data in "));
    CHECK(said("I: TNI 1: a0:2 ") && said("I: TNI 2: a0:1 ") && said("I: TNI 5: a0:2 "));
    CHECK(!strstr(lines, "TNI 6"));
    close_now("turns");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(4, 2);
        own.config.num_tnis = cases[i].tnis;
        CHECK(open_now() == 0 && own.num_ports == cases[i].ports);
        CHECK(own.num_devices == (cases[i].ports + 1) / 2 && ids == (int)cases[i].ports);
        close_now("TNIs");
    }
}

static void there_are_limits(void)
{
    static const struct {
        unsigned int devices, ports;
        int opened;
        const char *found;
    } cases[] = {{16, 2, 16, "group 32 "},
                 {16, 1, 16, "group 16 "},
                 {17, 1, 16, "group 16 "},
                 {11, 3, 11, "group 32 "},
                 {16, 3, 11, "group 32 "}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(cases[i].devices, cases[i].ports);
        CHECK(open_now() == 0 && own.num_ports == 6);
        if (!strstr(steps, cases[i].found) || most_opens < cases[i].opened)
            printf("%zu: %d opened, %s\n", i, most_opens, steps);
        CHECK(strstr(steps, cases[i].found) && most_opens <= 16 && most_opens >= cases[i].opened);
        close_now("limits");
    }
    reset(17, 1); /* devices that are not used take no place */
    listed = "q0";
    CHECK(open_now() == 0 && own.num_devices == 1 && most_opens == 1);
    close_now("last");
    reset(16, 5); /* more reasons than there is room for */
    m.state = IBV_PORT_DOWN;
    CHECK(open_now() == -ENODEV && survey.num_exclusions == VP_MAX_EXCLUSIONS);
    CHECK(said("I: p0:5 is PORT_DOWN: not used"));
    close_now("reasons");
    own.survey = NULL;
    CHECK(open_now() == -ENODEV && said("I: p0:5 is PORT_DOWN: not used"));
}

/* Each call that may fail does so once: what comes of it, and nothing is left. */
static void failing_calls(bool by_datagrams, const char *wanted)
{
    char got[2048] = "";

    for (int n = 0;; n++) {
        reset(1, 1);
        chosen_cm = by_datagrams ? UT_VERBS_CONNECT_UD : UT_VERBS_CONNECT_RDMACM;
        fail_at = n;
        int rc = open_now();
        bool has_failed = fail_at == NONE;
        fail_at = NONE;
        CHECK((rc == 0) == (own.num_ports == 1) && rc <= 0);
        CHECK(rc || (own.ports[0].uses_datagrams == by_datagrams && ids == !by_datagrams));
        close_now(failed_call);
        if (!has_failed) {
            CHECK(rc == 0);
            break;
        }
        size_t used = strlen(got);
        snprintf(got + used, sizeof(got) - used, "%s%s ", failed_call,
                 rc == -ENODEV   ? "!"
                 : rc == -ENOMEM ? "?"
                 : rc            ? "wrong"
                                 : "");
    }
    if (strcmp(got, wanted) != 0)
        printf("wanted: %s\ngot:    %s\n", wanted, got);
    CHECK(strcmp(got, wanted) == 0);
}

static void nothing_is_left(void)
{
    failing_calls(false, "ibv_get_device_list! calloc? ibv_open_device! ibv_query_device! "
                         "vp_query_port! rdma_create_id rdma_bind_addr rdma_listen "
                         "ibv_query_gid_ex ibv_query_device! ibv_alloc_pd! "
                         "ibv_create_comp_channel! ibv_create_cq! ibv_create_qp_ex F_GETFL! "
                         "F_SETFL! F_GETFL! F_SETFL! vp_watch! vp_watch! ");
    failing_calls(true, "ibv_get_device_list! calloc? ibv_open_device! ibv_query_device! "
                        "vp_query_port! vp_ud_probe_port ibv_query_gid_ex ibv_query_device! "
                        "ibv_alloc_pd! ibv_create_comp_channel! ibv_create_cq! ibv_create_qp_ex "
                        "F_GETFL! F_SETFL! F_GETFL! F_SETFL! vp_watch! vp_watch! vp_ud_open! ");
}

/* A device that fails does not keep the next one from being used. */
static void the_next_device_is_used(void)
{
    reset(2, 2);
    fail_at = 1 + 1 + 2 * (1 + 1 + 2 * 5); /* ibv_query_device() of the first to be set up */
    CHECK(open_now() == 0 && own.num_devices == 1 && own.num_ports == 2);
    CHECK(strcmp(failed_call, "ibv_query_device") == 0 && is_excluded("a0", 0, "cannot be set up"));
    CHECK(said("E: opening on a0 failed: Cannot allocate memory"));
    CHECK(own.devices[0].index == 0 && own.devices[0].context == &contexts[1]);
    CHECK(own.ports[0].dev == &own.devices[0] && ids == 2);
    close_now("next device");
    reset(2, 1);
    fail_at = 2;
    CHECK(open_now() == 0 && own.num_devices == 1);
    CHECK(is_excluded("a0", 0, "cannot be opened (Cannot allocate memory)"));
    close_now("second");
    reset(2, 1);
    devices[0].transport_type = IBV_TRANSPORT_IWARP;
    CHECK(open_now() == 0 && own.num_devices == 1);
    CHECK(is_excluded("a0", 0, "does not support writes with immediate data"));
    close_now("iWARP");
}

/* UTOFU_VERBS_DEVICES */
static void devices_are_chosen(void)
{
    reset(3, 2);
    listed = "a0:2,b0,a0:3,c";
    CHECK(open_now() == 0 && own.num_ports == 3 && own.num_devices == 2);
    CHECK(own.ports[0].num == 2 && own.ports[1].num == 1 && own.ports[2].num == 2);
    CHECK(is_excluded("a0", 1, "is not among UTOFU_VERBS_DEVICES"));
    CHECK(is_excluded("c0", 1, "is not among UTOFU_VERBS_DEVICES"));
    CHECK(is_excluded("c0", 2, "is not among UTOFU_VERBS_DEVICES"));
    CHECK(survey.num_exclusions == 3);
    CHECK(said("E: UTOFU_VERBS_DEVICES: 'a0:3' is not used: it is not one of the devices here "
               "(a0, b0, c0), has"));
    CHECK(said("'c' is not used"));
    CHECK(!strstr(lines, "'a0:2' is not used") && !strstr(lines, "'b0' is not used"));
    close_now("chosen");
}

/* What a port says before it is used. */
static void ports_are_not_used(void)
{
    reset(1, 1);
    m.state = IBV_PORT_DOWN;
    CHECK(open_now() == -ENODEV && is_excluded("a0", 1, "is PORT_DOWN"));
    reset(1, 1);
    m.num_addresses = 0;
    m.takes_datagrams = false;
    CHECK(open_now() == -ENODEV);
    CHECK(is_excluded("a0", 1, "is active but has no address to listen on (0 tried)"));
    reset(1, 1);
    m.bad_addresses = 2;
    m.takes_datagrams = false;
    m.other_namespaces = 3;
    listed_subnets = "10.0.0.0/8";
    CHECK(open_now() == -EINVAL);
    CHECK(is_excluded("a0", 1,
                      "is active but has no address to listen on (2 tried, in "
                      "UTOFU_VERBS_SUBNETS); it has 3 addresses that no interface of this network "
                      "namespace has: not used"));
    reset(1, 2);
    m.other_namespaces = 3;
    excluded_port = "a0:2";
    CHECK(open_now() == 0 && own.num_ports == 1 && ids == 1 && !own.many_ports);
    CHECK(said("I: a0:1 has 3 addresses that no interface of this network namespace has"));
    CHECK(is_excluded("a0", 2, "is slow"));
    close_now("slow");
    reset(1, 1);
    m.same_address = true;
    CHECK(open_now() == 0 && said("W: a0:1 and z0:1 have the same address, 10.0.1.0, by bond41: "));
    close_now("same address");
}

/* Addresses that are not the port's are passed by. */
static void addresses_are_bound(void)
{
    static const struct {
        int bad, foreign, other_port;
    } cases[] = {{1, 0, 0}, {0, 1, 0}, {0, 2, 0}, {0, 0, 1}, {2, 2, 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int wrong = cases[i].bad + cases[i].foreign + cases[i].other_port;
        for (int more = 0; more < 2; more++) {
            reset(1, 1);
            m.takes_datagrams = false;
            m.bad_addresses = cases[i].bad;
            m.foreign = cases[i].foreign;
            m.other_port = cases[i].other_port;
            m.num_addresses = wrong + more;
            CHECK(open_now() == (more ? 0 : -ENODEV) && ids == more);
            CHECK(!more || own.ports[0].gid_index == 3 + wrong);
            close_now("addresses");
        }
    }
}

/*
 * Connection managers
 */

static void datagrams_are_used(void)
{
    char text[INET6_ADDRSTRLEN];

    reset(1, 2); /* RoCE, since no address can be bound, or because UTOFU_VERBS_CONNECT says so */
    m.bad_addresses = 2;
    CHECK(open_now() == 0 && own.num_ports == 2 && ids == 0 && datagrams == 2);
    CHECK(own.ports[1].uses_datagrams && own.ports[1].cm_ops == own.cm.ud);
    CHECK(strncmp(steps, "probe 3 probe 3 ", 16) == 0 && !own.ports[1].listener);
    CHECK(strcmp(vp_addr_text(&own.ports[1].addr, text, sizeof(text)), "10.0.2.0") == 0);
    CHECK(strcmp(own.ports[1].name, "a0:2 gid 3 (10.0.2.0)") == 0);
    CHECK(said("I: TNI 0: a0:1 gid 3 (10.0.1.0); connects by ud; "));
    close_now("RoCE");
    reset(1, 1);
    chosen_cm = UT_VERBS_CONNECT_RDMACM;
    m.bad_addresses = 2;
    CHECK(open_now() == -ENODEV && !strstr(steps, "probe"));
    reset(1, 1);
    own.channel = NULL; /* there is no librdmacm */
    CHECK(open_now() == 0 && datagrams == 1);
    close_now("no channel");
    reset(1, 1);
    own.channel = NULL;
    chosen_cm = UT_VERBS_CONNECT_RDMACM;
    CHECK(open_now() == -ENODEV && most_opens == 0);
    reset(1, 1); /* all GIDs are tried */
    chosen_cm = UT_VERBS_CONNECT_UD;
    m.takes_datagrams = false;
    CHECK(open_now() == -ENODEV && strcmp(steps, "probe 3 probe 4 group 0 ") == 0);
    reset(1, 1); /* InfiniBand without an address */
    m.link = IBV_LINK_LAYER_INFINIBAND;
    m.num_addresses = 0;
    CHECK(open_now() == 0 && datagrams == 1 && own.ports[0].gid_index == -1);
    CHECK(strcmp(own.ports[0].name, "a0:1 LID 9") == 0 && own.ports[0].traffic_class == -1);
    CHECK(own.ports[0].rdmacm_class == 0 && own.ports[0].network.prefix == 64);
    CHECK(own.ports[0].network.address[0] == 0xfd && !own.ports[0].network.by_ip);
    close_now("InfiniBand");
    reset(1, 1);
    m.link = IBV_LINK_LAYER_INFINIBAND;
    m.num_addresses = 0;
    listed_subnets = "10.0.0.0/8";
    CHECK(open_now() == -EINVAL && !strstr(steps, "probe"));
    reset(1, 1); /* InfiniBand with an address */
    m.link = IBV_LINK_LAYER_INFINIBAND;
    wants_gid = true;
    CHECK(open_now() == 0 && ids == 1 && own.ports[0].gid_index == -1 && !datagrams);
    CHECK(strcmp(own.ports[0].name, "a0:1 (10.0.1.0)") == 0 && own.ports[0].network.by_ip);
    CHECK(said("E: a0:1 is InfiniBand: gid_index of UTOFU_VERBS_CONNECT has no effect"));
    close_now("IPoIB");
}

/* All ports take datagrams if they are better, or if one has no choice. */
static void one_connection_manager_for_all(void)
{
    static const struct {
        uint8_t link;
        uint64_t how, from;
        bool by_network, is_used;
    } cases[] = {
        {IBV_LINK_LAYER_INFINIBAND, UT_VERBS_CONNECT_AUTO, 10, false, true},
        {IBV_LINK_LAYER_INFINIBAND, UT_VERBS_CONNECT_AUTO, 11, false, false},
        {IBV_LINK_LAYER_INFINIBAND, UT_VERBS_CONNECT_AUTO, 1, false, true},
        {IBV_LINK_LAYER_INFINIBAND, UT_VERBS_CONNECT_AUTO, 0, false, false},
        {IBV_LINK_LAYER_INFINIBAND, UT_VERBS_CONNECT_AUTO, 0, true, true},
        {IBV_LINK_LAYER_INFINIBAND, UT_VERBS_CONNECT_RDMACM, 10, true, false},
        {IBV_LINK_LAYER_ETHERNET, UT_VERBS_CONNECT_AUTO, 10, true, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(1, 2);
        m.link = cases[i].link;
        chosen_cm = cases[i].how;
        ud_from = cases[i].from;
        need_datagrams_by_network = cases[i].by_network;
        CHECK(open_now() == 0 && own.num_ports == 2);
        if (own.ports[0].uses_datagrams != cases[i].is_used)
            printf("case %zu\n", i);
        CHECK(own.ports[0].uses_datagrams == cases[i].is_used);
        CHECK(own.ports[1].uses_datagrams == cases[i].is_used);
        CHECK(ids == (cases[i].is_used ? 0 : 2) && datagrams == 2 - ids);
        close_now("all ports");
    }
    for (int port = 1; port <= 2; port++) { /* one port takes none */
        reset(1, 2);
        m.link = IBV_LINK_LAYER_INFINIBAND;
        ud_from = 10;
        m.no_datagrams_at = port;
        CHECK(open_now() == 0 && own.num_ports == 1 && ids == 2 - port && datagrams == port - 1);
        CHECK(is_excluded("a0", 2, "takes no datagrams, and other ports have no address"));
        close_now("one port");
    }
    reset(1, 2);
    m.bad_addresses = 2;
    m.other_subnets = true;
    CHECK(open_now() == 0 && own.num_ports == 1);
    CHECK(is_excluded("a0", 2,
                      "has a GID of another subnet than the first port "
                      "(UTOFU_VERBS_CONNECT)"));
    close_now("subnets");
    reset(1, 2); /* by librdmacm GIDs may differ */
    m.other_subnets = true;
    CHECK(open_now() == 0 && own.num_ports == 2);
    close_now("GIDs");
}

/*
 * What a device can do
 */

static void queue_pairs_are_tried(void)
{
    static const struct {
        unsigned int wanted, most;
        uint64_t setting;
        bool has_calls;
        const char *steps;
        unsigned int max_inline;
    } cases[] = {{64, 64, 1, true, "w64 ", 64},
                 {64, 64, 0, true, "q64 ", 64},
                 {64, 64, 1, false, "w64 q64 ", 64},
                 {256, 64, 1, true, "w256 q256 w128 q128 w64 ", 96},
                 {256, 0, 0, true, "q256 q128 q64 q32 q16 q8 q4 q2 q1 q0 ", 0},
                 {0, 64, 1, true, "w0 ", 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(1, 1);
        own.tuning.inline_size = cases[i].wanted;
        m.most_inline = cases[i].most;
        wr_api_setting = cases[i].setting;
        m.has_wr_api = cases[i].has_calls;
        CHECK(open_now() == 0);
        CHECK(strcmp(strchr(steps, ' ') + 3, cases[i].steps) == 0);
        CHECK(own.devices[0].max_inline == cases[i].max_inline);
        CHECK(own.devices[0].has_wr_api == (cases[i].setting && cases[i].has_calls));
        close_now("inline");
    }
    reset(1, 1);
    own.tuning.inline_size = 1;
    m.has_no_qps = true;
    CHECK(open_now() == -ENODEV && strcmp(steps, "group 1 w1 q1 w0 q0 ") == 0);
    CHECK(said("E: creating a queue pair on a0 failed: Invalid argument"));
}

static void devices_have_properties(void)
{
    for (int i = 0; i < 4; i++) {
        reset(1, 1);
        m.max_srq = i & 1;
        srq_setting = i >> 1;
        m.vendor = i ? VP_VENDOR_BROADCOM : VP_VENDOR_MELLANOX;
        CHECK(open_now() == 0 && own.devices[0].has_srq == (i == 3));
        CHECK(own.devices[0].last_wqe == (i ? VP_LAST_WQE_UNRELIABLE : VP_LAST_WQE_UNKNOWN));
        CHECK(vp_port_is_active(&own.ports[0]) && !vp_port_is_down(&own.ports[0]));
        m.state = IBV_PORT_DOWN;
        CHECK(!vp_port_is_active(&own.ports[0]) && !vp_port_is_down(&own.ports[0]));
        own.ports[0].down_since = 1;
        CHECK(vp_port_is_down(&own.ports[0]));
        m.state = IBV_PORT_ACTIVE;
        CHECK(!vp_port_is_down(&own.ports[0]));
        fail_at = 0;
        CHECK(!vp_port_is_active(&own.ports[0]));
        close_now("properties");
    }
}

/*
 * Lines
 */

static void nothing_is_found(void)
{
    static const struct {
        const char *listed, *subnets;
        bool gid;
        unsigned int devices;
        uint64_t provider;
        int rc;
        const char *line;
    } cases[] = {
        {"x", "10.0.0.0/8", true, 2, 0, -EINVAL,
         "E: UTOFU_VERBS_DEVICES=x names no usable port (device or device:port, active, with an "
         "address); RDMA devices here: a0, b0\n"},
        {"x", "", false, 0, 0, -EINVAL, "RDMA devices here: none\n"},
        {"", "10.0.0.0/8", true, 2, 0, -EINVAL,
         "E: gid_index=7 of UTOFU_VERBS_CONNECT is no usable GID of an active port; there are "
         "(device:port, index, GID): a0:1 0 10.0.0.0, a0:2 1 10.0.0.1, b0:1 0 10.0.0.0, b0:2 1 "
         "10.0.0.1\n"},
        {"", "10.0.0.0/8", true, 0, 0, -ENODEV, "I: no RDMA device"},
        {"", "10.0.0.0/8", false, 1, 0, -EINVAL,
         "E: UTOFU_VERBS_SUBNETS=10.0.0.0/8: no active port has an address there; there are "
         "(device:port, index, GID): a0:1 0 10.0.0.0, a0:2 1 10.0.0.1\n"},
        {"", "10.0.0.0/8", false, 0, 0, -ENODEV, "I: no RDMA device"},
        {"", "", false, 1, 0, -ENODEV, "I: no RDMA device with an active port"},
        {"", "", false, 1, UT_PROVIDER_FIRST + PROV_INDEX_verbs, -ENODEV, "E: no RDMA device"},
        {"", "", false, 1, UT_PROVIDER_FIRST + PROV_INDEX_verbs + 1, -ENODEV, "I: no RDMA device"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(cases[i].devices, 1);
        m.state = IBV_PORT_DOWN;
        listed = cases[i].listed;
        listed_subnets = cases[i].subnets;
        wants_gid = cases[i].gid;
        provider_setting = cases[i].provider;
        CHECK(open_now() == cases[i].rc && said(cases[i].line));
    }
    for (int n = 0; n < 3; n++) { /* GIDs cannot be listed, but nothing is left */
        reset(1, 1);
        m.state = IBV_PORT_DOWN;
        wants_gid = true;
        fail_at = 5 + n;
        CHECK(open_now() == -EINVAL && fail_at == NONE && said("(device:port, index, GID): \n"));
    }
    reset(2, 1);
    subnets_are_wrong = true;
    CHECK(open_now() == -EINVAL && most_opens == 0);
    CHECK(is_excluded("a0", 0, "is not opened: UTOFU_VERBS_SUBNETS is wrong"));
    CHECK(is_excluded("b0", 0, "is not opened: UTOFU_VERBS_SUBNETS is wrong"));
}

/* Locked memory may be what is lacking. */
static void limits_of_memory_are_named(void)
{
    static const struct {
        rlim_t limit;
        int fails, error;
        const char *line;
    } cases[] = {
        {RLIM_INFINITY, 0, ENOMEM, "E: asking on x failed: Cannot allocate memory\n"},
        {65536, 0, ENOMEM,
         "failed: Cannot allocate memory; this process may lock 64 KiB of memory"},
        {65536, 0, EPERM, "E: asking on x failed: Operation not permitted\n"},
        {0, 0, EPERM, "failed: Operation not permitted; this process may lock 0 KiB of memory"},
        {0, 0, ENOMEM, "E: asking on x failed: Cannot allocate memory\n"},
        {65536, -1, ENOMEM, "E: asking on x failed: Cannot allocate memory\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset(1, 1);
        m.memlock = cases[i].limit;
        m.rlimit_fails = cases[i].fails;
        vp_log_nomem("asking", "x", cases[i].error);
        CHECK(said(cases[i].line));
    }
}

int main(void)
{
    ports_are_adopted();
    tnis_take_turns();
    there_are_limits();
    nothing_is_left();
    the_next_device_is_used();
    devices_are_chosen();
    ports_are_not_used();
    addresses_are_bound();
    datagrams_are_used();
    one_connection_manager_for_all();
    queue_pairs_are_tried();
    devices_have_properties();
    nothing_is_found();
    limits_of_memory_are_named();
    return 0;
}
