/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the RDMA ports of this machine, and which of them are used, for utofu-info. */
#include "survey.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "candidate.h"
#include "netdev.h"
#include "order.h"
#include "select.h"
#include "verbs/data/recvs.h"
#include "verbs/connect/cm_ops.h"

enum { MTU_UNIT = 128 }; /* IBV_MTU_256 is 1; each next value doubles the size */

/* Gets the port's GID table entry `wanted`, or its first entry. False: no such entry. */
static bool find_gid(struct ibv_context *context, unsigned int port, int wanted,
                     struct ibv_gid_entry *out)
{
    enum { MAX_GIDS = 1024 };
    struct ibv_gid_entry *table = calloc(MAX_GIDS, sizeof(*table));
    ssize_t n = table ? ibv_query_gid_table(context, table, MAX_GIDS, 0) : 0;
    bool found = false;

    for (ssize_t i = 0; i < n && !found; i++) {
        if (table[i].port_num == port && (wanted < 0 || (int)table[i].gid_index == wanted)) {
            *out = table[i];
            found = true;
        }
    }
    free(table);
    return found;
}

static const char *state_text(enum ibv_port_state state)
{
    static const char *const texts[] = {"no change", "down", "init", "armed", "active", "deferred"};

    return state < sizeof(texts) / sizeof(texts[0]) ? texts[state] : "unknown";
}

static const char *link_text(uint8_t link_layer)
{
    return link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
}

static const char *atomics_text(enum ibv_atomic_cap cap)
{
    return cap == IBV_ATOMIC_GLOB ? "glob" : cap == IBV_ATOMIC_HCA ? "hca" : "none";
}

static const struct vp_port *port_in_use(const struct vp_prov *prov, struct prov_port *out)
{
    for (unsigned int i = 0; i < prov->num_ports; i++) {
        const struct vp_port *p = &prov->ports[i];
        if (p->num != out->port ||
            strcmp(ibv_get_device_name(p->dev->context->device), out->device) != 0)
            continue;
        for (unsigned int tni = i; tni < prov->config.num_tnis; tni += prov->num_ports)
            out->tnis |= 1u << tni;
        out->max_inline = p->dev->max_inline;
        out->max_conns = p->dev->budget.max;
        out->any_order = vp_unit_of(p->dev) != VP_UNIT_WHOLE;
        out->order_unit = vp_unit_bytes(vp_unit_of(p->dev));
        out->relaxed_keys = p->dev->relaxed;
        snprintf(out->order_why, sizeof(out->order_why), "%s",
                 vp_order_reason((enum vp_order)p->dev->order));
        out->ece_vendor = p->dev->ece.vendor_id;
        out->ece_options = p->dev->ece.options;
        out->srq_depth = vp_srq_depth(prov, p->dev);
        out->rq_depth = vp_rq_depth(prov, p->dev);
        if (p->uses_datagrams && p->at.lid)
            snprintf(out->address, sizeof(out->address), "LID %u", p->at.lid);
        else
            vp_addr_text(&p->addr, out->address, sizeof(out->address));
        snprintf(out->connects_by, sizeof(out->connects_by), "%s", p->cm_ops->name);
        vp_rails_describe(prov, i, out->parts, sizeof(out->parts));
        vp_network_text(&p->network, out->network, sizeof(out->network));
        return p;
    }
    return NULL;
}

static void fill_exclusion_reason(const struct vp_prov *prov, struct prov_port *out)
{
    snprintf(out->why_not, sizeof(out->why_not), "%s",
             prov->channel ? "there are enough other ports"
                           : "cannot be used: there is no /dev/infiniband/rdma_cm");
    for (unsigned int i = 0; i < prov->survey->num_exclusions; i++) {
        const struct vp_port_exclusion *r = &prov->survey->exclusions[i];
        if (strcmp(r->device, out->device) == 0 && (r->port == 0 || r->port == out->port)) {
            memcpy(out->why_not, r->why, sizeof(out->why_not));
            return;
        }
    }
}

/* True if the GID has an interface in this network namespace. Interface numbers of other namespaces
 * have no meaning here. */
static bool is_in_this_namespace(const struct ibv_gid_entry *gid)
{
    struct ifaddrs *addresses = gid->ndev_ifindex ? vp_netdev_addresses() : NULL;
    struct vp_candidate c;

    vp_gid_candidate(gid, &c);
    bool is = gid->ndev_ifindex && vp_netdev_has(addresses, &c.addr);
    if (addresses)
        freeifaddrs(addresses);
    return is;
}

static void describe_port(struct ibv_context *context, struct prov_port *out, int gid_index)
{
    struct ibv_gid_entry gid;
    union vp_port_attr all;

    if (vp_query_port(context, out->port, &all))
        return;
    const struct ibv_port_attr attr = all.attr;
    snprintf(out->link, sizeof(out->link), "%s", link_text(attr.link_layer));
    snprintf(out->state, sizeof(out->state), "%s", state_text(attr.state));
    out->speed = vp_port_speed(&all);
    out->mtu = MTU_UNIT << attr.active_mtu;
    out->max_mtu = MTU_UNIT << attr.max_mtu;
    if (!find_gid(context, out->port, gid_index, &gid))
        return;
    out->gid_index = (int)gid.gid_index;
    inet_ntop(AF_INET6, gid.gid.raw, out->gid, sizeof(out->gid));
    if (is_in_this_namespace(&gid) && !if_indextoname(gid.ndev_ifindex, out->netdev))
        out->netdev[0] = '\0';
}

static void describe_device(const struct vp_prov *prov, struct ibv_device *device, void *ctx,
                            void (*report)(void *ctx, const struct prov_port *port))
{
    struct ibv_context *context = ibv_open_device(device);
    struct ibv_device_attr attr = {.phys_port_cnt = 1};

    if (context && ibv_query_device(context, &attr))
        attr.phys_port_cnt = 1;
    for (unsigned int num = 1; num <= attr.phys_port_cnt; num++) {
        struct prov_port out = {.port = num, .gid_index = -1};
        snprintf(out.device, sizeof(out.device), "%s", ibv_get_device_name(device));
        out.numa_node = vp_numa_node(out.device);
        const struct vp_port *used = port_in_use(prov, &out);
        if (!used)
            fill_exclusion_reason(prov, &out);
        if (context) {
            snprintf(out.atomics, sizeof(out.atomics), "%s", atomics_text(attr.atomic_cap));
            describe_port(context, &out, used ? used->gid_index : -1);
        }
        report(ctx, &out);
    }
    if (context)
        ibv_close_device(context);
}

void vp_survey_ports(const struct vp_prov *prov, void *ctx,
                     void (*report)(void *ctx, const struct prov_port *port))
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    for (struct ibv_device **d = list; d && *d; d++)
        describe_device(prov, *d, ctx, report);
    if (list)
        ibv_free_device_list(list);
}
