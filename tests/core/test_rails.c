/* SPDX-License-Identifier: Apache-2.0 */
/* The used ports of a host, and their order. The test provides the addresses of the host. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <string.h>

#include "../../provider/verbs/ports/select.h"

enum { SLOW = 25000, FAST = 100000, MAX_PORTS = 8 };

static struct ifaddrs interface;
static union vp_sockaddr interface_addr, interface_mask;
static struct vp_usable_port found[MAX_PORTS];
static unsigned int count;

int getifaddrs(struct ifaddrs **all)
{
    *all = &interface;
    return 0;
}

void freeifaddrs(struct ifaddrs *all)
{
    cr_assert_eq(all, &interface);
}

static union vp_sockaddr address(const char *text)
{
    union vp_sockaddr addr = {.sa.sa_family = strchr(text, ':') ? AF_INET6 : AF_INET};

    cr_assert_eq(inet_pton(addr.sa.sa_family, text,
                           addr.sa.sa_family == AF_INET ? (void *)&addr.in.sin_addr
                                                        : (void *)&addr.in6.sin6_addr),
                 1);
    return addr;
}

static void add(const char *name, unsigned int speed, const char *addr)
{
    struct vp_usable_port *f = &found[count++];
    union vp_sockaddr a = address(addr);

    memset(f, 0, sizeof(*f));
    strcpy(f->name, name);
    f->port.num = (uint8_t)count;
    f->port.speed = speed;
    f->port.addr = a;
    vp_network_of(&a, &f->port.network);
}

/* InfiniBand, in the fabric of this number; NULL: without an IP address. */
static void add_ib(const char *name, unsigned int speed, const char *addr, unsigned int fabric)
{
    union ibv_gid gid = {.raw = {0xfe, 0x80}};

    add(name, speed, addr ? addr : "::");
    struct vp_usable_port *f = &found[count - 1];
    f->infiniband = true;
    f->port.at.lid = (uint16_t)(100 * fabric + count);
    vp_network_of_gid(&gid, &f->subnet);
    if (!addr)
        f->port.network = f->subnet;
}

static unsigned int asked;

static bool reaches(const struct vp_port *from, const struct vp_port *to)
{
    asked++;
    return from->at.lid / 100 == to->at.lid / 100;
}

/* Are those used whose numbers these are, in this order? */
static bool are_used(bool chosen, unsigned int local_rank, const char *numbers)
{
    vp_ports_group_fabrics(found, count, reaches);
    vp_ports_select(found, count, chosen);
    unsigned int n = vp_ports_sort(found, count, chosen, local_rank);

    if (n != strlen(numbers))
        return false;
    for (unsigned int i = 0; i < n; i++)
        if (found[i].port.num != numbers[i] - '0')
            return false;
    return true;
}

static const char *reason(unsigned int num)
{
    for (unsigned int i = 0; i < count; i++)
        if (found[i].port.num == num)
            return found[i].why_not;
    return NULL;
}

static bool is_network(const char *addr, const char *expected)
{
    union vp_sockaddr a = address(addr);
    struct vp_network network;
    char text[64];

    vp_network_of(&a, &network);
    return strcmp(vp_network_text(&network, text, sizeof(text)), expected) == 0;
}

static void start(void)
{
    count = asked = 0;
    interface_addr = address("10.5.77.1");
    interface_mask = address("255.255.240.0");
    interface = (struct ifaddrs){.ifa_addr = &interface_addr.sa, .ifa_netmask = &interface_mask.sa};
}

TestSuite(rails, .init = start);

Test(rails, network_is_that_of_the_interface)
{
    cr_assert(is_network("10.5.77.1", "10.5.64.0/20"));
    cr_assert(is_network("10.5.77.2", "10.5.77.0/24")); /* no port has this address */
    cr_assert(is_network("fd00:1:2:3:4::5", "fd00:1:2:3::/64"));
    interface_addr = address("fd00:1:2:3:4::5");
    interface_mask = address("ffff:ffff:ff80::");
    cr_assert(is_network("fd00:1:2:3:4::5", "fd00:1::/41"));
    interface.ifa_netmask = NULL; /* a point-to-point link */
    cr_assert(is_network("fd00:1:2:3:4::5", "fd00:1:2:3::/64"));
}

Test(rails, one_network_with_all_its_ports)
{
    add("a:1", FAST, "10.2.0.1");
    add("a:2", FAST, "10.1.0.1");
    add("b:1", FAST, "10.1.0.2");
    cr_assert(are_used(false, 0, "23"));
    cr_assert_str_eq(reason(1), "is in 10.2.0.0/24, and a:2 in 10.1.0.0/24: if these reach each "
                                "other, UTOFU_VERBS_DEVICES can name both");
    cr_assert(are_used(true, 0, "231")); /* in the order that they are in */
}

Test(rails, alike_networks_give_the_lowest_address_whatever_the_order)
{
    add("a:1", FAST, "10.2.0.1");
    add("b:1", FAST, "10.1.0.1");
    cr_assert(are_used(false, 0, "2"));
    count = 0;
    add("b:1", FAST, "10.1.0.1");
    add("a:1", FAST, "10.2.0.1");
    cr_assert(are_used(false, 0, "1"));
    count = 0;
    add("a:1", FAST, "fd00::1");
    add("b:1", FAST, "10.9.0.1");
    cr_assert(are_used(false, 0, "2"));
}

Test(rails, the_faster_network)
{
    add("a:1", FAST / 2, "10.1.0.1");
    add("b:1", FAST, "10.2.0.1");
    cr_assert(are_used(false, 0, "2"));
    count = 0;
    add("a:1", FAST / 2, "10.1.0.1");
    add("a:2", FAST / 2, "10.1.0.2");
    add("a:3", FAST / 2, "10.1.0.3");
    add("b:1", FAST, "10.2.0.1");
    cr_assert(are_used(false, 0, "123"));
}

Test(rails, slow_ports_are_left_out)
{
    add("a:1", SLOW, "10.1.0.1");
    add("b:1", FAST, "10.1.0.2");
    add("c:1", FAST * 3 / 4, "10.1.0.3"); /* more than half the speed is enough */
    add("d:1", 0, "10.1.0.4");            /* nobody knows */
    cr_assert(are_used(false, 0, "234"));
    cr_assert_str_eq(reason(1),
                     "has 25000 Mbit/s, and b:1 has 100000: UTOFU_VERBS_DEVICES can name it");
    cr_assert(are_used(true, 0, "2341"));
    cr_assert_str_empty(reason(1));
}

/* Every TNI is as likely to be used. */
Test(rails, a_port_that_holds_up_the_others_is_left_out)
{
    add("a:1", 100000, "10.1.0.1");
    add("b:1", 200000, "10.1.0.2");
    cr_assert(are_used(false, 0, "2")); /* twice 100 is not more */
    cr_assert_str_eq(reason(1), "has 100000 Mbit/s, and b:1 has 200000: TNIs with this port would "
                                "slow the others down; UTOFU_VERBS_DEVICES can name it");
    cr_assert(are_used(true, 0, "21")); /* in the order that they are in */
    count = 0;
    add("a:1", 100000, "10.1.0.1");
    add("b:1", 200000, "10.1.0.2");
    add("c:1", 100000, "10.1.0.3");
    cr_assert(are_used(false, 0, "123")); /* three times 100 is */
    count = 0;
    add("a:1", 200000, "10.1.0.1");
    add("b:1", 100000, "10.1.0.2");
    add("c:1", 200000, "10.1.0.3");
    cr_assert(are_used(false, 0, "13"));
    count = 0;
    add("a:1", 200000, "10.2.0.1"); /* two of 100 are no better than one of 200 */
    add("b:1", 100000, "10.1.0.2");
    add("c:1", 200000, "10.1.0.3");
    cr_assert(are_used(false, 0, "3"));
}

Test(rails, ports_of_one_fabric_are_used_whatever_their_ip_networks)
{
    add_ib("a:1", FAST, "10.2.0.1", 1);
    add_ib("a:2", FAST, "10.1.0.1", 1);
    add_ib("b:1", FAST, NULL, 1);
    cr_assert(are_used(false, 0, "123"));
    cr_assert(vp_ports_need_datagrams(found, 3));
    cr_assert(!vp_ports_need_datagrams(found, 1));
}

Test(rails, fabrics_with_one_subnet_prefix_are_told_apart)
{
    add_ib("a:1", FAST, "10.2.0.1", 1);
    add_ib("b:1", FAST, "10.1.0.1", 2);
    cr_assert(are_used(false, 0, "2"));
    cr_assert(!vp_ports_need_datagrams(found, 1));
    count = 0;
    add_ib("a:1", FAST, NULL, 1);
    add_ib("b:1", FAST, NULL, 2);
    add_ib("b:2", FAST, NULL, 2);
    cr_assert(are_used(false, 0, "23"));
    cr_assert_str_eq(reason(1), "is in fe80::/64, and b:1 in fe80::/64 (fabric 2): if these reach "
                                "each other, UTOFU_VERBS_DEVICES can name both");
}

Test(rails, link_local_addresses_are_in_no_network_of_their_own)
{
    add_ib("a:1", FAST, "fe80::1", 1);
    add_ib("b:1", FAST, "fe80::2", 2);
    cr_assert(are_used(false, 0, "1"));
    count = 0;
    add_ib("a:1", FAST, "fe80::1", 1);
    add_ib("b:1", FAST, NULL, 1);
    cr_assert(are_used(false, 0, "12"));
    cr_assert_eq(asked, 2);
}

Test(rails, the_network_of_a_fabric_is_the_lowest_whatever_the_order)
{
    add_ib("a:1", FAST, "10.3.0.1", 1);
    add_ib("b:1", FAST, "10.4.0.1", 2);
    add_ib("a:2", FAST, "10.5.0.1", 1);
    add_ib("b:2", FAST, "10.2.0.1", 2);
    cr_assert(are_used(false, 0, "24"));
}

Test(rails, subnets_with_other_prefixes_are_not_asked)
{
    union ibv_gid other = {.raw = {0xfe, 0xc0}};

    add_ib("a:1", FAST, "10.2.0.1", 1);
    add_ib("b:1", FAST, "10.1.0.1", 1);
    vp_network_of_gid(&other, &found[1].subnet);
    cr_assert(are_used(false, 0, "2"));
    cr_assert_eq(asked, 0);
    count = 0;
    add_ib("a:1", FAST, "10.1.0.2", 1); /* one IP network is enough */
    add_ib("b:1", FAST, "10.1.0.1", 2);
    cr_assert(are_used(false, 0, "12"));
    cr_assert(!vp_ports_need_datagrams(found, 2));
    cr_assert_eq(asked, 0);
}

Test(rails, by_rdmacm_ip_networks_alone_count)
{
    add_ib("a:1", FAST, "10.2.0.1", 1);
    add_ib("b:1", FAST, "10.1.0.1", 1);
    vp_ports_group_fabrics(found, count, NULL);
    vp_ports_select(found, count, false);
    cr_assert_eq(vp_ports_sort(found, count, false, 0), 1);
    cr_assert_eq(found[0].port.num, 2);
}

Test(rails, no_ethernet_beside_infiniband)
{
    add("a:1", FAST, "10.1.0.1");
    add("b:1", FAST, "10.1.0.2");
    found[1].infiniband = true;
    cr_assert(are_used(false, 0, "2"));
    cr_assert_str_eq(reason(1),
                     "is Ethernet, and b:1 is InfiniBand: UTOFU_VERBS_DEVICES can name it");
    count = 0;
    add("a:1", FAST, "10.1.0.1"); /* much faster Ethernet wins */
    add("b:1", SLOW, "10.1.0.2");
    found[1].infiniband = true;
    cr_assert(are_used(false, 0, "1"));
}

Test(rails, of_two_ports_with_one_address_one_is_used)
{
    add("a:1", FAST, "10.1.0.1");
    add("b:1", FAST, "10.1.0.1");
    add("c:1", FAST, "10.1.0.2");
    strcpy(found[1].bond, "bond0 (802.3ad)");
    cr_assert(are_used(false, 0, "13"));
    cr_assert_str_eq(reason(2),
                     "has the address of a:1, 10.1.0.1, by bond0 (802.3ad): packets "
                     "arrive at either port, so only one of them is used; give each an address "
                     "of its own");
    cr_assert_str_eq(found[0].same_address_as, "b:1");
    cr_assert(are_used(true, 0, "13")); /* whatever the user has chosen */
}

Test(rails, of_two_ports_with_one_address_the_one_that_listens_by_ip_is_used)
{
    add("a:1", FAST, "10.1.0.1");
    add("b:1", FAST, "10.1.0.1");
    found[0].port.uses_datagrams = true;
    cr_assert(are_used(false, 0, "2"));
    cr_assert_str_eq(found[0].same_address_as, "a:1");
}

Test(rails, link_local_addresses_of_two_links_are_two)
{
    add("a:1", FAST, "fe80::1");
    add("b:1", FAST, "fe80::1");
    found[0].port.addr.in6.sin6_scope_id = 2;
    found[1].port.addr.in6.sin6_scope_id = 3;
    cr_assert(are_used(false, 0, "12"));
}

Test(rails, processes_of_a_host_begin_with_different_ports)
{
    for (unsigned int n = 0; n < 4; n++) {
        static const char *const expected[] = {"123", "231", "312", "123"};
        count = 0;
        add("a:1", FAST, "10.1.0.1");
        add("a:2", FAST, "10.1.0.2");
        add("a:3", FAST, "10.1.0.3");
        cr_assert(are_used(false, n, expected[n]), "process %u", n);
    }
    count = 0;
    add("a:1", FAST, "10.1.0.1");
    add("a:2", FAST, "10.1.0.2");
    cr_assert(are_used(true, 1, "12"));
}

Test(rails, near_ports_come_first)
{
    for (unsigned int n = 0; n < 2; n++) {
        count = 0;
        add("a:1", FAST, "10.1.0.1");
        add("a:2", FAST, "10.1.0.2");
        add("b:1", FAST, "10.1.0.3");
        add("b:2", FAST, "10.1.0.4");
        found[2].near = found[3].near = true;
        cr_assert(are_used(false, n, n == 0 ? "3412" : "4321"), "process %u", n);
    }
}

Test(rails, no_ports)
{
    cr_assert(are_used(false, 3, ""));
    cr_assert(are_used(true, 3, ""));
}

Test(rails, speed_is_that_of_all_lanes)
{
    const struct {
        uint8_t speed, width;
        unsigned int mbit;
    } known[] = {{1, 1, 2500},      {32, 2, 100000}, {64, 2, 200000}, {128, 2, 400000},
                 {128, 16, 200000}, {8, 4, 80000},   {16, 8, 168000}, {0, 2, 0},
                 {32, 0, 0},        {3, 1, 0}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        union vp_port_attr attr = {
            .attr = {.active_speed = known[i].speed, .active_width = known[i].width}};
        cr_assert_eq(vp_port_speed(&attr), known[i].mbit, "speed %u, width %u", known[i].speed,
                     known[i].width);
    }
}

static int query_xdr(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                     size_t size)
{
    const uint32_t xdr = 256;

    (void)context;
    cr_assert_eq(port, 2);
    attr->active_width = 2;
    attr->active_speed = 128;
    if (size >= 56)
        memcpy((uint8_t *)attr + 52, &xdr, sizeof(xdr)); /* as rdma-core 50 lays it out */
    return 0;
}

Test(rails, speed_beyond_ndr_is_known)
{
    struct verbs_context device = {.sz = sizeof(device), .query_port = query_xdr};
    union vp_port_attr attr;

    device.context.abi_compat = (void *)UINTPTR_MAX;
    cr_assert_eq(vp_query_port(&device.context, 2, &attr), 0);
    cr_assert_eq(vp_port_speed(&attr), 800000);
}

Test(rails, near_is_a_device_that_all_cpus_are_near_to)
{
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(3, &cpus);
    CPU_SET(9, &cpus);
    cr_assert(vp_cpus_are_in("0-3,8-11\n", &cpus));
    cr_assert(vp_cpus_are_in("3,9", &cpus));
    cr_assert(!vp_cpus_are_in("0-3", &cpus));
    cr_assert(!vp_cpus_are_in("4-9", &cpus));
    cr_assert(!vp_cpus_are_in("", &cpus));
    cr_assert(vp_cpus_are_in("0-99999", &cpus));
}

static struct vp_device devices[MAX_PORTS];

/* A port of a device of its own, which is part of this PCI function. */
static void add_function(const char *name, const char *addr, const char *function)
{
    add(name, FAST, addr);
    struct vp_usable_port *f = &found[count - 1];
    f->port.dev = &devices[count - 1];
    f->port.num = 1;
    strcpy(f->pci_function, function);
}

/* How many of the ports behind each one take parts of its long writes. */
static bool are_further(const char *numbers)
{
    struct vp_port ports[MAX_PORTS];

    vp_ports_find_links(found, count);
    for (unsigned int i = 0; i < count; i++)
        ports[i] = found[i].port;
    for (unsigned int i = 0; i < count; i++)
        if (vp_rails_count_further(ports, count, i) != (unsigned int)(numbers[i] - '0'))
            return false;
    return true;
}

Test(rails, ports_of_two_devices_take_parts_of_each_others_puts)
{
    add_function("a:1", "10.1.0.1", "0000:03:00.0");
    cr_assert(are_further("0"));
    add_function("b:1", "10.1.0.2", "0000:03:00.1");
    cr_assert(are_further("11"));
}

Test(rails, functions_of_one_physical_port_take_no_parts_of_each_others_puts)
{
    add_function("a:1", "10.1.0.1", "0000:03:00.0");
    add_function("b:1", "10.1.0.2", "0000:03:00.0");
    cr_assert(are_further("00"));
    add_function("c:1", "10.1.0.3", "0000:03:00.1");
    cr_assert(are_further("011")); /* b: c has a link of its own; c: a has one */
}

/* The same, of an adapter that may be in two slots. */
static void add_socket(const char *name, const char *addr, const char *function,
                       uint64_t adapter_id)
{
    add_function(name, addr, function);
    found[count - 1].adapter_id = adapter_id;
    found[count - 1].connector = (int8_t)vp_adapter_connector(name, 1, function);
}

Test(rails, devices_with_one_socket_of_an_adapter_take_no_parts_of_each_others_puts)
{
    add_socket("a:1", "10.1.0.1", "0000:03:00.0", 7);
    add_socket("b:1", "10.1.0.2", "0000:81:00.0", 7);
    cr_assert(are_further("00"));
    add_socket("c:1", "10.1.0.3", "0000:81:00.1", 7);
    cr_assert(are_further("011"));
}

Test(rails, devices_of_other_adapters_or_unknown_ones_have_links_of_their_own)
{
    add_socket("a:1", "10.1.0.1", "0000:03:00.0", 7);
    add_socket("b:1", "10.1.0.2", "0000:81:00.0", 8);
    cr_assert(are_further("11"));
    found[0].adapter_id = found[1].adapter_id = 0;
    cr_assert(are_further("11"));
    found[0].adapter_id = found[1].adapter_id = 7;
    found[0].connector = found[1].connector = -1;
    cr_assert(are_further("11"));
}

Test(rails, only_an_mlx5_adapter_has_a_number_of_its_own)
{
    struct ibv_device_attr attr = {.vendor_id = 0x2c9, .sys_image_guid = 7};

    cr_assert_eq(vp_adapter_id(&attr), 7);
    attr.vendor_id = 0x1175; /* hfi1: the number is that of all adapters of the host */
    cr_assert_eq(vp_adapter_id(&attr), 0);
}

Test(rails, socket_is_unknown_without_a_pci_function)
{
    cr_assert_eq(vp_adapter_connector("none", 1, ""), -1);
    cr_assert_eq(vp_adapter_connector("none", 1, "0000:81:00.x"), -1);
    cr_assert_eq(vp_adapter_connector("none", 1, "0000:81:00.3"), 3);
}

Test(rails, ports_of_unknown_functions_have_links_of_their_own)
{
    add_function("a:1", "10.1.0.1", "");
    add_function("b:1", "10.1.0.2", "");
    cr_assert(are_further("11"));
}

Test(rails, two_ports_of_one_device_have_links_of_their_own_unless_they_are_bonded)
{
    for (unsigned int i = 0; i < 2; i++) {
        add_function("a:1", i ? "10.1.0.2" : "10.1.0.1", "0000:03:00.0");
        found[i].port.dev = &devices[0];
        found[i].port.num = (uint8_t)(i + 1);
    }
    cr_assert(are_further("11"));
    strcpy(found[0].bond, "bond0 (802.3ad)");
    strcpy(found[1].bond, "bond0 (802.3ad)");
    cr_assert(are_further("00"));
}

Test(rails, each_link_of_a_bond_takes_parts_where_one_device_has_all_of_them)
{
    add_function("a:1", "10.1.0.1", "0000:03:00.0");
    strcpy(found[0].bond, "bond0 (802.3ad)");
    found[0].paths = 2;
    cr_assert(are_further("1"));
    found[0].paths = 8;
    cr_assert(are_further("3"));
    strcpy(found[0].same_address_as, "b:1"); /* what another device has of it is not used */
    cr_assert(are_further("0"));
}
