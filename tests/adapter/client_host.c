/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host says of the adapter beside libibverbs: its network interfaces (IPoIB), and files
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

enum { PER_PORT = 2 };

/* An interface with its address, and the same with its kind of link, as the kernel lists them. */
struct interfaces {
    struct ifaddrs list[AD_MAX_PORTS * PER_PORT];
    char names[AD_MAX_PORTS][IFNAMSIZ];
    struct sockaddr_in addr[AD_MAX_PORTS], mask;
    struct sockaddr_ll link;
};

static struct interfaces *ours; /* as handed out last; kept, as who has it may look at it later */

static void add_interface(struct interfaces *all, unsigned int *count, unsigned int port,
                          uint32_t address)
{
    snprintf(all->names[port], IFNAMSIZ, "ib%u", port);
    all->addr[port] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = address};
    for (int i = 0; i < PER_PORT; i++) {
        struct ifaddrs *a = &all->list[*count];
        *a = (struct ifaddrs){.ifa_name = all->names[port],
                              .ifa_flags = IFF_UP | IFF_RUNNING,
                              .ifa_addr = i ? (struct sockaddr *)&all->link
                                            : (struct sockaddr *)&all->addr[port],
                              .ifa_netmask = i ? NULL : (struct sockaddr *)&all->mask};
        if (*count)
            all->list[*count - 1].ifa_next = a;
        ++*count;
    }
}

/* False: the adapter has no IPoIB, or there is none. */
static bool list_ipoib(struct ifaddrs **out)
{
    struct ad_msg msg = {.op = AD_QUERY};
    unsigned int count = 0;

    if (!cl_connect() || cl_call(&msg, NULL))
        return false;
    struct interfaces *all = calloc(1, sizeof(*all));
    if (!all)
        return false;
    all->mask = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(~0xffu)};
    all->link = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_hatype = ARPHRD_INFINIBAND};
    for (unsigned int p = 0; p < msg.device.attr.phys_port_cnt; p++)
        if (msg.device.ports[p].ipoib)
            add_interface(all, &count, p, msg.device.ports[p].ipoib);
    *out = all->list;
    if (!count)
        free(all);
    return count;
}

EXPORT int getifaddrs(struct ifaddrs **out)
{
    int (*real)(struct ifaddrs **);

    if (list_ipoib(out)) {
        ours = (struct interfaces *)*out;
        return 0;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "getifaddrs");
    return real(out);
}

EXPORT void freeifaddrs(struct ifaddrs *list)
{
    void (*real)(struct ifaddrs *);

    if (ours && list == ours->list) {
        ours = NULL;
        free(list);
        return;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "freeifaddrs");
    real(list);
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
