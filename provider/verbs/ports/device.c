/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovers the RDMA devices, selects ports and addresses for the TNIs, and listens on them. Uses
 * libibverbs for devices and GIDs, and librdmacm to find the addresses that can be bound.
 */
#include "device.h"

#include "address.h"
#include "candidate.h"
#include "verbs/conn_types.h"
#include "ece.h"
#include "order.h"
#include "qp_budget.h"
#include "providers.h"
#include "select.h"
#include "reach.h"
#include "ud.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/log.h"
#include "verbs/wake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LISTEN_BACKLOG = 1024 };

void vp_log_nomem(const char *what, const char *device, int err)
{
    struct rlimit limit = {0, 0};

    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        err != (limit.rlim_cur ? ENOMEM : EPERM)) {
        ut_error(VP_CAT, "%s on %s failed: %s", what, device, strerror(err));
        return;
    }
    ut_error(VP_CAT,
             "%s on %s failed: %s; this process may lock %llu KiB of memory (ulimit -l): raise the "
             "limit with `ulimit -l unlimited`, or in /etc/security/limits.conf",
             what, device, strerror(err), (unsigned long long)limit.rlim_cur / 1024);
}

/* Records and logs why a device (port 0) or a port is not used. */
static void __attribute__((format(printf, 4, 5)))
exclude_port(struct vp_prov *prov, const char *device, unsigned int port, const char *fmt, ...)
{
    struct vp_port_exclusion local, *r = &local;
    char number[16] = "";
    va_list ap;

    if (prov->survey && prov->survey->num_exclusions < VP_MAX_EXCLUSIONS)
        r = &prov->survey->exclusions[prov->survey->num_exclusions++];
    snprintf(r->device, sizeof(r->device), "%s", device);
    r->port = port;
    va_start(ap, fmt);
    vsnprintf(r->why, sizeof(r->why), fmt, ap);
    va_end(ap);
    if (port)
        snprintf(number, sizeof(number), ":%u", port);
    ut_info(VP_CAT, "%s%s %s: not used", device, number, r->why);
}

/* True if an entry of UTOFU_VERBS_DEVICES, `device` or `device:port`, names this port. */
static bool entry_names_port(const char *name, const char *device, unsigned int port)
{
    char with_port[IBV_SYSFS_NAME_MAX + 8];

    snprintf(with_port, sizeof(with_port), "%s:%u", device, port);
    return strcmp(name, device) == 0 || strcmp(name, with_port) == 0;
}

/* True if UTOFU_VERBS_DEVICES names device:port. An empty list names all ports. */
static bool is_listed(const char *device, unsigned int port)
{
    const char *list = ut_env_str(UT_ENV_VERBS_DEVICES);
    char name[UT_ENV_ITEM_SIZE];
    bool any = false;

    while (ut_env_next_item(&list, name, sizeof(name))) {
        any = true;
        if (entry_names_port(name, device, port))
            return true;
    }
    return !any;
}

/* Logs each entry of UTOFU_VERBS_DEVICES that is not used: a misspelt name costs bandwidth. */
static void check_listed_ports(const struct vp_prov *prov, const char *device_names)
{
    const char *list = ut_env_str(UT_ENV_VERBS_DEVICES);
    char name[UT_ENV_ITEM_SIZE];

    while (ut_env_next_item(&list, name, sizeof(name))) {
        bool taken = false;
        for (unsigned int i = 0; i < prov->num_ports; i++) {
            const struct vp_port *port = &prov->ports[i];
            taken |=
                entry_names_port(name, ibv_get_device_name(port->dev->context->device), port->num);
        }
        if (!taken)
            ut_error(VP_CAT,
                     "UTOFU_VERBS_DEVICES: '%s' is not used: it is not one of the devices here "
                     "(%s), has no active port with an address, has the address of another port, "
                     "or device_names are more ports than TNIs",
                     name, device_names);
    }
}

/* Listens on an address if it belongs to this port of this device. */
static bool listen_on_address(struct vp_prov *prov, struct vp_port *port,
                              const struct vp_candidate *c, bool roce)
{
    const char *device = ibv_get_device_name(port->dev->context->device);
    struct rdma_cm_id *id;

    if (!prov->channel)
        return false;
    port->addr = c->addr;
    vp_set_ip_port(&port->addr, 0);
    if (rdma_create_id(prov->channel, &id, prov->cm.listener, RDMA_PS_TCP))
        return false;
    if (rdma_bind_addr(id, &port->addr.sa))
        goto destroy;
    if (!id->verbs || strcmp(ibv_get_device_name(id->verbs->device), device) != 0 ||
        (id->port_num && id->port_num != port->num))
        goto destroy;
    if (rdma_listen(id, LISTEN_BACKLOG))
        goto destroy;
    vp_set_ip_port(&port->addr, rdma_get_src_port(id));
    port->listener = id;
    port->gid_index = roce ? c->gid_index : -1;
    return true;

destroy:
    rdma_destroy_id(id);
    return false;
}

static struct ibv_qp *make_test_qp(struct vp_device *dev, struct ibv_cq *cq, unsigned int size,
                                   bool wr_api, unsigned int *max_inline)
{
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 16,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = size},
        .qp_type = IBV_QPT_RC,
        .pd = dev->pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | (wr_api ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND |
                          IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                          IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(dev->context, &attr);

    *max_inline = attr.cap.max_inline_data;
    return qp;
}

/* Creates a queue pair, since no query tells the maximum inline size of a device, whether it
 * supports ibv_wr_start(), its order of data, and the ECE options that it offers. */
static int probe_device(struct vp_device *dev, const struct vp_port *port,
                        unsigned int inline_wanted)
{
    struct ibv_cq *cq = ibv_create_cq(dev->context, 16, NULL, NULL, 0);
    unsigned int max_inline = 0;
    struct ibv_qp *qp = NULL;

    if (!cq) {
        vp_log_nomem("creating a completion queue", ibv_get_device_name(dev->context->device),
                     errno);
        return -EIO;
    }
    for (unsigned int size = inline_wanted;; size /= 2) {
        qp =
            ut_env_num(UT_ENV_VERBS_WR_API) ? make_test_qp(dev, cq, size, true, &max_inline) : NULL;
        dev->has_wr_api = qp != NULL;
        if (!qp)
            qp = make_test_qp(dev, cq, size, false, &max_inline);
        dev->max_inline = max_inline < inline_wanted ? max_inline : inline_wanted;
        if (qp || size == 0)
            break;
    }
    int err = errno;
    if (qp) {
        dev->ece = vp_ece_of(qp);
        vp_detect_order(dev, port, qp);
        ibv_destroy_qp(qp);
    } else {
        vp_log_nomem("creating a queue pair", ibv_get_device_name(dev->context->device), err);
    }
    ibv_destroy_cq(cq);
    return qp ? 0 : -EIO;
}

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static void close_device(struct vp_device *dev)
{
    if (dev->channel)
        ibv_destroy_comp_channel(dev->channel);
    if (dev->pd)
        ibv_dealloc_pd(dev->pd);
    if (dev->context)
        ibv_close_device(dev->context);
    memset(dev, 0, sizeof(*dev));
}

/* Creates the objects that a device needs when one of its ports is used. */
static int set_up_device(struct vp_prov *prov, struct vp_device *dev, const struct vp_port *port)
{
    const char *name = ibv_get_device_name(dev->context->device);

    if (ibv_query_device(dev->context, &dev->attr) || !(dev->pd = ibv_alloc_pd(dev->context)) ||
        !(dev->channel = ibv_create_comp_channel(dev->context))) {
        vp_log_nomem("opening", name, errno);
        return -EIO;
    }
    ut_fd_mark_ours(dev->channel->fd);
    ut_fd_mark_ours(dev->context->cmd_fd);
    ut_fd_mark_ours(dev->context->async_fd);
    dev->has_srq = dev->attr.max_srq > 0 && ut_env_num(UT_ENV_VERBS_SRQ);
    if (dev->attr.vendor_id == VP_VENDOR_BROADCOM)
        dev->last_wqe = VP_LAST_WQE_UNRELIABLE;
    vp_budget_init(prov, dev);
    int rc = probe_device(dev, port, prov->tuning.inline_size);
    if (!rc)
        rc = set_nonblocking(dev->channel->fd);
    if (!rc)
        rc = set_nonblocking(dev->context->async_fd);
    if (!rc)
        rc = vp_watch(prov, dev->channel->fd, VP_WATCH_COMP + dev->index);
    if (!rc)
        rc = vp_watch(prov, dev->context->async_fd, VP_WATCH_ASYNC + dev->index);
    return rc;
}

bool vp_port_is_active(const struct vp_port *port)
{
    struct ibv_port_attr attr;

    return ibv_query_port(port->dev->context, port->num, &attr) == 0 &&
           attr.state == IBV_PORT_ACTIVE;
}

bool vp_port_is_down(const struct vp_port *port)
{
    return port->down_since && !vp_port_is_active(port);
}

/* Devices and ports of this machine. The provider adopts those that are used. */
struct discovery {
    struct vp_device devices[VP_MAX_DEVICES];
    struct vp_usable_port ports[VP_MAX_USABLE];
    unsigned int num_devices, num_ports;
    struct vp_device *taken[VP_MAX_DEVICES]; /* the adopted copies of the devices */
};

/* Selects datagrams: on an InfiniBand port without an address, or a RoCE port with its best GID. */
static bool use_datagrams(struct vp_port *port, const struct vp_candidate *candidates, int count,
                          bool roce)
{
    int i = 0;

    memset(&port->addr, 0, sizeof(port->addr));
    if (!roce && *ut_env_str(UT_ENV_VERBS_SUBNETS))
        return false; /* a port without an address is in no subnet */
    while (roce && i < count && vp_ud_probe_port(port, candidates[i].gid_index))
        i++;
    if (roce ? i == count : vp_ud_probe_port(port, -1) != 0)
        return false;
    if (roce)
        port->addr = candidates[i].addr;
    port->uses_datagrams = true;
    return true;
}

/* Listens at one of the port's addresses, or by datagrams if it has none: UTOFU_VERBS_CONNECT. */
static bool listen_on_any_address(struct vp_prov *prov, struct vp_port *port,
                                  const struct vp_candidate *candidates, int count, bool roce)
{
    uint64_t how = ut_env_num(UT_ENV_VERBS_CONNECT);

    for (int i = 0; how != UT_VERBS_CONNECT_UD && i < count; i++)
        if (listen_on_address(prov, port, &candidates[i], roce))
            return true;
    return how != UT_VERBS_CONNECT_RDMACM && use_datagrams(port, candidates, count, roce);
}

static void format_port_name(struct vp_port *port)
{
    const char *device = ibv_get_device_name(port->dev->context->device);
    char text[INET6_ADDRSTRLEN];

    if (port->addr.sa.sa_family == AF_UNSPEC)
        snprintf(port->name, sizeof(port->name), "%s:%u LID %u", device, port->num, port->at.lid);
    else if (port->gid_index >= 0)
        snprintf(port->name, sizeof(port->name), "%s:%u gid %d (%s)", device, port->num,
                 port->gid_index, vp_addr_text(&port->addr, text, sizeof(text)));
    else
        snprintf(port->name, sizeof(port->name), "%s:%u (%s)", device, port->num,
                 vp_addr_text(&port->addr, text, sizeof(text)));
}

/* Finds the network of the port: that of its IP address, otherwise of its GID. Also finds the bond
 * that has the address. */
static void find_network(struct vp_usable_port *usable)
{
    struct vp_port *port = &usable->port;
    struct ibv_gid_entry gid;

    if (port->gid_index >= 0 &&
        !ibv_query_gid_ex(port->dev->context, port->num, (uint32_t)port->gid_index, &gid, 0)) {
        vp_netdev_bond(gid.ndev_ifindex, usable->bond, sizeof(usable->bond));
        usable->paths = vp_netdev_paths(gid.ndev_ifindex);
    }
    if (usable->infiniband && !ibv_query_gid_ex(port->dev->context, port->num, 0, &gid, 0))
        vp_network_of_gid(&gid.gid, &usable->subnet);
    if (port->addr.sa.sa_family == AF_UNSPEC)
        port->network = usable->subnet;
    else
        vp_network_of(&port->addr, &port->network);
}

#define OTHER_NAMESPACES "%u addresses that no interface of this network namespace has: not used"

static void exclude_without_address(struct vp_prov *prov, const char *device, unsigned int num,
                                    int tried, unsigned int other_namespaces)
{
    char others[128] = "";

    if (other_namespaces)
        snprintf(others, sizeof(others), "; it has " OTHER_NAMESPACES, other_namespaces);
    exclude_port(prov, device, num, "is active but has no address to listen on (%d tried%s)%s",
                 tried, *ut_env_str(UT_ENV_VERBS_SUBNETS) ? ", in UTOFU_VERBS_SUBNETS" : "",
                 others);
}

/* Listens on the port if it is active and peers can reach it. */
static void discover_port(struct vp_prov *prov, struct discovery *discovery, struct vp_device *dev,
                          unsigned int num)
{
    const char *name = ibv_get_device_name(dev->context->device);
    struct vp_candidate candidates[VP_MAX_CANDIDATES];
    struct vp_usable_port *usable = &discovery->ports[discovery->num_ports];
    struct vp_port *port = &usable->port;
    union vp_port_attr all;
    const struct ibv_port_attr *attr = &all.attr;
    unsigned int other_namespaces;

    if (discovery->num_ports == VP_MAX_USABLE || vp_query_port(dev->context, num, &all))
        return;
    if (attr->state != IBV_PORT_ACTIVE) {
        exclude_port(prov, name, num, "is %s", ibv_port_state_str(attr->state));
        return;
    }
    bool roce = attr->link_layer == IBV_LINK_LAYER_ETHERNET;
    int count = vp_candidates(dev, num, roce, candidates, &other_namespaces);
    memset(usable, 0, sizeof(*usable));
    usable->infiniband = !roce;
    usable->near = vp_is_numa_local(name);
    snprintf(usable->name, sizeof(usable->name), "%s:%u", name, num);
    vp_pci_function(name, usable->pci_function);
    usable->adapter_id = vp_adapter_id(&dev->attr);
    usable->connector = (int8_t)vp_adapter_connector(name, num, usable->pci_function);
    port->dev = dev;
    port->num = (uint8_t)num;
    port->max_msg = attr->max_msg_sz;
    port->mtu = (uint8_t)attr->active_mtu;
    port->speed = vp_port_speed(&all);
    port->traffic_class = (int16_t)(roce ? vp_traffic_class(name, num) : -1);
    port->rdmacm_class = (uint8_t)(roce ? vp_rdmacm_class(name, num) : 0);
    if (!listen_on_any_address(prov, port, candidates, count, roce)) {
        exclude_without_address(prov, name, num, count, other_namespaces);
        return;
    }
    if (other_namespaces)
        ut_info(VP_CAT, "%s:%u has " OTHER_NAMESPACES, name, num, other_namespaces);
    find_network(usable);
    if (!roce && vp_wants_gid())
        ut_error(VP_CAT, "%s:%u is InfiniBand: gid_index of UTOFU_VERBS_CONNECT has no effect",
                 name, num);
    format_port_name(port);
    discovery->num_ports++;
}

static void discover_device(struct vp_prov *prov, struct discovery *discovery,
                            struct ibv_device *device)
{
    struct vp_device *dev = &discovery->devices[discovery->num_devices];
    const char *name = ibv_get_device_name(device);
    unsigned int first = discovery->num_ports;

    if (discovery->num_devices == VP_MAX_DEVICES)
        return;
    if (device->transport_type != IBV_TRANSPORT_IB) {
        exclude_port(prov, name, 0, "does not support writes with immediate data");
        return;
    }
    dev->context = ibv_open_device(device);
    if (!dev->context) {
        exclude_port(prov, name, 0, "cannot be opened (%s)", strerror(errno));
        return;
    }
    if (ibv_query_device(dev->context, &dev->attr))
        goto not_used;
    for (unsigned int num = 1; num <= dev->attr.phys_port_cnt; num++) {
        if (is_listed(name, num))
            discover_port(prov, discovery, dev, num);
        else
            exclude_port(prov, name, num, "is not among UTOFU_VERBS_DEVICES");
    }
    if (discovery->num_ports > first) {
        discovery->num_devices++;
        return;
    }

not_used:
    close_device(dev);
}

/* Moves a device to the provider when one of its ports is used. NULL: the device is not usable. */
static struct vp_device *adopt_device(struct vp_prov *prov, const struct vp_port *port)
{
    struct vp_device *from = port->dev;
    const char *name = from->context ? ibv_get_device_name(from->context->device) : NULL;

    if (!name)
        return NULL; /* already moved, or its setup failed */
    struct vp_device *dev = &prov->devices[prov->num_devices];
    *dev = *from;
    memset(from, 0, sizeof(*from));
    dev->index = prov->num_devices;
    if (set_up_device(prov, dev, port)) {
        exclude_port(prov, name, 0, "cannot be set up");
        close_device(dev);
        return NULL;
    }
    prov->num_devices++;
    return dev;
}

/*
 * True if datagrams are better than librdmacm, for which the kernel asks the subnet manager for the
 * path of each connection without caching it (Linux 6.1, drivers/infiniband/core/cma.c,
 * cma_query_ib_route()), and drops a request to a port whose IP network is not that of the sender's
 * port (validate_ipv4_net_dev() there). All processes of a job get the same result if their hosts
 * are alike.
 */
static bool prefers_datagrams(const struct vp_prov *prov, const struct discovery *discovery,
                              unsigned int used)
{
    uint64_t from = ut_env_num(UT_ENV_VERBS_UD_FROM);

    if (ut_env_num(UT_ENV_VERBS_CONNECT) != UT_VERBS_CONNECT_AUTO)
        return false;
    for (unsigned int i = 0; i < used; i++)
        if (!discovery->ports[i].infiniband)
            return false;
    return (from && prov->config.job_size >= from) ||
           vp_ports_need_datagrams(discovery->ports, used);
}

/* Selects one connection manager for all ports of the process, as its address has one format:
 * datagrams if one of its ports supports nothing else, or if they are better. */
static void choose_connection_manager(const struct vp_prov *prov, struct discovery *discovery,
                                      unsigned int used)
{
    bool any = prefers_datagrams(prov, discovery, used);

    for (unsigned int i = 0; i < used; i++)
        any |= discovery->ports[i].port.uses_datagrams;
    for (unsigned int i = 0; any && i < used; i++) {
        struct vp_port *port = &discovery->ports[i].port;
        if (port->uses_datagrams || vp_ud_probe_port(port, port->gid_index))
            continue;
        port->uses_datagrams = true;
        rdma_destroy_id(port->listener);
        port->listener = NULL;
    }
}

/* Returns why a port cannot be used beside the first port: all ports use one connection manager,
 * and datagrams need GIDs with a common prefix. NULL: no conflict. */
static const char *conflict_with_first_port(const struct vp_prov *prov, const struct vp_port *port)
{
    const struct vp_port *first = &prov->ports[0];

    if (!prov->num_ports)
        return NULL;
    if (port->uses_datagrams != first->uses_datagrams)
        return "takes no datagrams, and other ports have no address";
    if (port->uses_datagrams && memcmp(&first->at.gid, &port->at.gid, 8) != 0)
        return "has a GID of another subnet than the first port (UTOFU_VERBS_CONNECT)";
    return NULL;
}

/* Adopts a port, and its device with the device's first port. */
static void adopt_port(struct vp_prov *prov, struct discovery *discovery,
                       struct vp_usable_port *usable)
{
    struct vp_device **taken = &discovery->taken[usable->port.dev - discovery->devices];
    const char *why_not = conflict_with_first_port(prov, &usable->port);

    if (why_not) {
        char device[sizeof(usable->name)];
        snprintf(device, sizeof(device), "%s", usable->name);
        *strrchr(device, ':') = '\0';
        exclude_port(prov, device, usable->port.num, "%s", why_not);
        return;
    }
    if (!*taken)
        *taken = adopt_device(prov, &usable->port);
    if (!*taken)
        return;
    struct vp_port *port = &prov->ports[prov->num_ports];
    *port = usable->port;
    port->dev = *taken;
    memcpy(port->at.key, prov->ud_key, sizeof(port->at.key));
    port->at.qkey = prov->qkey;
    usable->port.listener = NULL;
    port->cm_ops = port->uses_datagrams ? prov->cm.ud : prov->cm.rdmacm;
    int rc = port->uses_datagrams ? vp_ud_open(prov, port) : 0;
    if (rc)
        vp_log_nomem("opening a queue pair for datagrams", port->name, -rc);
    else
        prov->num_ports++;
}

static void warn_of_shared_address(const struct vp_usable_port *usable)
{
    char text[INET6_ADDRSTRLEN];

    if (usable->same_address_as[0])
        ut_warn(VP_CAT,
                "%s and %s have the same address, %s%s%s: packets that arrive at the other port "
                "are lost. Give each port an address of its own, or bond ports of one adapter",
                usable->name, usable->same_address_as,
                vp_addr_text(&usable->port.addr, text, sizeof(text)),
                usable->bond[0] ? ", by " : "", usable->bond);
}

/* Adopts the ports that are used. */
static void adopt_ports(struct vp_prov *prov, struct discovery *discovery)
{
    bool chosen = *ut_env_str(UT_ENV_VERBS_DEVICES) || *ut_env_str(UT_ENV_VERBS_SUBNETS);
    unsigned int max_ports = VP_MAX_PORTS;

    if (max_ports > prov->config.num_tnis)
        max_ports = prov->config.num_tnis;
    bool by_ip_only = ut_env_num(UT_ENV_VERBS_CONNECT) == UT_VERBS_CONNECT_RDMACM;
    vp_ports_group_fabrics(discovery->ports, discovery->num_ports,
                           by_ip_only ? NULL : vp_port_reaches);
    vp_ports_select(discovery->ports, discovery->num_ports, chosen);
    for (unsigned int i = 0; i < discovery->num_ports; i++) {
        const struct vp_usable_port *usable = &discovery->ports[i];
        if (usable->why_not[0])
            exclude_port(prov, ibv_get_device_name(usable->port.dev->context->device),
                         usable->port.num, "%s", usable->why_not);
        else
            warn_of_shared_address(usable);
    }
    unsigned int used =
        vp_ports_sort(discovery->ports, discovery->num_ports, chosen, prov->config.local_rank);
    prov->many_ports = used > 1;
    vp_ports_find_links(discovery->ports, used);
    choose_connection_manager(prov, discovery, used);
    for (unsigned int i = 0; i < used && prov->num_ports < max_ports; i++)
        adopt_port(prov, discovery, &discovery->ports[i]);
    for (unsigned int i = 0; i < discovery->num_ports; i++)
        if (discovery->ports[i].port.listener)
            rdma_destroy_id(discovery->ports[i].port.listener);
    for (unsigned int i = 0; i < discovery->num_devices; i++)
        close_device(&discovery->devices[i]);
}

static void list_devices(struct ibv_device **list, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (struct ibv_device **d = list; d && *d && used < size - 1; d++) {
        int n =
            snprintf(buf + used, size - used, "%s%s", used ? ", " : "", ibv_get_device_name(*d));
        used += n > 0 ? (size_t)n : 0;
    }
    if (!used)
        snprintf(buf, size, "none");
}

/* Lists every GID of every device: "rxe0:1 0 fe80::1, rxe0:1 1 10.0.0.1". */
static void list_gids(struct ibv_device **list, char *buf, size_t size)
{
    struct ibv_gid_entry *table = calloc(VP_MAX_GIDS, sizeof(*table));
    char text[INET6_ADDRSTRLEN];
    size_t used = 0;

    buf[0] = '\0';
    for (struct ibv_device **d = list; table && d && *d; d++) {
        struct ibv_context *context = ibv_open_device(*d);
        ssize_t n = context ? ibv_query_gid_table(context, table, VP_MAX_GIDS, 0) : 0;
        for (ssize_t i = 0; i < n && used < size - 1; i++) {
            struct vp_candidate c;
            vp_gid_candidate(&table[i], &c);
            int written = snprintf(buf + used, size - used, "%s%s:%u %u %s", used ? ", " : "",
                                   ibv_get_device_name(*d), table[i].port_num, table[i].gid_index,
                                   vp_addr_text(&c.addr, text, sizeof(text)));
            used += written > 0 ? (size_t)written : 0;
        }
        if (context)
            ibv_close_device(context);
    }
    free(table);
}

/* Logs that no port is usable, with the devices that exist: as an error if the user asked for a
 * device. */
static int log_nothing_found(struct ibv_device **list)
{
    const char *wanted = ut_env_str(UT_ENV_VERBS_DEVICES), *rest = wanted;
    char name[UT_ENV_ITEM_SIZE];
    const char *subnets = ut_env_str(UT_ENV_VERBS_SUBNETS);
    uint64_t gid = ut_env_num(UT_ENV_VERBS_GID_INDEX);
    char there[512];

    list_devices(list, there, sizeof(there));
    if (ut_env_next_item(&rest, name, sizeof(name))) {
        ut_error(VP_CAT,
                 "UTOFU_VERBS_DEVICES=%s names no usable port (device or device:port, active, with "
                 "an address); RDMA devices here: %s",
                 wanted, there);
        return -EINVAL;
    }
    if (vp_wants_gid() && list && *list) {
        list_gids(list, there, sizeof(there));
        ut_error(
            VP_CAT,
            "gid_index=%llu of UTOFU_VERBS_CONNECT is no usable GID of an active port; there are "
            "(device:port, index, GID): %s",
            (unsigned long long)gid, there);
        return -EINVAL;
    }
    if (*subnets && list && *list) {
        list_gids(list, there, sizeof(there));
        ut_error(VP_CAT,
                 "UTOFU_VERBS_SUBNETS=%s: no active port has an address there; there are "
                 "(device:port, index, GID): %s",
                 subnets, there);
        return -EINVAL;
    }
    ut_log_at(ut_env_num(UT_ENV_PROVIDER) == UT_PROVIDER_FIRST + PROV_INDEX_verbs ? UT_LOG_ERROR
                                                                                  : UT_LOG_INFO,
              VP_CAT,
              "no RDMA device with an active port and an address to listen on; RDMA devices here: "
              "%s (see ibv_devinfo; UTOFU_PROVIDER=shm needs none on one host)",
              there);
    return -ENODEV;
}

static void log_tni(unsigned int tni, const struct vp_port *port)
{
    char order[VP_ORDER_TEXT];

    ut_info(VP_CAT, "TNI %u: %s; connects by %s; data in %s (%s)", tni, port->name,
            port->uses_datagrams ? "ud" : "rdmacm", vp_unit_text(vp_unit_of(port->dev), order),
            vp_order_reason((enum vp_order)port->dev->order));
}

int vp_devices_open(struct vp_prov *prov)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct discovery *discovery = calloc(1, sizeof(*discovery));
    char there[512];
    int rc = discovery ? 0 : -ENOMEM;

    if (rc)
        goto free_list;
    if (!vp_subnets_are_valid()) {
        for (struct ibv_device **d = list; d && *d; d++)
            exclude_port(prov, ibv_get_device_name(*d), 0,
                         "is not opened: UTOFU_VERBS_SUBNETS is wrong");
        rc = -EINVAL;
        goto free_list;
    }
    if (!list || !*list ||
        (!prov->channel && ut_env_num(UT_ENV_VERBS_CONNECT) == UT_VERBS_CONNECT_RDMACM)) {
        rc = log_nothing_found(list);
        goto free_list;
    }
    for (struct ibv_device **d = list; *d; d++)
        discover_device(prov, discovery, *d);
    adopt_ports(prov, discovery);
    list_devices(list, there, sizeof(there));
    if (!prov->num_ports)
        rc = log_nothing_found(list);
    else
        check_listed_ports(prov, there);
    for (unsigned int tni = 0; !rc && tni < prov->config.num_tnis; tni++)
        log_tni(tni, &prov->ports[tni % prov->num_ports]);

free_list:
    free(discovery);
    if (list)
        ibv_free_device_list(list);
    return rc;
}

void vp_devices_close(struct vp_prov *prov)
{
    while (prov->num_ports) {
        struct vp_port *port = &prov->ports[--prov->num_ports];
        if (port->listener)
            rdma_destroy_id(port->listener);
        vp_ud_close(port);
    }
    while (prov->num_devices)
        close_device(&prov->devices[--prov->num_devices]);
}
