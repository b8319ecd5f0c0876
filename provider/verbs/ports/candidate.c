/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidate addresses of ports: see candidate.h. All are ranked before the best are selected: a
 * host with containers or VLANs may have hundreds of them, with the job's network among the last.
 */
#include "candidate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "netdev.h"
#include "util/env.h"
#include "util/log.h"

enum { NO_SUBNET = UINT_MAX, IPOIB_BONUS = 8 };

struct list {
    struct vp_candidate *at;
    size_t count, room;
};

struct subnet {
    int family;
    unsigned int prefix; /* bits */
    uint8_t address[16];
};

/*** subnets ***/

/* Parses ADDRESS/PREFIX; without a prefix, a single address. */
static bool parse_subnet(char *text, struct subnet *out)
{
    char *slash = strchr(text, '/'), *end;

    memset(out, 0, sizeof(*out));
    if (slash)
        *slash = '\0';
    out->family = strchr(text, ':') ? AF_INET6 : AF_INET;
    out->prefix = out->family == AF_INET ? 32 : 128;
    bool valid = inet_pton(out->family, text, out->address) == 1;
    if (!slash)
        return valid;
    *slash = '/';
    unsigned long prefix = strtoul(slash + 1, &end, 10);
    valid = valid && slash[1] >= '0' && slash[1] <= '9' && !*end && prefix <= out->prefix;
    out->prefix = (unsigned int)prefix;
    return valid;
}

bool vp_subnets_are_valid(void)
{
    const char *list = ut_env_str(UT_ENV_VERBS_SUBNETS);
    char name[UT_ENV_ITEM_SIZE];
    struct subnet subnet;

    while (ut_env_next_item(&list, name, sizeof(name))) {
        if (parse_subnet(name, &subnet))
            continue;
        ut_error(VP_CAT,
                 "UTOFU_VERBS_SUBNETS: '%s' is not a subnet: use ADDRESS/PREFIX, as in 10.1.0.0/16 "
                 "or fd00:1::/64, or an address",
                 name);
        return false;
    }
    return true;
}

static bool has_same_prefix(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
    unsigned int bytes = bits / 8;
    uint8_t mask = (uint8_t) ~(0xffu >> bits % 8);

    return memcmp(a, b, bytes) == 0 && (bits % 8 == 0 || ((a[bytes] ^ b[bytes]) & mask) == 0);
}

static bool is_in_subnet(const union vp_sockaddr *addr, const struct subnet *subnet)
{
    const uint8_t *raw = addr->sa.sa_family == AF_INET ? (const uint8_t *)&addr->in.sin_addr
                                                       : (const uint8_t *)&addr->in6.sin6_addr;

    return addr->sa.sa_family == subnet->family &&
           has_same_prefix(raw, subnet->address, subnet->prefix);
}

static unsigned int find_subnet(const union vp_sockaddr *addr)
{
    const char *list = ut_env_str(UT_ENV_VERBS_SUBNETS);
    char name[UT_ENV_ITEM_SIZE];
    struct subnet subnet;
    unsigned int n = 0;

    while (ut_env_next_item(&list, name, sizeof(name))) {
        if (parse_subnet(name, &subnet) && is_in_subnet(addr, &subnet))
            return n;
        n++;
    }
    return n ? NO_SUBNET : 0;
}

/*** the list ***/

static void add_candidate(struct list *list, struct vp_candidate *c)
{
    c->subnet = find_subnet(&c->addr);
    if (c->subnet == NO_SUBNET)
        return;
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : VP_MAX_CANDIDATES;
        struct vp_candidate *more = realloc(list->at, room * sizeof(*more));
        if (!more)
            return;
        list->at = more;
        list->room = room;
    }
    list->at[list->count++] = *c;
}

static int compare_rank(const void *a, const void *b)
{
    const struct vp_candidate *x = a, *y = b;

    if (x->subnet != y->subnet)
        return x->subnet < y->subnet ? -1 : 1;
    if (x->rank != y->rank)
        return y->rank - x->rank;
    return x->gid_index - y->gid_index;
}

/* Copies the best candidates to `out`. */
static int copy_best(struct list *list, struct vp_candidate *out)
{
    size_t count = list->count < VP_MAX_CANDIDATES ? list->count : VP_MAX_CANDIDATES;

    if (count) {
        qsort(list->at, list->count, sizeof(*list->at), compare_rank);
        memcpy(out, list->at, count * sizeof(*out));
    }
    free(list->at);
    return (int)count;
}

/*** RoCE: the table of GIDs ***/

bool vp_wants_gid(void)
{
    return ut_env_is_set(UT_ENV_VERBS_GID_INDEX) && ut_env_num(UT_ENV_VERBS_GID_INDEX) != 65535;
}

void vp_gid_candidate(const struct ibv_gid_entry *entry, struct vp_candidate *out)
{
    const uint8_t *raw = entry->gid.raw;
    static const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};

    memset(out, 0, sizeof(*out));
    out->gid_index = (int)entry->gid_index;
    if (memcmp(raw, v4_mapped, sizeof(v4_mapped)) == 0) {
        out->addr.in.sin_family = AF_INET;
        memcpy(&out->addr.in.sin_addr, raw + 12, 4);
        out->rank = raw[12] == 169 && raw[13] == 254 ? 2 : 4;
    } else {
        out->addr.in6.sin6_family = AF_INET6;
        memcpy(&out->addr.in6.sin6_addr, raw, 16);
        out->rank = 3;
        if (raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80) {
            out->addr.in6.sin6_scope_id = entry->ndev_ifindex;
            out->rank = 1;
        }
    }
    if (entry->gid_type == IBV_GID_TYPE_ROCE_V1)
        out->rank -= 4; /* used only if RoCE v2 is missing */
}

bool vp_has_its_address(const struct vp_port *port)
{
    struct ibv_gid_entry *table = calloc(VP_MAX_GIDS, sizeof(*table));
    ssize_t n = table ? ibv_query_gid_table(port->dev->context, table, VP_MAX_GIDS, 0) : -1;
    bool found = n < 0; /* unknown without the table */
    struct vp_candidate c;

    for (ssize_t i = 0; i < n && !found; i++) {
        vp_gid_candidate(&table[i], &c);
        found = table[i].port_num == port->num && vp_same_ip(&c.addr, &port->addr);
    }
    free(table);
    return found;
}

/* Returns the number of addresses in other network namespaces: only their GID index selects
 * those. */
static unsigned int add_gids(const struct vp_device *dev, unsigned int port, struct list *list)
{
    struct ibv_gid_entry *table = calloc(VP_MAX_GIDS, sizeof(*table));
    uint64_t wanted = ut_env_num(UT_ENV_VERBS_GID_INDEX);
    unsigned int other_namespaces = 0;
    struct vp_candidate c;

    if (!table)
        return 0;
    ssize_t n = ibv_query_gid_table(dev->context, table, VP_MAX_GIDS, 0);
    struct ifaddrs *lcl_addresses = vp_netdev_addresses();
    for (ssize_t i = 0; i < n; i++) {
        if (table[i].port_num != port || table[i].gid_type == IBV_GID_TYPE_IB)
            continue;
        if (vp_wants_gid() && wanted != table[i].gid_index)
            continue;
        vp_gid_candidate(&table[i], &c);
        if (!vp_wants_gid() && !vp_netdev_has(lcl_addresses, &c.addr))
            other_namespaces++;
        else
            add_candidate(list, &c);
    }
    if (lcl_addresses)
        freeifaddrs(lcl_addresses);
    free(table);
    return other_namespaces;
}

/*** InfiniBand: any address of this host may belong to the port (IPoIB); rdma_bind_addr() tells
 * ***/

static bool is_infiniband(const struct ifaddrs *all, const char *name)
{
    for (const struct ifaddrs *a = all; a; a = a->ifa_next)
        if (a->ifa_addr && a->ifa_addr->sa_family == AF_PACKET && strcmp(a->ifa_name, name) == 0)
            return ((const struct sockaddr_ll *)(const void *)a->ifa_addr)->sll_hatype ==
                   ARPHRD_INFINIBAND;
    return false;
}

static bool ip_candidate(const struct ifaddrs *a, struct vp_candidate *c)
{
    memset(c, 0, sizeof(*c));
    if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) || (a->ifa_flags & IFF_LOOPBACK))
        return false;
    if (a->ifa_addr->sa_family == AF_INET) {
        memcpy(&c->addr.in, a->ifa_addr, sizeof(c->addr.in));
        c->rank = 4;
    } else if (a->ifa_addr->sa_family == AF_INET6) {
        memcpy(&c->addr.in6, a->ifa_addr, sizeof(c->addr.in6));
        c->rank = IN6_IS_ADDR_LINKLOCAL(&c->addr.in6.sin6_addr) ? 1 : 3;
    }
    return c->rank > 0;
}

static void add_ip_addresses(struct list *list)
{
    struct ifaddrs *all;
    struct vp_candidate c;

    if (getifaddrs(&all))
        return;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        if (!ip_candidate(a, &c))
            continue;
        if (is_infiniband(all, a->ifa_name))
            c.rank += IPOIB_BONUS;
        c.gid_index = (int)list->count;
        add_candidate(list, &c);
    }
    freeifaddrs(all);
}

int vp_candidates(const struct vp_device *dev, unsigned int port, bool roce,
                  struct vp_candidate *out, unsigned int *other_namespaces)
{
    struct list list = {NULL, 0, 0};

    *other_namespaces = 0;
    if (roce)
        *other_namespaces = add_gids(dev, port, &list);
    else
        add_ip_addresses(&list);
    return copy_best(&list, out);
}
