/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network interfaces of RoCE ports: see netdev.h.
 *
 * Network namespaces may share an adapter (`rdma system set netns shared`, the default). Its GID
 * table then has the addresses of all namespaces: Linux 6.1,
 * drivers/infiniband/core/roce_gid_mgmt.c, enum_all_gids_of_dev_cb(). The interface number in an
 * entry is valid in the entry's own namespace (cache.c, rdma_query_gid_table()); another interface
 * may have the same number here. So the addresses are compared. rdma_cm rejects addresses of other
 * namespaces (cma.c, cma_validate_port()). A queue pair could use one (addr.c,
 * set_addr_netns_by_gid_rcu()), and would then act as another container or as the host.
 */
#include "netdev.h"

#include <net/if.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "util/fd.h"

enum { MAC = 6 };

struct ifaddrs *vp_netdev_addresses(void)
{
    struct ifaddrs *all = NULL;

    return getifaddrs(&all) ? NULL : all;
}

/* True for the GID that a port has by its hardware address: modified EUI-64 with fe80::/64. */
static bool is_eui64_of(const struct in6_addr *addr, const uint8_t mac[MAC])
{
    const uint8_t eui[16] = {0xfe, 0x80, [8] = mac[0] ^ 2, mac[1], mac[2],
                             0xff, 0xfe, mac[3],           mac[4], mac[5]};

    return memcmp(addr, eui, sizeof(eui)) == 0;
}

static bool is_address_of(const struct sockaddr *value, const union vp_sockaddr *addr)
{
    const struct sockaddr_ll *link = (const struct sockaddr_ll *)(const void *)value;

    if (value->sa_family == AF_PACKET)
        return addr->sa.sa_family == AF_INET6 && link->sll_halen == MAC &&
               is_eui64_of(&addr->in6.sin6_addr, link->sll_addr);
    return vp_same_ip((const union vp_sockaddr *)(const void *)value, addr);
}

bool vp_netdev_has(const struct ifaddrs *addresses, const union vp_sockaddr *addr)
{
    for (const struct ifaddrs *a = addresses; a; a = a->ifa_next)
        if (a->ifa_addr && is_address_of(a->ifa_addr, addr))
            return true;
    return !addresses;
}

bool vp_netdev_bond(unsigned int ifindex, char *text, size_t size)
{
    char name[IF_NAMESIZE], path[128], mode[32] = "";

    text[0] = '\0';
    if (!ifindex || !if_indextoname(ifindex, name))
        return false;
    snprintf(path, sizeof(path), "/sys/class/net/%s/bonding/mode", name);
    FILE *file = ut_fd_open_file(path);
    if (!file)
        return false;
    bool got = fscanf(file, "%31s", mode) == 1; /* the number of the mode follows */
    fclose(file);
    snprintf(text, size, "%s%s%s%s", name, got ? " (" : "", mode, got ? ")" : "");
    return true;
}

/* As UCX (August 2026: src/ucs/sys/sock.c, ucs_netif_bond_ad_num_ports()): bonds with 802.3ad
 * report the number of ports of the active aggregator. */
uint8_t vp_netdev_paths(unsigned int ifindex)
{
    char name[IF_NAMESIZE], path[128];
    unsigned int ports = 1;

    if (!ifindex || !if_indextoname(ifindex, name))
        return 1;
    snprintf(path, sizeof(path), "/sys/class/net/%s/bonding/ad_num_ports", name);
    FILE *file = ut_fd_open_file(path);
    if (file && (fscanf(file, "%u", &ports) != 1 || ports == 0 || ports > UINT8_MAX))
        ports = 1;
    if (file)
        fclose(file);
    return (uint8_t)ports;
}
