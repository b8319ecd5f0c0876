/* SPDX-License-Identifier: Apache-2.0 */
/* The used ports of a host, and their order. The test provides the addresses of the host. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <string.h>

#include "../../provider/verbs/ports/rails.h"

enum { SLOW = 25000, FAST = 100000, MAX_PORTS = 8 };

static struct ifaddrs interface;
static union vp_sockaddr interface_addr, interface_mask;
static struct vp_found found[MAX_PORTS];
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
    struct vp_found *f = &found[count++];
    union vp_sockaddr a = address(addr);

    memset(f, 0, sizeof(*f));
    strcpy(f->name, name);
    f->port.num = (uint8_t)count;
    f->port.speed = speed;
    vp_network_of(&a, &f->port.network);
}

/* Are the used ports those with these numbers, in this order? */
static bool are_used(bool chosen, unsigned int local_rank, const char *numbers)
{
    vp_rails_choose(found, count, chosen);
    unsigned int n = vp_rails_sort(found, count, chosen, local_rank);

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
    count = 0;
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
    add("c:1", FAST / 2, "10.1.0.3"); /* half the speed is enough */
    add("d:1", 0, "10.1.0.4");        /* unknown speed */
    cr_assert(are_used(false, 0, "234"));
    cr_assert_str_eq(reason(1),
                     "has 25000 Mbit/s, and b:1 has 100000: UTOFU_VERBS_DEVICES can name it");
    cr_assert(are_used(true, 0, "2341"));
    cr_assert_str_empty(reason(1));
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
        struct ibv_port_attr attr = {.active_speed = known[i].speed,
                                     .active_width = known[i].width};
        cr_assert_eq(vp_port_speed(&attr), known[i].mbit, "speed %u, width %u", known[i].speed,
                     known[i].width);
    }
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
