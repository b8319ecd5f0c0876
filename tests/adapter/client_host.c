/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host says of the adapter beside libibverbs: its network interfaces, and files
 * below /sys, which are those of the folder that UT_ADAPTER_SYS names. The kernel is that of Linux
 * 6.1, as the device is its rdma_rxe unless a profile says otherwise.
 */
#include "client.h"

#include <dlfcn.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum { PER_PORT = AD_MAX_GIDS + 2, V4_PREFIX = 24, V6_PREFIX = 64 };

/* An address with its mask, or a kind of link. */
struct value {
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_ll ll;
    } addr, mask;
};

/* The interfaces of the adapter, as the kernel lists them: each with its kind of link. */
struct interfaces {
    struct ifaddrs list[AD_MAX_PORTS * PER_PORT];
    struct value values[AD_MAX_PORTS * PER_PORT];
    char names[AD_MAX_PORTS][IFNAMSIZ];
    unsigned int count;
    bool hides_host;
    struct ifaddrs *rest; /* of the host itself; NULL: none */
};

static struct interfaces *ours; /* as handed out last; kept, as who has it may look at it later */

static struct value *add_entry(struct interfaces *all, unsigned int port)
{
    struct ifaddrs *a = &all->list[all->count];
    struct value *value = &all->values[all->count];

    *a = (struct ifaddrs){.ifa_name = all->names[port],
                          .ifa_flags = IFF_UP | IFF_RUNNING,
                          .ifa_addr = &value->addr.sa};
    if (all->count)
        all->list[all->count - 1].ifa_next = a;
    all->count++;
    return value;
}

static void add_link(struct interfaces *all, unsigned int port, unsigned short hardware)
{
    add_entry(all, port)->addr.ll =
        (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_hatype = hardware};
}

static void add_v4(struct interfaces *all, unsigned int port, uint32_t address)
{
    struct value *value = add_entry(all, port);

    value->addr.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = address};
    value->mask.in = (struct sockaddr_in){.sin_family = AF_INET,
                                          .sin_addr.s_addr = htonl(UINT32_MAX << (32 - V4_PREFIX))};
    all->list[all->count - 1].ifa_netmask = &value->mask.sa;
}

static void add_v6(struct interfaces *all, unsigned int port, const uint8_t raw[16])
{
    struct value *value = add_entry(all, port);

    value->addr.in6.sin6_family = value->mask.in6.sin6_family = AF_INET6;
    memcpy(&value->addr.in6.sin6_addr, raw, 16);
    memset(&value->mask.in6.sin6_addr, 0xff, V6_PREFIX / 8);
    all->list[all->count - 1].ifa_netmask = &value->mask.sa;
}

/* RoCE: the addresses of the table of GIDs that are of interfaces of this network namespace. */
static void add_addresses(struct interfaces *all, unsigned int p, const struct ad_port *port)
{
    for (uint32_t i = 0; i < port->num_gids; i++) {
        const uint8_t *raw = port->gids[i].gid.raw;
        uint32_t v4;
        memcpy(&v4, raw + 12, sizeof(v4));
        if (port->gids[i].gid_type == IBV_GID_TYPE_IB || port->elsewhere & 1u << i)
            continue;
        if (raw[0] == 0 && raw[10] == 0xff)
            add_v4(all, p, v4);
        else
            add_v6(all, p, raw);
    }
}

/* False: there is no adapter, or it has no interfaces. */
static bool list_interfaces(struct interfaces **out)
{
    struct ad_msg msg = {.op = AD_QUERY};
    bool ipoib = false;

    if (!cl_connect() || cl_call(&msg, NULL))
        return false;
    struct interfaces *all = calloc(1, sizeof(*all));
    if (!all)
        return false;
    for (unsigned int p = 0; p < msg.device.attr.phys_port_cnt; p++) {
        const struct ad_port *port = &msg.device.ports[p];
        snprintf(all->names[p], IFNAMSIZ, "%s", port->netdev);
        if (port->ipoib)
            add_v4(all, p, port->ipoib);
        else
            add_addresses(all, p, port);
        if (port->netdev[0])
            add_link(all, p, port->ipoib ? ARPHRD_INFINIBAND : ARPHRD_ETHER);
        ipoib |= port->ipoib != 0;
    }
    if (!all->count) {
        free(all);
        return false;
    }
    all->hides_host = ipoib;
    *out = all;
    return true;
}

/* Is this address in a library other than ours? UCX and libfabric bind sockets to the addresses
 * that they are told, and no socket can have those of the adapter. */
static bool is_of_others(const void *code)
{
    Dl_info info;
    const char *name;

    if (!dladdr(code, &info) || !info.dli_fname)
        return false;
    name = strrchr(info.dli_fname, '/');
    name = name ? name + 1 : info.dli_fname;
    return strncmp(name, "lib", 3) == 0 && strncmp(name, "libtofucom", 10) != 0;
}

EXPORT int getifaddrs(struct ifaddrs **out)
{
    int (*real)(struct ifaddrs **);
    struct interfaces *all;

    *(void **)&real = dlsym(RTLD_NEXT, "getifaddrs");
    if (is_of_others(__builtin_return_address(0)) || !list_interfaces(&all))
        return real(out);
    if (!all->hides_host && real(&all->rest))
        all->rest = NULL;
    all->list[all->count - 1].ifa_next = all->rest;
    ours = all;
    *out = all->list;
    return 0;
}

EXPORT void freeifaddrs(struct ifaddrs *list)
{
    void (*real)(struct ifaddrs *);

    *(void **)&real = dlsym(RTLD_NEXT, "freeifaddrs");
    if (!ours || list != ours->list) {
        real(list);
        return;
    }
    if (ours->rest)
        real(ours->rest);
    free(ours);
    ours = NULL;
}

EXPORT char *if_indextoname(unsigned int index, char name[IF_NAMESIZE])
{
    char *(*real)(unsigned int, char *);
    struct ad_msg msg = {.op = AD_QUERY};

    *(void **)&real = dlsym(RTLD_NEXT, "if_indextoname");
    if (index < AD_FIRST_IFINDEX || index >= AD_FIRST_IFINDEX + AD_MAX_PORTS || !cl_connect() ||
        cl_call(&msg, NULL))
        return real(index, name);
    snprintf(name, IFNAMSIZ, "%s", msg.device.ports[index - AD_FIRST_IFINDEX].netdev);
    return name;
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *);
    const char *folder = getenv("UT_ADAPTER_SYS");
    char ours_of[PATH_MAX];

    *(void **)&real = dlsym(RTLD_NEXT, "fopen");
    if (!folder || strncmp(path, "/sys/", 5) != 0)
        return real(path, mode);
    snprintf(ours_of, sizeof(ours_of), "%s%s", folder, path);
    return real(ours_of, mode);
}

EXPORT int uname(struct utsname *host)
{
    int (*real)(struct utsname *) = (int (*)(struct utsname *))dlsym(RTLD_NEXT, "uname");
    int rc = real(host);

    snprintf(host->release, sizeof(host->release), "6.1.0");
    return rc;
}
