/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the ports that are used: see select.h. */
#include "select.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "util/fd.h"

enum { ANY_PREFIX_V4 = 24, ANY_PREFIX_V6 = 64, MAX_FURTHER = 3 };

/*** networks ***/

static const uint8_t *raw_address(const struct sockaddr *addr, unsigned int *bytes)
{
    *bytes = addr->sa_family == AF_INET ? 4 : 16;
    return addr->sa_family == AF_INET
               ? (const uint8_t *)&((const struct sockaddr_in *)(const void *)addr)->sin_addr
               : (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
}

static unsigned int count_bits(const uint8_t *raw, unsigned int bytes)
{
    unsigned int n = 0;

    for (unsigned int i = 0; i < bytes; i++)
        n += (unsigned int)__builtin_popcount(raw[i]);
    return n;
}

void vp_network_of(const union vp_sockaddr *addr, struct vp_network *out)
{
    unsigned int bytes, n;
    const uint8_t *raw = raw_address(&addr->sa, &bytes);
    struct ifaddrs *all = NULL;

    memset(out, 0, sizeof(*out));
    out->family = (uint8_t)addr->sa.sa_family;
    out->by_ip = true;
    out->prefix = bytes == 4 ? ANY_PREFIX_V4 : ANY_PREFIX_V6;
    if (getifaddrs(&all))
        all = NULL;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        if (!a->ifa_addr || !a->ifa_netmask || a->ifa_addr->sa_family != addr->sa.sa_family ||
            memcmp(raw_address(a->ifa_addr, &n), raw, bytes) != 0)
            continue;
        out->prefix = (uint8_t)count_bits(raw_address(a->ifa_netmask, &n), bytes);
        break;
    }
    if (all)
        freeifaddrs(all);
    for (unsigned int bit = 0; bit < out->prefix; bit++)
        out->address[bit / 8] |= (uint8_t)(raw[bit / 8] & 0x80u >> bit % 8);
}

void vp_network_of_gid(const union ibv_gid *gid, struct vp_network *out)
{
    memset(out, 0, sizeof(*out));
    out->family = AF_INET6;
    out->prefix = ANY_PREFIX_V6;
    memcpy(out->address, gid->raw, ANY_PREFIX_V6 / 8);
}

const char *vp_network_text(const struct vp_network *network, char *buf, size_t size)
{
    char text[INET6_ADDRSTRLEN] = "?";

    inet_ntop(network->family, network->address, text, sizeof(text));
    snprintf(buf, size, "%s/%u", text, network->prefix);
    if (network->fabric_number)
        snprintf(buf + strlen(buf), size - strlen(buf), " (fabric %u)",
                 network->fabric_number + 1u);
    return buf;
}

static int compare_networks(const struct vp_network *a, const struct vp_network *b)
{
    if (a->family != b->family) /* IPv4 first */
        return a->family == AF_INET ? -1 : 1;
    int order = memcmp(a->address, b->address, sizeof(a->address));
    if (!order)
        order = a->prefix - b->prefix;
    return order ? order : a->fabric_number - b->fabric_number;
}

/*** InfiniBand: ports that reach each other ***/

/* False for a network that every fabric has: a link-local address, or the network of a GID. */
static bool names_one_fabric(const struct vp_network *n)
{
    return n->by_ip && !(n->family == AF_INET6 && n->address[0] == 0xfe && n->address[1] == 0x80);
}

static bool are_connected(const struct vp_usable_port *a, const struct vp_usable_port *b,
                          bool (*reaches)(const struct vp_port *from, const struct vp_port *to))
{
    if (!a->infiniband || !b->infiniband)
        return false;
    if (names_one_fabric(&a->port.network) && names_one_fabric(&b->port.network) &&
        compare_networks(&a->port.network, &b->port.network) == 0)
        return true;
    return reaches && compare_networks(&a->subnet, &b->subnet) == 0 && reaches(&a->port, &b->port);
}

static bool has_fabric(const struct vp_usable_port *usable, unsigned int count,
                       const struct vp_network *fabric)
{
    for (unsigned int i = 0; i < count; i++)
        if (usable[i].infiniband && compare_networks(&usable[i].fabric, fabric) == 0)
            return true;
    return false;
}

/* Sets the network that names a fabric: the lowest network of its ports. Fabrics of ports without
 * addresses differ only in fabric_number. */
static void name_fabric(struct vp_usable_port *usable, unsigned int count,
                        const unsigned int *first_of, unsigned int first)
{
    struct vp_network lowest = usable[first].port.network;

    for (unsigned int i = first; i < count; i++)
        if (first_of[i] == first && compare_networks(&usable[i].port.network, &lowest) < 0)
            lowest = usable[i].port.network;
    while (has_fabric(usable, first, &lowest))
        lowest.fabric_number++;
    for (unsigned int i = first; i < count; i++)
        if (first_of[i] == first)
            usable[i].fabric = lowest;
}

void vp_ports_group_fabrics(struct vp_usable_port *usable, unsigned int count,
                            bool (*reaches)(const struct vp_port *from, const struct vp_port *to))
{
    unsigned int first_of[VP_MAX_USABLE]; /* index of the first port in the same fabric */

    for (unsigned int i = 0; i < count; i++) {
        usable[i].fabric = usable[i].port.network;
        first_of[i] = i;
        for (unsigned int j = 0; j < i && first_of[i] == i; j++)
            if (first_of[j] == j && are_connected(&usable[j], &usable[i], reaches))
                first_of[i] = j;
    }
    for (unsigned int i = 0; i < count; i++)
        if (first_of[i] == i && usable[i].infiniband)
            name_fabric(usable, count, first_of, i);
}

bool vp_ports_need_datagrams(const struct vp_usable_port *usable, unsigned int used)
{
    for (unsigned int i = 0; i < used; i++)
        for (unsigned int j = 0; j < i; j++)
            if (usable[i].infiniband && usable[j].infiniband &&
                compare_networks(&usable[i].fabric, &usable[j].fabric) == 0 &&
                compare_networks(&usable[i].port.network, &usable[j].port.network) != 0)
                return true;
    return false;
}

/*** properties of a port ***/

_Static_assert(offsetof(struct ibv_port_attr, port_cap_flags2) + 4 == 52,
               "active_speed_ex follows port_cap_flags2, after padding");

int vp_query_port(struct ibv_context *context, unsigned int port, union vp_port_attr *out)
{
    struct verbs_context *newer = verbs_get_ctx_op(context, query_port);

    memset(out, 0, sizeof(*out));
    /* libibverbs fills in the fields that it knows, and zeroes the rest: rdma-core 44 and 65,
     * libibverbs/verbs.c, __lib_query_port() */
    return newer ? newer->query_port(context, (uint8_t)port, &out->attr, sizeof(*out))
                 : ibv_query_port(context, (uint8_t)port, &out->attr);
}

/* active_speed has no value beyond NDR: Linux 6.7,
 * drivers/infiniband/core/uverbs_std_types_device.c, copy_port_attr_to_resp(). */
unsigned int vp_port_speed(const union vp_port_attr *port)
{
    static const struct {
        uint32_t code;
        unsigned int mbit; /* of one lane */
    } speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},    {8, 10000},   {16, 14000},
                  {32, 25000}, {64, 50000}, {128, 100000}, {256, 200000}};
    static const struct {
        uint8_t code;
        unsigned int lanes;
    } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    const struct ibv_port_attr *attr = &port->attr;
    uint32_t speed = port->newer.speed_ex ? port->newer.speed_ex : attr->active_speed;
    unsigned int mbit = 0, lanes = 0;

    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
        if (speeds[i].code == speed)
            mbit = speeds[i].mbit;
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        if (widths[i].code == attr->active_width)
            lanes = widths[i].lanes;
    return mbit * lanes;
}

/* Reads the first line of a file. False: no such file. */
static bool read_file(const char *path, char *line, int size)
{
    FILE *file = ut_fd_open_file(path);
    bool got = file && fgets(line, size, file);
    if (file)
        fclose(file);
    return got;
}

/* Reads the first line of a device's file. */
static bool read_device_file(const char *device, const char *name, char *line, int size)
{
    char path[256];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/%s", device, name);
    return read_file(path, line, size);
}

/* As UCX (August 2026: src/uct/ib/base/ib_device.c, uct_ib_device_query_roce_tclass()). The
 * vendor's kernel modules provide the file. */
int vp_traffic_class(const char *device, unsigned int port)
{
    char path[256], line[64];
    unsigned int traffic_class;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/tc/%u/traffic_class", device, port);
    return read_file(path, line, sizeof(line)) &&
                   sscanf(line, "Global tclass=%u", &traffic_class) == 1 &&
                   traffic_class <= UINT8_MAX
               ? (int)traffic_class
               : -1;
}

/* The default of Linux 6.1 for connections (drivers/infiniband/core/cma.c,
 * cma_resolve_iboe_route()). The file exists if the administrator has created its folder. */
int vp_rdmacm_class(const char *device, unsigned int port)
{
    char path[256], line[64];

    snprintf(path, sizeof(path), "/sys/kernel/config/rdma_cm/%s/ports/%u/default_roce_tos", device,
             port);
    return read_file(path, line, sizeof(line)) ? (uint8_t)atoi(line) : 0;
}

static bool read_slot_name(const char *device, const char *where, char text[VP_FUNCTION_TEXT])
{
    static const char name[] = "PCI_SLOT_NAME=";
    char path[256], line[256];
    bool found = false;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/%suevent", device, where);
    FILE *file = ut_fd_open_file(path);
    while (file && !found && fgets(line, sizeof(line), file)) {
        found = strncmp(line, name, sizeof(name) - 1) == 0;
        line[strcspn(line, "\n")] = '\0';
    }
    if (found)
        snprintf(text, VP_FUNCTION_TEXT, "%.*s", VP_FUNCTION_TEXT - 1, line + sizeof(name) - 1);
    if (file)
        fclose(file);
    return found;
}

/* Linux, Documentation/ABI/testing/sysfs-bus-pci: physfn leads from a virtual function to its
 * physical function. The device of a subfunction is not a PCI function, but a child of one
 * (Linux 6.1, drivers/net/ethernet/mellanox/mlx5/core/sf/dev/dev.c, mlx5_sf_dev_add()). */
void vp_pci_function(const char *device, char text[VP_FUNCTION_TEXT])
{
    text[0] = '\0';
    if (!read_slot_name(device, "physfn/", text) && !read_slot_name(device, "", text))
        read_slot_name(device, "../", text);
}

/*
 * mlx5: the firmware gives all functions of an adapter the same number (Linux 6.1,
 * drivers/infiniband/hw/mlx5/main.c, mlx5_query_system_image_guid()). NCCL identifies the adapter
 * by it too (src/transport/net_ib.cc, ncclIbInit(), and src/graph/search.c,
 * ncclTopoSearchRecNet()). With other drivers it may be a number of the host (hfi1/verbs.c,
 * hfi1_register_ib_device()), or of a port (irdma/verbs.c, irdma_query_device()).
 */
uint64_t vp_adapter_id(const struct ibv_device_attr *attr)
{
    return attr->vendor_id == VP_VENDOR_MELLANOX ? attr->sys_image_guid : 0;
}

/* Reads the name of a RoCE port's network interface. Ports of a bond have no name. */
static bool read_port_name(const char *device, unsigned int port, char *line, int size)
{
    char path[256], netdev[64];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/gid_attrs/ndevs/0", device,
             port);
    if (!read_file(path, netdev, sizeof(netdev)))
        return false;
    netdev[strcspn(netdev, "\n")] = '\0';
    snprintf(path, sizeof(path), "/sys/class/net/%s/phys_port_name", netdev);
    return read_file(path, line, size);
}

/*
 * An adapter in two PCIe slots (Socket Direct) has in each slot a function for each cable
 * connector. mlx5_sd_group_id() of Linux 6.9, drivers/net/ethernet/mellanox/mlx5/core/lib/sd.c,
 * groups the functions of a connector by the number in phys_port_name (en/devlink.c,
 * mlx5e_devlink_port_register()). If the firmware does not report it, and on InfiniBand, the number
 * of the PCI function identifies the connector (include/linux/mlx5/driver.h, mlx5_get_dev_index()).
 */
int vp_adapter_connector(const char *device, unsigned int port, const char *function)
{
    char line[32];
    const char *dot = strrchr(function, '.');
    unsigned int number;
    int end = 0;

    if (read_port_name(device, port, line, sizeof(line)) &&
        sscanf(line, "p%u%n", &number, &end) == 1 && (line[end] == '\n' || line[end] == '\0') &&
        number <= INT8_MAX)
        return (int)number;
    return dot && dot[1] >= '0' && dot[1] <= '7' ? dot[1] - '0' : -1;
}

int vp_numa_node(const char *device)
{
    char line[32];

    return read_device_file(device, "numa_node", line, sizeof(line)) ? atoi(line) : -1;
}

bool vp_cpus_are_in(const char *list, const cpu_set_t *cpus)
{
    cpu_set_t left = *cpus;
    char *end;

    for (const char *at = list; *at >= '0' && *at <= '9'; at = *end == ',' ? end + 1 : end) {
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_CLR(cpu, &left);
    }
    return CPU_COUNT(&left) == 0;
}

bool vp_is_numa_local(const char *device)
{
    char line[1024];
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 &&
           read_device_file(device, "local_cpulist", line, sizeof(line)) &&
           vp_cpus_are_in(line, &cpus);
}

/*** selection ***/

#define EXCLUDE(f, ...) snprintf((f)->why_not, sizeof((f)->why_not), __VA_ARGS__)
#define NAMING_HINT     "UTOFU_VERBS_DEVICES can name it"

static const struct vp_usable_port *fastest_of(const struct vp_usable_port *usable,
                                               unsigned int count)
{
    const struct vp_usable_port *best = NULL;

    for (unsigned int i = 0; i < count; i++)
        if (!usable[i].why_not[0] && (!best || usable[i].port.speed > best->port.speed))
            best = &usable[i];
    return best;
}

static bool have_same_address(const struct vp_usable_port *a, const struct vp_usable_port *b)
{
    const union vp_sockaddr *x = &a->port.addr, *y = &b->port.addr;

    return !a->infiniband && !b->infiniband && x->sa.sa_family != AF_UNSPEC && vp_same_ip(x, y) &&
           (x->sa.sa_family == AF_INET || x->in6.sin6_scope_id == y->in6.sin6_scope_id);
}

/*
 * Handles a bond over ports of two adapters. The kernel gives its addresses to both, unless the
 * bond has an active slave (Linux 6.1, drivers/infiniband/core/roce_gid_mgmt.c,
 * is_eth_active_slave_of_bonding_rcu()). A bond over all ports of one adapter, which mlx5 knows of,
 * is one device (drivers/net/ethernet/mellanox/mlx5/core/lag/lag.c,
 * mlx5_handle_changeupper_event()).
 */
static void exclude_shared_addresses(struct vp_usable_port *usable, unsigned int count)
{
    char text[INET6_ADDRSTRLEN];

    for (unsigned int i = 0; i < count; i++) {
        for (unsigned int j = 0; j < i && !usable[i].why_not[0]; j++) {
            if (usable[j].why_not[0] || !have_same_address(&usable[i], &usable[j]))
                continue;
            bool later = usable[j].port.uses_datagrams && !usable[i].port.uses_datagrams;
            struct vp_usable_port *used = &usable[later ? i : j], *other = &usable[later ? j : i];
            memcpy(used->same_address_as, other->name, sizeof(used->same_address_as));
            EXCLUDE(other,
                    "has the address of %s, %s%s%s: packets arrive at either port, so only one of "
                    "them is used; give each an address of its own",
                    used->name, vp_addr_text(&other->port.addr, text, sizeof(text)),
                    other->bond[0] ? ", by " : "", other->bond);
        }
    }
}

static void exclude_slow(struct vp_usable_port *usable, unsigned int count)
{
    const struct vp_usable_port *best = fastest_of(usable, count);

    for (unsigned int i = 0; i < count; i++) {
        unsigned int speed = usable[i].port.speed;
        if (!usable[i].why_not[0] && speed && 2 * speed < best->port.speed)
            EXCLUDE(&usable[i], "has %u Mbit/s, and %s has %u: " NAMING_HINT, speed, best->name,
                    best->port.speed);
    }
}

static void exclude_ethernet(struct vp_usable_port *usable, unsigned int count)
{
    const struct vp_usable_port *infiniband = NULL;

    for (unsigned int i = 0; i < count && !infiniband; i++)
        if (!usable[i].why_not[0] && usable[i].infiniband)
            infiniband = &usable[i];
    for (unsigned int i = 0; infiniband && i < count; i++)
        if (!usable[i].why_not[0] && !usable[i].infiniband)
            EXCLUDE(&usable[i], "is Ethernet, and %s is InfiniBand: " NAMING_HINT,
                    infiniband->name);
}

/* The best throughput of a network: it uses the ports of at least this speed. */
struct throughput {
    uint64_t total_speed; /* Mbit/s: speed of the slowest port times the number of ports */
    unsigned int slowest;
};

static bool is_candidate(const struct vp_usable_port *usable, const struct vp_network *network)
{
    return !usable->why_not[0] && compare_networks(&usable->fabric, network) == 0;
}

static struct throughput throughput_of(const struct vp_usable_port *usable, unsigned int count,
                                       const struct vp_network *network)
{
    struct throughput best = {0, 0};

    for (unsigned int i = 0; i < count; i++) {
        unsigned int speed = usable[i].port.speed, ports = 0;
        if (!is_candidate(&usable[i], network))
            continue;
        for (unsigned int j = 0; j < count && ports < VP_MAX_PORTS; j++)
            ports += is_candidate(&usable[j], network) && usable[j].port.speed >= speed;
        uint64_t total_speed = (uint64_t)ports * (speed ? speed : 1);
        if (total_speed > best.total_speed ||
            (total_speed == best.total_speed && speed > best.slowest))
            best = (struct throughput){total_speed, speed};
    }
    return best;
}

/* Excludes ports that slow the others down. The remaining ports must be in one network. */
static void exclude_bottlenecks(struct vp_usable_port *usable, unsigned int count)
{
    const struct vp_usable_port *best = fastest_of(usable, count);
    struct throughput throughput = throughput_of(usable, count, &best->fabric);

    for (unsigned int i = 0; i < count; i++) {
        unsigned int speed = usable[i].port.speed;
        if (!usable[i].why_not[0] && speed && speed < throughput.slowest)
            EXCLUDE(&usable[i],
                    "has %u Mbit/s, and %s has %u: TNIs with this port would slow the others "
                    "down; " NAMING_HINT,
                    speed, best->name, best->port.speed);
    }
}

static void exclude_other_networks(struct vp_usable_port *usable, unsigned int count)
{
    const struct vp_usable_port *best = NULL;
    char other_network[VP_NETWORK_TEXT], best_network[VP_NETWORK_TEXT];
    uint64_t best_speed = 0;

    for (unsigned int i = 0; i < count; i++) {
        if (usable[i].why_not[0])
            continue;
        uint64_t speed = throughput_of(usable, count, &usable[i].fabric).total_speed;
        if (!best || speed > best_speed ||
            (speed == best_speed && compare_networks(&usable[i].fabric, &best->fabric) < 0)) {
            best = &usable[i];
            best_speed = speed;
        }
    }
    for (unsigned int i = 0; i < count; i++)
        if (!usable[i].why_not[0] && compare_networks(&usable[i].fabric, &best->fabric) != 0)
            EXCLUDE(&usable[i],
                    "is in %s, and %s in %s: if these reach each other, UTOFU_VERBS_DEVICES can "
                    "name both",
                    vp_network_text(&usable[i].fabric, other_network, sizeof(other_network)),
                    best->name, vp_network_text(&best->fabric, best_network, sizeof(best_network)));
}

void vp_ports_select(struct vp_usable_port *usable, unsigned int count, bool chosen)
{
    for (unsigned int i = 0; i < count; i++)
        usable[i].why_not[0] = usable[i].same_address_as[0] = '\0';
    exclude_shared_addresses(usable, count);
    if (chosen || !count)
        return;
    exclude_slow(usable, count);
    exclude_ethernet(usable, count);
    exclude_other_networks(usable, count);
    exclude_bottlenecks(usable, count);
}

/*** physical links ***/

static bool share_link(const struct vp_usable_port *a, const struct vp_usable_port *b)
{
    if (a->bond[0] && strcmp(a->bond, b->bond) == 0)
        return true;
    if (a->port.dev == b->port.dev || a->port.num != b->port.num)
        return false;
    return (a->pci_function[0] && strcmp(a->pci_function, b->pci_function) == 0) ||
           (a->adapter_id && a->adapter_id == b->adapter_id && a->connector >= 0 &&
            a->connector == b->connector);
}

void vp_ports_find_links(struct vp_usable_port *usable, unsigned int used)
{
    for (unsigned int i = 0; i < used; i++) {
        unsigned int first = 0;
        while (!share_link(&usable[first], &usable[i]) && first < i)
            first++;
        usable[i].port.phys_link = (uint8_t)first;
        usable[i].port.paths =
            usable[i].paths > 1 && !usable[i].same_address_as[0] ? usable[i].paths : 1;
    }
}

unsigned int vp_rails_count_further(const struct vp_port *ports, unsigned int count,
                                    unsigned int port)
{
    unsigned int further = 0;

    while (further < MAX_FURTHER) {
        const struct vp_port *next = &ports[(port + further + 1) % count];
        unsigned int taken = 0;
        for (unsigned int i = 0; i <= further; i++)
            taken += ports[(port + i) % count].phys_link == next->phys_link;
        if (taken >= next->paths)
            break;
        further++;
    }
    return further;
}

/* Appends the names of the ports that take parts, such as: rxe0:1 and rxe1:1. */
static void append_port_names(const struct vp_prov *prov, unsigned int port, unsigned int further,
                              char *text, size_t size)
{
    for (unsigned int i = 0; i <= further && i < prov->num_ports; i++) {
        const struct vp_port *p = &prov->ports[(port + i) % prov->num_ports];
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s:%u%s", i ? " and " : " ",
                 ibv_get_device_name(p->dev->context->device), p->num,
                 p->paths > 1 ? ", a bond of several links" : "");
    }
}

void vp_rails_describe(const struct vp_prov *prov, unsigned int port, char *text, size_t size)
{
    unsigned int further = vp_rails_count_further(prov->ports, prov->num_ports, port);
    const struct vp_port *next = &prov->ports[(port + 1) % prov->num_ports];

    if (further > 0 && prov->tuning.rails > 0) {
        snprintf(text, size, "long puts, from %u bytes on, go in parts by", prov->tuning.rails);
        append_port_names(prov, port, further, text, size);
    } else if (further > 0) {
        snprintf(text, size, "long puts go by this port alone: UTOFU_VERBS_TUNE has rails=0");
    } else if (prov->num_ports > 1) {
        snprintf(text, size, "long puts go by this port alone: %s:%u has the same physical link",
                 ibv_get_device_name(next->dev->context->device), next->num);
    } else {
        snprintf(text, size, "long puts go by this port alone: no other one is used");
    }
}

/*** order of the ports ***/

/* True if `a` comes before `b` in every process. */
static bool is_before(const struct vp_usable_port *a, const struct vp_usable_port *b, bool chosen)
{
    bool a_used = !a->why_not[0], b_used = !b->why_not[0];

    if (a_used != b_used)
        return a_used;
    return !chosen && a->near && !b->near;
}

/* Moves the first `by` of `count` ports behind the others. */
static void rotate_ports(struct vp_usable_port *usable, unsigned int count, unsigned int by)
{
    while (by--) {
        struct vp_usable_port first = usable[0];
        memmove(usable, usable + 1, (count - 1) * sizeof(*usable));
        usable[count - 1] = first;
    }
}

unsigned int vp_ports_sort(struct vp_usable_port *usable, unsigned int count, bool chosen,
                           unsigned int local_rank)
{
    unsigned int used = 0, near = 0;

    for (unsigned int i = 1; i < count;
         i++) { /* stable sort: equal ports keep the order of their devices */
        struct vp_usable_port moved = usable[i];
        unsigned int at = i;
        for (; at > 0 && is_before(&moved, &usable[at - 1], chosen); at--)
            usable[at] = usable[at - 1];
        usable[at] = moved;
    }
    while (used < count && !usable[used].why_not[0])
        near += usable[used++].near;
    if (chosen || !used)
        return used;
    if (near)
        rotate_ports(usable, near, local_rank % near);
    if (used > near)
        rotate_ports(usable + near, used - near, local_rank % (used - near));
    return used;
}
