/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What utofu-info prints of each RDMA port (ports/survey.c), without a device: this file replaces
 * libibverbs and what asks the system.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/check.h"
#include "verbs/connect/cm_ops.h"
#include "verbs/ports/netdev.h"
#include "verbs/ports/select.h"
#include "verbs/ports/survey.h"

enum { DEVICES = 3, PORTS = 2 };

static struct ibv_device devices[DEVICES] = {{.name = "a0"}, {.name = "b0"}, {.name = "c0"}};
static struct ibv_context contexts[DEVICES];
static struct ibv_port_attr attrs[PORTS + 1];
static struct ibv_gid_entry gids[8];
static ssize_t num_gids;
static enum ibv_atomic_cap atomics;
static bool lists, opens, is_queried, knows_ports, has_interfaces;
static int open_devices, open_lists;
static unsigned int live_addresses;

struct ibv_device **ibv_get_device_list(int *count)
{
    static struct ibv_device *list[DEVICES + 1];

    CHECK(!count);
    for (int i = 0; i < DEVICES; i++)
        list[i] = &devices[i];
    open_lists += lists;
    return lists ? list : NULL;
}

void ibv_free_device_list(struct ibv_device **list)
{
    CHECK(list);
    open_lists--;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *context = &contexts[device - devices];

    context->device = device;
    open_devices += opens;
    return opens ? context : NULL;
}

int ibv_close_device(struct ibv_context *context)
{
    CHECK(context);
    open_devices--;
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    CHECK(context->device);
    attr->phys_port_cnt = PORTS;
    attr->atomic_cap = atomics;
    return is_queried ? 0 : EIO;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                             uint32_t flags, size_t size)
{
    CHECK(context->device && flags == 0 && size == sizeof(gids[0]) && max >= 8);
    memcpy(entries, gids, sizeof(gids));
    return num_gids;
}

static int query_port(struct ibv_context *context, unsigned int port, union vp_port_attr *out)
{
    CHECK(context->device && port >= 1 && port <= PORTS);
    memset(out, 0, sizeof(*out));
    out->attr = attrs[port];
    return knows_ports ? 0 : EIO;
}

static int node_of(const char *device)
{
    return device[0] - 'a';
}

static struct ifaddrs *list_addresses(void)
{
    static struct sockaddr_in ip = {.sin_family = AF_INET};
    static struct ifaddrs list = {.ifa_addr = (struct sockaddr *)(void *)&ip};

    inet_pton(AF_INET, "10.1.2.3", &ip.sin_addr);
    live_addresses += has_interfaces;
    return has_interfaces ? &list : NULL;
}

void freeifaddrs(struct ifaddrs *list)
{
    CHECK(list);
    live_addresses--;
}

static char *name_of_index(unsigned int index, char *name)
{
    return index == 5 ? strcpy(name, "eth5") : NULL;
}

static void describe_rails(const struct vp_prov *prov, unsigned int port, char *text, size_t size)
{
    CHECK(prov->num_ports > port);
    snprintf(text, size, "parts of %u", port);
}

#define vp_query_port       query_port
#define vp_numa_node        node_of
#define vp_netdev_addresses list_addresses
#define if_indextoname      name_of_index
#define vp_rails_describe   describe_rails
#include "../../provider/verbs/ports/survey.c"
#undef if_indextoname

static struct vp_prov prov;
static struct vp_survey survey;
static struct prov_port found[DEVICES * PORTS];
static unsigned int num_found;

static void note_port(void *ctx, const struct prov_port *port)
{
    CHECK(ctx == &prov && num_found < DEVICES * PORTS);
    found[num_found++] = *port;
}

static void survey_now(void)
{
    num_found = 0;
    vp_survey_ports(&prov, &prov, note_port);
    CHECK(open_devices == 0 && open_lists == 0 && live_addresses == 0);
}

static void add_gid(unsigned int port, unsigned int index, const char *text, unsigned int interface)
{
    struct ibv_gid_entry *gid = &gids[num_gids++];

    *gid = (struct ibv_gid_entry){.port_num = port,
                                  .gid_index = index,
                                  .ndev_ifindex = interface,
                                  .gid_type = IBV_GID_TYPE_ROCE_V2};
    CHECK(inet_pton(AF_INET6, text, gid->gid.raw) == 1);
}

/* Devices of which the first has two ports in use, and the second one. */
static void reset(void)
{
    static const struct vp_cm_ops rdmacm = {.name = "rdmacm"}, ud = {.name = "ud"};

    lists = opens = is_queried = knows_ports = has_interfaces = true;
    atomics = IBV_ATOMIC_HCA;
    attrs[1] = (struct ibv_port_attr){.state = IBV_PORT_ACTIVE,
                                      .link_layer = IBV_LINK_LAYER_ETHERNET,
                                      .active_mtu = IBV_MTU_1024,
                                      .max_mtu = IBV_MTU_4096,
                                      .active_width = 2,
                                      .active_speed = 32};
    attrs[2] = (struct ibv_port_attr){.state = IBV_PORT_DOWN,
                                      .link_layer = IBV_LINK_LAYER_INFINIBAND,
                                      .active_mtu = IBV_MTU_256,
                                      .max_mtu = IBV_MTU_2048};
    num_gids = 0;
    add_gid(2, 0, "fe80::22", 0);
    add_gid(1, 0, "fe80::11", 5);
    add_gid(1, 3, "::ffff:10.1.2.3", 5);
    memset(&survey, 0, sizeof(survey));
    prov = (struct vp_prov){.config = {.num_tnis = 6},
                            .tuning = {.srq_depth = 500, .rq_depth = 70},
                            .num_ports = 3,
                            .num_devices = 2,
                            .survey = &survey};
    for (unsigned int i = 0; i < 2; i++) {
        contexts[i].device = &devices[i];
        prov.devices[i] =
            (struct vp_device){.context = &contexts[i],
                               .max_inline = 100 + i,
                               .budget = {.max = 1000 + i},
                               .order = i ? VP_ORDER_128 : VP_ORDER_PROMISED,
                               .relaxed = i,
                               .has_srq = !i,
                               .ece = {15 + i, 3 + i},
                               .attr = {.max_srq_wr = 400, .max_cqe = 100000, .max_qp_wr = 60}};
    }
    for (unsigned int i = 0; i < 3; i++) {
        struct vp_port *port = &prov.ports[i];
        *port = (struct vp_port){.dev = &prov.devices[i == 2],
                                 .num = i == 1 ? 2 : 1,
                                 .gid_index = i == 1 ? -1 : 3,
                                 .uses_datagrams = i == 1,
                                 .cm_ops = i == 1 ? &ud : &rdmacm,
                                 .at = {.lid = 17},
                                 .network = {.family = AF_INET, .prefix = 16}};
        port->addr.in.sin_family = AF_INET;
        inet_pton(AF_INET, i ? "10.1.2.4" : "10.1.2.3", &port->addr.in.sin_addr);
        inet_pton(AF_INET, "10.1.0.0", port->network.address);
    }
}

static void ports_in_use(void)
{
    static const struct {
        const char *address, *connects_by, *why, *parts;
        uint32_t tnis, max_inline, max_conns, unit, srq, rq, vendor, options;
        int gid_index;
    } wanted[] = {{"10.1.2.3", "rdmacm", "the adapter promises it", "parts of 0", 011, 100, 1000, 0,
                   400, 0, 15, 3, 3},
                  {"LID 17", "ud", "the adapter promises it", "parts of 1", 022, 100, 1000, 0, 400,
                   0, 15, 3, 0},
                  {"10.1.2.4", "rdmacm", "the adapter promises each aligned 128 bytes",
                   "parts of 2", 044, 101, 1001, 128, 0, 60, 16, 4, 3}};

    reset();
    survey_now();
    CHECK(num_found == 6);
    for (unsigned int i = 0; i < 3; i++) {
        const struct prov_port *p = &found[i];
        CHECK(strcmp(p->device, i < 2 ? "a0" : "b0") == 0 && p->port == (i == 1 ? 2 : 1));
        CHECK(strcmp(p->address, wanted[i].address) == 0 && !p->why_not[0]);
        CHECK(strcmp(p->connects_by, wanted[i].connects_by) == 0);
        CHECK(strcmp(p->order_why, wanted[i].why) == 0 && strcmp(p->parts, wanted[i].parts) == 0);
        CHECK(strcmp(p->network, "10.1.0.0/16") == 0 && p->tnis == wanted[i].tnis);
        CHECK(p->max_inline == wanted[i].max_inline && p->max_conns == wanted[i].max_conns);
        CHECK(p->order_unit == wanted[i].unit && p->any_order == (wanted[i].unit != 0));
        CHECK(p->relaxed_keys == (i == 2));
        CHECK(p->srq_depth == wanted[i].srq && p->rq_depth == wanted[i].rq);
        CHECK(p->ece_vendor == wanted[i].vendor && p->ece_options == wanted[i].options);
        CHECK(p->gid_index == wanted[i].gid_index && p->numa_node == (i == 2));
    }
    prov.ports[1].at.lid = 0; /* RoCE */
    survey_now();
    CHECK(strcmp(found[1].address, "10.1.2.4") == 0);
}

static void facts_of_ports(void)
{
    static const char *const states[] = {"no change", "down",     "init",   "armed",
                                         "active",    "deferred", "unknown"};

    reset();
    survey_now();
    CHECK(strcmp(found[0].link, "Ethernet") == 0 && strcmp(found[1].link, "InfiniBand") == 0);
    CHECK(found[0].mtu == 1024 && found[0].max_mtu == 4096 && found[0].speed == 100000);
    CHECK(found[1].mtu == 256 && found[1].max_mtu == 2048 && found[1].speed == 0);
    CHECK(strcmp(found[0].gid, "::ffff:10.1.2.3") == 0 && strcmp(found[0].netdev, "eth5") == 0);
    CHECK(strcmp(found[1].gid, "fe80::22") == 0 && !found[1].netdev[0]);
    for (unsigned int state = 0; state < 7; state++) {
        attrs[1].state = (enum ibv_port_state)state;
        atomics = (enum ibv_atomic_cap)(state % 3);
        survey_now();
        CHECK(strcmp(found[0].state, states[state]) == 0);
        CHECK(strcmp(found[0].atomics, state % 3 == IBV_ATOMIC_GLOB  ? "glob"
                                       : state % 3 == IBV_ATOMIC_HCA ? "hca"
                                                                     : "none") == 0);
    }
}

/* Interfaces of other network namespaces are not named; nor those that there are not. */
static void interfaces(void)
{
    static const struct {
        const char *gid;
        unsigned int interface;
        bool interfaces_are_known;
        const char *name;
    } cases[] = {{"::ffff:10.1.2.3", 5, true, "eth5"},
                 {"::ffff:10.1.2.4", 5, true, ""},
                 {"::ffff:10.1.2.3", 0, true, ""},
                 {"::ffff:10.1.2.3", 6, true, ""},
                 {"::ffff:10.1.2.4", 5, false, "eth5"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reset();
        has_interfaces = cases[i].interfaces_are_known;
        num_gids = 2;
        add_gid(1, 3, cases[i].gid, cases[i].interface);
        survey_now();
        CHECK(strcmp(found[0].netdev, cases[i].name) == 0);
        CHECK(strcmp(found[0].gid, cases[i].gid) == 0);
    }
    reset();
    survey_now();
    CHECK(found[4].gid_index == 0 && strcmp(found[4].gid, "fe80::11") == 0); /* the first one */
    prov.ports[0].gid_index = 0;
    gids[0].port_num = 1; /* before it */
    gids[0].gid_index = 1;
    survey_now();
    CHECK(found[0].gid_index == 0 && strcmp(found[0].gid, "fe80::11") == 0);
    reset();
    num_gids = 2; /* the port's GID is gone */
    survey_now();
    CHECK(found[0].gid_index == -1 && !found[0].gid[0] && !found[0].netdev[0]);
    num_gids = -1;
    survey_now();
    CHECK(found[4].gid_index == -1 && !found[4].gid[0]);
}

static void ports_that_are_not_used(void)
{
    static struct rdma_event_channel channel;

    reset();
    prov.channel = &channel;
    survey.num_exclusions = 2;
    survey.exclusions[0] = (struct vp_port_exclusion){"b0", 2, "it is slow"};
    survey.exclusions[1] = (struct vp_port_exclusion){"c0", 0, "it is old"};
    survey.exclusions[2] = (struct vp_port_exclusion){"b0", 2, "not counted"};
    survey_now();
    CHECK(strcmp(found[3].why_not, "it is slow") == 0 && found[3].tnis == 0);
    CHECK(strcmp(found[4].why_not, "it is old") == 0 && strcmp(found[5].why_not, "it is old") == 0);
    survey.exclusions[0].port = 1;
    survey.exclusions[1].device[0] = 'd';
    survey_now();
    for (int i = 3; i < 6; i++)
        CHECK(strcmp(found[i].why_not, "there are enough other ports") == 0);
    prov.channel = NULL;
    survey_now();
    CHECK(strstr(found[3].why_not, "there is no /dev/infiniband/rdma_cm"));
}

static void devices_that_say_nothing(void)
{
    reset();
    knows_ports = false;
    survey_now();
    CHECK(num_found == 6 && !found[4].link[0] && !found[4].state[0] && found[4].gid_index == -1);
    CHECK(strcmp(found[4].atomics, "hca") == 0);
    is_queried = false; /* then one port */
    survey_now();
    CHECK(num_found == 3 && strcmp(found[1].device, "b0") == 0);
    opens = false;
    survey_now();
    CHECK(num_found == 3 && !found[0].atomics[0] && !found[0].link[0]);
    CHECK(strcmp(found[0].connects_by, "rdmacm") == 0);
    lists = false;
    survey_now();
    CHECK(num_found == 0);
}

int main(void)
{
    ports_in_use();
    facts_of_ports();
    interfaces();
    ports_that_are_not_used();
    devices_that_say_nothing();
    return 0;
}
