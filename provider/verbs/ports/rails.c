/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports are used: see rails.h. */
#include "rails.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANY_PREFIX_V4 = 24, ANY_PREFIX_V6 = 64 };

/*** networks ***/

static const uint8_t *raw_of(const struct sockaddr *addr, unsigned int *bytes)
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
    const uint8_t *raw = raw_of(&addr->sa, &bytes);
    struct ifaddrs *all = NULL;

    memset(out, 0, sizeof(*out));
    out->family = (uint8_t)addr->sa.sa_family;
    out->prefix = bytes == 4 ? ANY_PREFIX_V4 : ANY_PREFIX_V6;
    if (getifaddrs(&all))
        all = NULL;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        if (!a->ifa_addr || !a->ifa_netmask || a->ifa_addr->sa_family != addr->sa.sa_family ||
            memcmp(raw_of(a->ifa_addr, &n), raw, bytes) != 0)
            continue;
        out->prefix = (uint8_t)count_bits(raw_of(a->ifa_netmask, &n), bytes);
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
    return buf;
}

static int compare_networks(const struct vp_network *a, const struct vp_network *b)
{
    if (a->family != b->family) /* IPv4 first */
        return a->family == AF_INET ? -1 : 1;
    int order = memcmp(a->address, b->address, sizeof(a->address));
    return order ? order : a->prefix - b->prefix;
}

/*** properties of a port ***/

unsigned int vp_port_speed(const struct ibv_port_attr *attr)
{
    static const struct {
        uint8_t code;
        unsigned int mbit; /* of one lane */
    } speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                  {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
    static const struct {
        uint8_t code;
        unsigned int lanes;
    } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    unsigned int mbit = 0, lanes = 0;

    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
        if (speeds[i].code == attr->active_speed)
            mbit = speeds[i].mbit;
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        if (widths[i].code == attr->active_width)
            lanes = widths[i].lanes;
    return mbit * lanes;
}

/* Reads one line of a file of the device; false: there is no such file. */
static bool read_line(const char *device, const char *name, char *line, int size)
{
    char path[256];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/%s", device, name);
    FILE *file = fopen(path, "re");
    bool got = file && fgets(line, size, file);
    if (file)
        fclose(file);
    return got;
}

int vp_numa_node(const char *device)
{
    char line[32];

    return read_line(device, "numa_node", line, sizeof(line)) ? atoi(line) : -1;
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

bool vp_is_near(const char *device)
{
    char line[1024];
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 &&
           read_line(device, "local_cpulist", line, sizeof(line)) && vp_cpus_are_in(line, &cpus);
}

/*** the choice ***/

#define REFUSE(f, ...) snprintf((f)->why_not, sizeof((f)->why_not), __VA_ARGS__)
#define IF_WANTED      "UTOFU_VERBS_DEVICES can name it"

static const struct vp_found *fastest_of(const struct vp_found *found, unsigned int count)
{
    const struct vp_found *best = NULL;

    for (unsigned int i = 0; i < count; i++)
        if (!found[i].why_not[0] && (!best || found[i].port.speed > best->port.speed))
            best = &found[i];
    return best;
}

static void refuse_slow(struct vp_found *found, unsigned int count)
{
    const struct vp_found *best = fastest_of(found, count);

    for (unsigned int i = 0; i < count; i++) {
        unsigned int speed = found[i].port.speed;
        if (speed && 2 * speed < best->port.speed)
            REFUSE(&found[i], "has %u Mbit/s, and %s has %u: " IF_WANTED, speed, best->name,
                   best->port.speed);
    }
}

static void refuse_ethernet(struct vp_found *found, unsigned int count)
{
    const struct vp_found *infiniband = NULL;

    for (unsigned int i = 0; i < count && !infiniband; i++)
        if (!found[i].why_not[0] && found[i].infiniband)
            infiniband = &found[i];
    for (unsigned int i = 0; infiniband && i < count; i++)
        if (!found[i].why_not[0] && !found[i].infiniband)
            REFUSE(&found[i], "is Ethernet, and %s is InfiniBand: " IF_WANTED, infiniband->name);
}

/* Mbit/s of all ports of the network together. */
static uint64_t speed_of(const struct vp_found *found, unsigned int count,
                         const struct vp_network *network)
{
    uint64_t sum = 0;

    for (unsigned int i = 0; i < count; i++)
        if (!found[i].why_not[0] && compare_networks(&found[i].port.network, network) == 0)
            sum += found[i].port.speed ? found[i].port.speed : 1;
    return sum;
}

static void refuse_other_networks(struct vp_found *found, unsigned int count)
{
    const struct vp_found *best = NULL;
    char here[INET6_ADDRSTRLEN + 4], there[INET6_ADDRSTRLEN + 4];
    uint64_t best_speed = 0;

    for (unsigned int i = 0; i < count; i++) {
        if (found[i].why_not[0])
            continue;
        uint64_t speed = speed_of(found, count, &found[i].port.network);
        if (!best || speed > best_speed ||
            (speed == best_speed &&
             compare_networks(&found[i].port.network, &best->port.network) < 0)) {
            best = &found[i];
            best_speed = speed;
        }
    }
    for (unsigned int i = 0; i < count; i++)
        if (!found[i].why_not[0] &&
            compare_networks(&found[i].port.network, &best->port.network) != 0)
            REFUSE(&found[i],
                   "is in %s, and %s in %s: if these reach each other, UTOFU_VERBS_DEVICES can "
                   "name both",
                   vp_network_text(&found[i].port.network, here, sizeof(here)), best->name,
                   vp_network_text(&best->port.network, there, sizeof(there)));
}

void vp_rails_choose(struct vp_found *found, unsigned int count, bool chosen)
{
    for (unsigned int i = 0; i < count; i++)
        found[i].why_not[0] = '\0';
    if (chosen || !count)
        return;
    refuse_slow(found, count);
    refuse_ethernet(found, count);
    refuse_other_networks(found, count);
}

/*** the order ***/

/* Is `a` placed before `b`, whatever the process? */
static bool is_before(const struct vp_found *a, const struct vp_found *b, bool chosen)
{
    bool a_used = !a->why_not[0], b_used = !b->why_not[0];

    if (a_used != b_used)
        return a_used;
    return !chosen && a->near && !b->near;
}

/* Moves the first `by` of `count` ports behind the others. */
static void rotate(struct vp_found *found, unsigned int count, unsigned int by)
{
    while (by--) {
        struct vp_found first = found[0];
        memmove(found, found + 1, (count - 1) * sizeof(*found));
        found[count - 1] = first;
    }
}

unsigned int vp_rails_sort(struct vp_found *found, unsigned int count, bool chosen,
                           unsigned int local_rank)
{
    unsigned int used = 0, near = 0;

    for (unsigned int i = 1; i < count; i++) { /* stable: equal ports keep the devices' order */
        struct vp_found moved = found[i];
        unsigned int at = i;
        for (; at > 0 && is_before(&moved, &found[at - 1], chosen); at--)
            found[at] = found[at - 1];
        found[at] = moved;
    }
    while (used < count && !found[used].why_not[0])
        near += found[used++].near;
    if (chosen || !used)
        return used;
    if (near)
        rotate(found, near, local_rank % near);
    if (used > near)
        rotate(found + near, used - near, local_rank % (used - near));
    return used;
}
