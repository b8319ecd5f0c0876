/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the system says of an adapter: its files below /sys (ports/select.c), whose contents the
 * test provides, and the states of a queue pair that is connected to itself before its order is
 * asked for (ports/order.c).
 */
#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "util/fd.h"
#include "verbs/ports/order.h"
#include "verbs/ports/select.h"
#include "verbs/ports/ud.h"
#include "noted_lines.h"

/*
 * Files
 */

static struct {
    const char *path, *text;
} files[4];
static int open_files, num_asked;

static FILE *open_file(const char *path)
{
    num_asked++;
    for (int i = 0; i < 4; i++)
        if (files[i].path && strcmp(files[i].path, path) == 0) {
            open_files++;
            return fmemopen((void *)(uintptr_t)files[i].text, strlen(files[i].text), "r");
        }
    return NULL;
}

static int close_file(FILE *file)
{
    CHECK(file);
    open_files--;
    return fclose(file);
}

static void set_file(int i, const char *path, const char *text)
{
    files[i].path = path;
    files[i].text = text;
    num_asked = 0;
}

static void forget_files(void)
{
    memset(files, 0, sizeof(files));
    num_asked = 0;
}

static bool lists_addresses, has_cpus;
static int address_lists;
static struct ifaddrs addresses[3];

static int list_addresses(struct ifaddrs **list)
{
    *list = lists_addresses ? addresses : (struct ifaddrs *)1;
    address_lists += lists_addresses;
    return lists_addresses ? 0 : -1;
}

static void free_addresses(struct ifaddrs *list)
{
    CHECK(list == addresses);
    address_lists--;
}

static int get_cpus(pid_t pid, size_t size, cpu_set_t *cpus)
{
    CHECK(pid == 0 && size == sizeof(*cpus));
    CPU_ZERO(cpus);
    CPU_SET(2, cpus);
    return has_cpus ? 0 : -1;
}

/*
 * The queue pair
 */

static struct ibv_qp_attr modified[3];
static int masks[3], num_modified, fails_at;
static bool has_port, has_gid;
static uint32_t asked_gid;
static struct vp_ud_addr path_to;

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    CHECK(qp->qp_num == 77 && num_modified < 3);
    modified[num_modified] = *attr;
    masks[num_modified] = mask;
    return num_modified++ == fails_at ? EINVAL : 0;
}

static int query_about(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    CHECK(context && port == 2);
    memset(attr, 0, sizeof(*attr));
    attr->lid = 9;
    attr->active_mtu = IBV_MTU_1024;
    return has_port ? 0 : EIO;
}

static int query_gid(struct ibv_context *context, uint32_t port, uint32_t index,
                     struct ibv_gid_entry *gid, uint32_t flags)
{
    CHECK(context && port == 2 && flags == 0);
    memset(gid, 0, sizeof(*gid));
    gid->gid.raw[15] = 6;
    asked_gid = index;
    return has_gid ? 0 : EIO;
}

static void path_of(const struct vp_port *port, const struct vp_ud_addr *to,
                    struct ibv_ah_attr *attr)
{
    CHECK(port->num == 2);
    path_to = *to;
    attr->dlid = 33;
}

#define ut_fd_open_file   open_file
#define fclose            close_file
#define getifaddrs        list_addresses
#define freeifaddrs       free_addresses
#define sched_getaffinity get_cpus
#include "../../provider/verbs/ports/select.c"
#undef ibv_query_port
#define ibv_modify_qp    modify_qp
#define ibv_query_port   query_about
#define ibv_query_gid_ex query_gid
#define vp_ud_path       path_of
#include "../../provider/verbs/ports/order.c"

/*
 * Properties in files
 */

static void traffic_classes(void)
{
    static const struct {
        const char *text;
        int class, cm_class;
    } cases[] = {{"Global tclass=106\n", 106, 0},
                 {"Global tclass=255", 255, 0},
                 {"Global tclass=256\n", -1, 0},
                 {"Global tclass=0\n", 0, 0},
                 {"tclass=5\n", -1, 0},
                 {"106\n", -1, 106},
                 {"255\n", -1, 255}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        forget_files();
        set_file(0, "/sys/class/infiniband/a0/tc/2/traffic_class", cases[i].text);
        set_file(1, "/sys/kernel/config/rdma_cm/a0/ports/2/default_roce_tos", cases[i].text);
        CHECK(vp_traffic_class("a0", 2) == cases[i].class && vp_traffic_class("a0", 1) == -1);
        CHECK(vp_rdmacm_class("a0", 2) == cases[i].cm_class && vp_rdmacm_class("a0", 1) == 0);
        CHECK(open_files == 0);
    }
}

/* The physical function of a virtual one, the own one, or that of a subfunction's parent. */
static void pci_functions(void)
{
    static const char *const paths[] = {"/sys/class/infiniband/a0/device/physfn/uevent",
                                        "/sys/class/infiniband/a0/device/uevent",
                                        "/sys/class/infiniband/a0/device/../uevent"};
    static const struct {
        const char *texts[3], *wanted;
    } cases[] = {
        {{"DRIVER=x\nPCI_SLOT_NAME=0000:03:00.0\nMODALIAS=y\n", "PCI_SLOT_NAME=1", NULL},
         "0000:03:00.0"},
        {{NULL, "PCI_SLOT_NAME=0000:04:00.1\n", "PCI_SLOT_NAME=0\n"}, "0000:04:00.1"},
        {{"DRIVER=x\n", "DRIVER=y\n", "PCI_SLOT_NAME=0000:05:00.0"}, "0000:05:00.0"},
        {{NULL, "PCI_SLOT_NAM=1\nxPCI_SLOT_NAME=2\n", NULL}, ""},
        {{NULL, NULL, NULL}, ""},
        {{"PCI_SLOT_NAME=\nPCI_SLOT_NAME=3\n", NULL, NULL}, ""},
        {{NULL, "PCI_SLOT_NAME=0123456789abcdefg\n", NULL}, "0123456789abcde"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[VP_FUNCTION_TEXT] = "before";
        forget_files();
        for (int k = 0; k < 3; k++)
            if (cases[i].texts[k])
                set_file(k, paths[k], cases[i].texts[k]);
        vp_pci_function("a0", text);
        if (strcmp(text, cases[i].wanted) != 0)
            printf("case %zu: %s\n", i, text);
        CHECK(strcmp(text, cases[i].wanted) == 0 && open_files == 0);
    }
}

static void connectors(void)
{
    static const struct {
        const char *netdev, *name, *function;
        int number;
    } cases[] = {{"eth5\n", "p1\n", "0000:03:00.0", 1},
                 {"eth5", "p0", "0000:03:00.1", 0},
                 {"eth5", "p127\n", ".1", 127},
                 {"eth5", "p128\n", ".1", 1},
                 {"eth5", "p1s0\n", ".2", 2},
                 {"eth5", "pf0\n", ".3", 3},
                 {"eth5", NULL, "0000:03:00.7", 7},
                 {NULL, "p1\n", ".0", 0},
                 {NULL, NULL, "0000:03:00.8", -1},
                 {NULL, NULL, "0", -1},
                 {NULL, NULL, "", -1},
                 {NULL, NULL, "0000:03:00./", -1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        forget_files();
        if (cases[i].netdev)
            set_file(0, "/sys/class/infiniband/a0/ports/2/gid_attrs/ndevs/0", cases[i].netdev);
        if (cases[i].name)
            set_file(1, "/sys/class/net/eth5/phys_port_name", cases[i].name);
        int number = vp_adapter_connector("a0", 2, cases[i].function);
        if (number != cases[i].number)
            printf("case %zu: %d\n", i, number);
        CHECK(number == cases[i].number && open_files == 0);
    }
}

static void nearness(void)
{
    forget_files();
    has_cpus = true;
    CHECK(vp_numa_node("a0") == -1 && !vp_is_numa_local("a0"));
    set_file(0, "/sys/class/infiniband/a0/device/numa_node", "3\n");
    set_file(1, "/sys/class/infiniband/a0/device/local_cpulist", "0-2,9\n");
    CHECK(vp_numa_node("a0") == 3 && vp_is_numa_local("a0"));
    has_cpus = false;
    CHECK(!vp_is_numa_local("a0"));
    has_cpus = true;
    set_file(1, "/sys/class/infiniband/a0/device/local_cpulist", "0-1,3\n");
    CHECK(!vp_is_numa_local("a0") && open_files == 0);
    set_file(0, "/sys/class/infiniband/a0/device/numa_node", "");
    CHECK(vp_numa_node("a0") == -1 && open_files == 0);
}

/*
 * Networks
 */

static void set_ip(void *at, const char *text)
{
    struct sockaddr_in *in = at;

    memset(in, 0, sizeof(*in));
    in->sin_family = AF_INET;
    CHECK(inet_pton(AF_INET, text, &in->sin_addr) == 1);
}

static void networks_are_those_of_interfaces(void)
{
    static struct sockaddr_in values[2], mask;
    union vp_sockaddr addr = {0};
    struct vp_network network;
    char text[VP_NETWORK_TEXT];

    set_ip(&values[0], "10.1.2.2");
    set_ip(&values[1], "10.1.2.3");
    set_ip(&mask, "255.255.240.0");
    addresses[0] = (struct ifaddrs){.ifa_next = &addresses[1], .ifa_addr = NULL};
    addresses[1] = (struct ifaddrs){.ifa_next = &addresses[2], .ifa_addr = (void *)&values[0]};
    addresses[2] = (struct ifaddrs){.ifa_addr = (void *)&values[1], .ifa_netmask = (void *)&mask};
    set_ip(&addr, "10.1.18.3");
    lists_addresses = true;
    vp_network_of(&addr, &network); /* no interface has it */
    CHECK(network.prefix == 24 && network.by_ip && network.family == AF_INET);
    CHECK(strcmp(vp_network_text(&network, text, sizeof(text)), "10.1.18.0/24") == 0);
    set_ip(&addr, "10.1.2.3");
    vp_network_of(&addr, &network);
    CHECK(strcmp(vp_network_text(&network, text, sizeof(text)), "10.1.0.0/20") == 0);
    set_ip(&addr, "10.1.2.2"); /* an interface without a mask */
    vp_network_of(&addr, &network);
    CHECK(network.prefix == 24 && address_lists == 0);
    lists_addresses = false;
    set_ip(&addr, "10.1.2.3");
    vp_network_of(&addr, &network);
    CHECK(network.prefix == 24);
    memset(&addr, 0, sizeof(addr));
    addr.in6.sin6_family = AF_INET6;
    CHECK(inet_pton(AF_INET6, "fd00:1:2:3:4::5", &addr.in6.sin6_addr) == 1);
    vp_network_of(&addr, &network);
    CHECK(strcmp(vp_network_text(&network, text, sizeof(text)), "fd00:1:2:3::/64") == 0);
}

/*
 * Texts
 */

static void parts_are_described(void)
{
    static struct ibv_device devices[2] = {{.name = "a0"}, {.name = "b0"}};
    static struct ibv_context contexts[2];
    static struct vp_device devs[2];
    static struct vp_prov prov;
    static const struct {
        unsigned int rails, ports;
        uint8_t links[3], paths;
        const char *wanted;
    } cases[] = {
        {65536, 1, {1, 0, 0}, 1, "long puts go by this port alone: no other one is used"},
        {65536,
         2,
         {1, 1, 0},
         1,
         "long puts go by this port alone: b0:2 has the same physical link"},
        {0, 2, {1, 2, 0}, 1, "long puts go by this port alone: UTOFU_VERBS_TUNE has rails=0"},
        {1, 2, {1, 2, 0}, 1, "long puts, from 1 bytes on, go in parts by a0:1 and b0:2"},
        {65536,
         3,
         {1, 2, 3},
         1,
         "long puts, from 65536 bytes on, go in parts by a0:1 and b0:2 and a0:3"},
        {65536, 3, {1, 2, 1}, 1, "long puts, from 65536 bytes on, go in parts by a0:1 and b0:2"},
        {9,
         1,
         {1, 0, 0},
         2,
         "long puts, from 9 bytes on, go in parts by a0:1, a bond of several links"},
    };
    char text[256];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(&prov, 0, sizeof(prov));
        prov.tuning.rails = cases[i].rails;
        prov.num_ports = cases[i].ports;
        for (unsigned int k = 0; k < 3; k++) {
            contexts[k % 2].device = &devices[k % 2];
            devs[k % 2].context = &contexts[k % 2];
            prov.ports[k] = (struct vp_port){.dev = &devs[k % 2],
                                             .num = (uint8_t)(k + 1),
                                             .phys_link = cases[i].links[k],
                                             .paths = cases[i].paths};
        }
        vp_rails_describe(&prov, 0, text, sizeof(text));
        if (strcmp(text, cases[i].wanted) != 0)
            printf("wanted: %s\ngot:    %s\n", cases[i].wanted, text);
        CHECK(strcmp(text, cases[i].wanted) == 0);
    }
}

static void orders_are_described(void)
{
    char text[VP_ORDER_TEXT];

    CHECK(strcmp(vp_unit_text(VP_UNIT_WHOLE, text), "order") == 0);
    CHECK(strcmp(vp_unit_text(VP_UNIT_128, text), "any order but for units of 128 bytes") == 0);
    CHECK(strcmp(vp_unit_text(VP_UNIT_64, text), "any order but for units of 64 bytes") == 0);
    CHECK(strcmp(vp_unit_text(VP_UNIT_WORD, text), "any order but for units of 8 bytes") == 0);
    CHECK(strcmp(vp_order_reason(VP_ORDER_UNKNOWN), "the adapter promises none") == 0);
    CHECK(strcmp(vp_order_reason(VP_ORDER_RELAXED), "memory keys with relaxed ordering") == 0);
}

/*
 * The queue pair that is asked
 */

static void a_queue_pair_is_connected_to_itself(void)
{
    static struct ibv_context context;
    struct vp_device device = {.context = &context};
    struct vp_port port = {.dev = &device, .num = 2, .pkey_index = 4};
    struct ibv_qp qp = {.qp_num = 77};

    has_port = has_gid = true;
    for (int index = -1; index <= 3; index += 2) {
        for (fails_at = 0; fails_at <= 3; fails_at++) {
            port.gid_index = index;
            num_modified = 0;
            CHECK(connect_to_itself(&device, &port, &qp) == (fails_at == 3));
            CHECK(num_modified == (fails_at == 3 ? 3 : fails_at + 1));
            CHECK(asked_gid == (uint32_t)(index < 0 ? 0 : index));
        }
    }
    CHECK(modified[0].qp_state == IBV_QPS_INIT && modified[0].pkey_index == 4);
    CHECK(modified[0].port_num == 2 && modified[0].qp_access_flags == IBV_ACCESS_REMOTE_WRITE);
    CHECK(modified[1].qp_state == IBV_QPS_RTR && modified[1].path_mtu == IBV_MTU_1024);
    CHECK(modified[1].dest_qp_num == 77 && modified[1].ah_attr.dlid == 33);
    CHECK(path_to.qpn == 77 && path_to.lid == 9 && path_to.gid.raw[15] == 6);
    CHECK(modified[2].qp_state == IBV_QPS_RTS && (masks[2] & IBV_QP_TIMEOUT));
    CHECK((masks[0] & masks[1] & masks[2] & IBV_QP_STATE) && (masks[1] & IBV_QP_AV));
    num_modified = 0;
    has_gid = false;
    CHECK(!connect_to_itself(&device, &port, &qp) && num_modified == 0);
    has_gid = true;
    has_port = false;
    CHECK(!connect_to_itself(&device, &port, &qp) && num_modified == 0);
}

int main(void)
{
    traffic_classes();
    pci_functions();
    connectors();
    nearness();
    networks_are_those_of_interfaces();
    parts_are_described();
    orders_are_described();
    a_queue_pair_is_connected_to_itself();
    return 0;
}
