/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a port's addresses. The test provides the table of GIDs and the addresses of the
 * host, by replacing the functions that the provider calls.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../provider/verbs/ports/address.h"
#include "../../provider/verbs/ports/candidate.h"
#include "util/env.h"

enum { PORT = 1, MANY = 100, MAX_ADDRESSES = 128 };

static struct ibv_gid_entry gids[MANY + 8];
static size_t num_gids;
static struct ifaddrs addresses[MAX_ADDRESSES];
static union {
    struct sockaddr sa;
    struct sockaddr_ll ll;
    union vp_sockaddr ip;
} values[MAX_ADDRESSES];
static size_t num_addresses;
static unsigned int elsewhere; /* as the last vp_candidates() said */
static int num_lists;          /* of addresses, which were not freed */

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size)
{
    size_t n = num_gids < max_entries ? num_gids : max_entries;

    (void)context, (void)flags;
    cr_assert_eq(entry_size, sizeof(gids[0]));
    memcpy(entries, gids, n * entry_size);
    return (ssize_t)n;
}

int getifaddrs(struct ifaddrs **all)
{
    for (size_t i = 0; i < num_addresses; i++)
        addresses[i].ifa_next = i + 1 < num_addresses ? &addresses[i + 1] : NULL;
    *all = num_addresses ? addresses : NULL;
    num_lists += *all != NULL;
    return 0;
}

void freeifaddrs(struct ifaddrs *all)
{
    cr_assert_eq(all, num_addresses ? addresses : NULL);
    num_lists -= all != NULL;
}

static void read_address(const char *text, union vp_sockaddr *addr)
{
    memset(addr, 0, sizeof(*addr));
    addr->sa.sa_family = strchr(text, ':') ? AF_INET6 : AF_INET;
    cr_assert_eq(inet_pton(addr->sa.sa_family, text,
                           addr->sa.sa_family == AF_INET ? (void *)&addr->in.sin_addr
                                                         : (void *)&addr->in6.sin6_addr),
                 1, "%s", text);
}

static void add_gid(const char *text, uint32_t type, uint32_t port)
{
    struct ibv_gid_entry *gid = &gids[num_gids];
    union vp_sockaddr addr;

    read_address(text, &addr);
    memset(gid, 0, sizeof(*gid));
    gid->gid_index = (uint32_t)num_gids++;
    gid->gid_type = type;
    gid->port_num = port;
    if (addr.sa.sa_family == AF_INET6) {
        memcpy(gid->gid.raw, &addr.in6.sin6_addr, 16);
        return;
    }
    gid->gid.raw[10] = gid->gid.raw[11] = 0xff;
    memcpy(gid->gid.raw + 12, &addr.in.sin_addr, 4);
}

static void add_address(const char *interface, const char *text, unsigned int flags)
{
    size_t i = num_addresses++;

    cr_assert_lt(i, MAX_ADDRESSES);
    addresses[i] = (struct ifaddrs){
        .ifa_name = (char *)(uintptr_t)interface, .ifa_flags = flags, .ifa_addr = &values[i].sa};
    read_address(text, &values[i].ip);
}

static void add_interface(const char *interface, unsigned short hardware)
{
    size_t i = num_addresses++;

    values[i].ll = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_hatype = hardware};
    addresses[i] = (struct ifaddrs){
        .ifa_name = (char *)(uintptr_t)interface, .ifa_flags = IFF_UP, .ifa_addr = &values[i].sa};
}

/* Are the first candidates these? `texts` ends with NULL. Returns how many there are. */
static int expect(bool roce, const char *const *texts)
{
    static const struct vp_device device;
    struct vp_candidate found[VP_MAX_CANDIDATES];
    int count = vp_candidates(&device, PORT, roce, found, &elsewhere), i = 0;
    char text[INET6_ADDRSTRLEN];

    cr_assert_eq(num_lists, 0, "addresses are freed");
    for (; texts[i]; i++) {
        cr_assert_lt(i, count, "there are %d only", count);
        cr_assert_str_eq(vp_addr_text(&found[i].addr, text, sizeof(text)), texts[i], "number %d",
                         i);
    }
    return count;
}

static void set(const char *name, const char *value)
{
    setenv(name, value, 1); /* each test is a process of its own */
    cr_assert_eq(ut_env_load(), 0);
}

static void many_gids(void)
{
    char text[INET6_ADDRSTRLEN];

    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof(text), "fe80::%x", i + 1);
        add_gid(text, IBV_GID_TYPE_ROCE_V2, PORT);
    }
    add_gid("10.9.9.9", IBV_GID_TYPE_ROCE_V2, PORT + 1);
    add_gid("10.1.1.1", IBV_GID_TYPE_ROCE_V1, PORT);
    add_gid("169.254.1.1", IBV_GID_TYPE_ROCE_V2, PORT);
    add_gid("fd00:1::1", IBV_GID_TYPE_ROCE_V2, PORT);
    add_gid("10.1.1.1", IBV_GID_TYPE_ROCE_V2, PORT);
    add_gid("192.168.7.1", IBV_GID_TYPE_ROCE_V2, PORT);
}

Test(candidate, best_gid_comes_first_although_it_is_behind_a_hundred)
{
    many_gids();
    cr_assert_eq(ut_env_load(), 0);
    int count = expect(true, (const char *[]){"10.1.1.1", "192.168.7.1", "fd00:1::1", "169.254.1.1",
                                              "fe80::1", "fe80::2", NULL});
    cr_assert_eq(count, VP_MAX_CANDIDATES);
}

Test(candidate, subnets_choose_and_order)
{
    many_gids();
    set("UTOFU_VERBS_SUBNETS", "172.16.0.0/12,fd00:1::/64, 192.168.0.0/21");
    cr_assert(vp_subnets_are_valid());
    cr_assert_eq(expect(true, (const char *[]){"fd00:1::1", "192.168.7.1", NULL}), 2);
}

Test(candidate, subnet_next_to_an_address_does_not_choose_it)
{
    many_gids();
    set("UTOFU_VERBS_SUBNETS", "192.168.8.0/21,10.1.1.0/32,fd00:2::/64,10.1.1.1/32");
    cr_assert(vp_subnets_are_valid());
    cr_assert_eq(expect(true, (const char *[]){"10.1.1.1", "10.1.1.1", NULL}), 2);
}

Test(candidate, gid_index_chooses_within_the_subnets)
{
    many_gids();
    setenv("UTOFU_VERBS_CONNECT", "gid_index=104", 1);
    set("UTOFU_VERBS_SUBNETS", "10.0.0.0/8");
    cr_assert_eq(expect(true, (const char *[]){"10.1.1.1", NULL}), 1);
}

/* As with an adapter that containers share. */
static void shared_table(void)
{
    static const uint8_t mac[6] = {0x02, 0x42, 0xac, 0x11, 0x00, 0x05};

    add_gid("fe80::1234", IBV_GID_TYPE_ROCE_V2, PORT);
    add_gid("fe80::42:acff:fe11:5", IBV_GID_TYPE_ROCE_V2, PORT); /* of the hardware address */
    add_gid("10.76.0.9", IBV_GID_TYPE_ROCE_V2, PORT);
    add_gid("10.77.0.1", IBV_GID_TYPE_ROCE_V2, PORT);
    add_gid("10.76.0.10", IBV_GID_TYPE_ROCE_V2, PORT + 1);
    add_interface("eth0", ARPHRD_ETHER);
    values[num_addresses - 1].ll.sll_halen = sizeof(mac);
    memcpy(values[num_addresses - 1].ll.sll_addr, mac, sizeof(mac));
    add_address("eth0", "10.77.0.1", IFF_UP);
}

Test(candidate, addresses_of_other_network_namespaces_are_left_out)
{
    shared_table();
    cr_assert_eq(ut_env_load(), 0);
    cr_assert_eq(expect(true, (const char *[]){"10.77.0.1", "fe80::42:acff:fe11:5", NULL}), 2);
    cr_assert_eq(elsewhere, 2);
}

Test(candidate, address_of_another_network_namespace_is_taken_by_its_index)
{
    shared_table();
    set("UTOFU_VERBS_CONNECT", "gid_index=2");
    cr_assert_eq(expect(true, (const char *[]){"10.76.0.9", NULL}), 1);
    cr_assert_eq(elsewhere, 0);
}

Test(candidate, no_address_in_any_subnet)
{
    many_gids();
    set("UTOFU_VERBS_SUBNETS", "10.2.0.0/16");
    cr_assert_eq(expect(true, (const char *[]){NULL}), 0);
}

Test(candidate, addresses_of_infiniband_come_first)
{
    char text[INET6_ADDRSTRLEN];

    add_interface("lo", ARPHRD_LOOPBACK);
    add_interface("eth0", ARPHRD_ETHER);
    add_interface("ib0", ARPHRD_INFINIBAND);
    add_interface("ib1", ARPHRD_INFINIBAND);
    add_address("lo", "127.0.0.1", IFF_UP | IFF_LOOPBACK);
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof(text), "10.0.0.%d", i + 1);
        add_address("eth0", text, IFF_UP);
    }
    add_address("ib1", "10.1.0.2", 0);
    add_address("ib0", "fe80::5", IFF_UP);
    add_address("ib0", "10.1.0.1", IFF_UP);
    cr_assert_eq(ut_env_load(), 0);
    cr_assert_eq(expect(false, (const char *[]){"10.1.0.1", "fe80::5", "10.0.0.1", NULL}),
                 VP_MAX_CANDIDATES);
}

#define REFUSED(name, list)                                                                        \
    Test(candidate, no_subnet_##name)                                                              \
    {                                                                                              \
        set("UTOFU_VERBS_SUBNETS", list);                                                          \
        cr_assert_not(vp_subnets_are_valid());                                                     \
    }

REFUSED(prefix_too_long, "10.0.0.0/33")
REFUSED(prefix_too_long_of_ipv6, "fd00::/129")
REFUSED(three_numbers, "10.0.0/8")
REFUSED(no_prefix_behind_the_slash, "10.0.0.0/")
REFUSED(negative_prefix, "10.0.0.0/-1")
REFUSED(signed_prefix, "10.0.0.0/+8")
REFUSED(letters_behind_the_prefix, "10.0.0.0/8x")
REFUSED(two_prefixes, "10.0.0.0/8/8")
REFUSED(no_address, "/8")
REFUSED(interface, "10.0.0.0/8,ib0")

Test(candidate, all_and_one)
{
    set("UTOFU_VERBS_SUBNETS", "0.0.0.0/0,::/0,10.1.2.3,fd00::1");
    cr_assert(vp_subnets_are_valid());
}
