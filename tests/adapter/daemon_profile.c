/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter's properties, by profile, and its faults, by name and count. */
#include "daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct profile profile;

/*** random numbers: xorshift, for repeatable runs ***/

static uint64_t seed = 1;

void random_seed(uint64_t value)
{
    seed = value * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

uint32_t random_below(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32) % n;
}

/*** profiles ***/

static void set_gid(struct ad_port *port, uint32_t num, const uint8_t raw[16])
{
    struct ibv_gid_entry *entry = &port->gids[port->num_gids];

    *entry = (struct ibv_gid_entry){.gid_index = port->num_gids,
                                    .port_num = num,
                                    .gid_type = IBV_GID_TYPE_ROCE_V2,
                                    .ndev_ifindex = AD_FIRST_IFINDEX + num - 1};
    memcpy(entry->gid.raw, raw, 16);
    port->num_gids++;
    snprintf(port->netdev, sizeof(port->netdev), "eth%u", num - 1);
}

/* Like rdma_rxe of Linux 6.1 on Ethernet with an MTU of 1500, with the address 10.77.0.1. */
static void be_rxe(void)
{
    static const uint8_t link_local[16] = {0xfe, 0x80, [8] = 2, 0xfc, 0, 0xff, 0xfe, 0, 0, 1};
    static const uint8_t v4[16] = {[10] = 0xff, 0xff, 10, 77, 0, 1};

    profile = (struct profile){.device = {.name = "rxe0", .max_inline = 912}};
    profile.device.has_wr_api = profile.device.has_resize = true;
    profile.device.attr = (struct ibv_device_attr){
        .vendor_id = 0xffffff,
        .max_mr_size = UINT64_MAX,
        .page_size_cap = 0xfffff000,
        .max_qp = 1 << 20,
        .max_qp_wr = 1 << 20,
        .max_sge = 32,
        .max_sge_rd = 32,
        .max_cq = 1 << 20,
        .max_cqe = (1 << 15) - 1,
        .max_mr = 1 << 20,
        .max_pd = 1 << 20,
        .max_qp_rd_atom = 128,
        .max_res_rd_atom = 1 << 20,
        .max_qp_init_rd_atom = 128,
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_srq = 1 << 18,
        .max_srq_wr = 1 << 20,
        .max_srq_sge = 27,
        .max_pkeys = 64,
        .local_ca_ack_delay = 15,
        .phys_port_cnt = 1,
    };
    struct ad_port *port = &profile.device.ports[0];
    port->attr = (struct ibv_port_attr){.state = IBV_PORT_ACTIVE,
                                        .max_mtu = IBV_MTU_4096,
                                        .active_mtu = IBV_MTU_1024,
                                        .gid_tbl_len = 1024,
                                        .max_msg_sz = 1u << 31,
                                        .pkey_tbl_len = 1,
                                        .max_vl_num = 1,
                                        .active_width = 1,
                                        .active_speed = 1,
                                        .phys_state = 5,
                                        .link_layer = IBV_LINK_LAYER_ETHERNET};
    port->pkeys[0] = 0xffff;
    set_gid(port, 1, link_local);
    set_gid(port, 1, v4);
}

/* Two ports in networks without a route between them. */
static void be_rails(void)
{
    static const uint8_t v4[16] = {[10] = 0xff, 0xff, 10, 78, 0, 1};
    struct ad_port *port = &profile.device.ports[1];

    profile.device.attr.phys_port_cnt = 2;
    port->attr = profile.device.ports[0].attr;
    port->pkeys[0] = profile.device.ports[0].pkeys[0];
    set_gid(port, 2, v4);
}

/* As rails, with a slow first port, like one for management. */
static void be_dual(void)
{
    be_rails();
    profile.device.ports[1].attr.active_speed = 4;
}

/* Two devices with a port each, on one switch. */
static void be_twins(void)
{
    static const uint8_t v4[16] = {[10] = 0xff, 0xff, 10, 77, 0, 2};
    struct ad_port *port = &profile.device.ports[1];

    be_rails();
    port->num_gids = 0;
    set_gid(port, 2, v4);
    snprintf(profile.device.other, sizeof(profile.device.other), "rxe1");
    profile.switched = true;
}

/* The same with atomics that are coherent with everything else, as bnxt_re_query_device()
 * (drivers/infiniband/hw/bnxt_re/ib_verbs.c) says where PCI Express has them. */
static void be_coherent(void)
{
    be_twins();
    profile.device.attr.atomic_cap = IBV_ATOMIC_GLOB;
}

/*
 * One adapter in two PCIe slots (Socket Direct), as mlx5 shows it unless it combines the interfaces
 * (Linux 6.9, drivers/net/ethernet/mellanox/mlx5/core/lib/sd.c): a device for each, with one
 * number of the system image. The vendor is that of the MAC addresses (rdma-core 65,
 * providers/mlx5, and UCX, src/uct/ib/base/ib_device.c, uct_ib_builtin_device_specs).
 */
static void be_socket_direct(void)
{
    be_twins();
    profile.device.attr.vendor_id = 0x2c9;
    profile.device.attr.sys_image_guid = 0x1234;
}

/* Two adapters that differ, as those of different hosts: MTU, reads at a time, inline data. */
static void be_unlike(void)
{
    be_twins();
    profile.device.ports[1].attr.active_mtu = IBV_MTU_4096;
    profile.device.ports[1].attr.active_speed = 4;
    profile.device.other_attr = profile.device.attr;
    profile.device.other_attr.max_qp_rd_atom = profile.device.other_attr.max_qp_init_rd_atom = 1;
    profile.device.other_inline = 0;
}

/*
 * Two adapters with one address: their ports are slaves of a bond that the driver does not know of,
 * as mlx5's bonds both ports of one adapter and nothing else (Linux 6.1, drivers/net/ethernet/
 * mellanox/mlx5/core/lag/lag.c, mlx5_handle_changeupper_event()). In modes without an active slave,
 * as 802.3ad, the kernel gives the bond's addresses to both (drivers/infiniband/core/
 * roce_gid_mgmt.c, is_eth_active_slave_of_bonding_rcu()). The switch sends all packets to the
 * first.
 */
static void be_bond(void)
{
    static const uint8_t v4[16] = {[10] = 0xff, 0xff, 10, 77, 0, 1};

    be_twins();
    for (uint32_t p = 0; p < 2; p++) {
        struct ad_port *port = &profile.device.ports[p];
        port->num_gids = 0;
        set_gid(port, p + 1, v4);
        port->gids[0].ndev_ifindex = AD_FIRST_IFINDEX;
        snprintf(port->netdev, sizeof(port->netdev), "bond0");
    }
}

/*
 * Network namespaces that share the adapter (`rdma system set netns shared`, the default): its
 * table has the addresses of all of them (Linux 6.1, drivers/infiniband/core/roce_gid_mgmt.c,
 * enum_all_gids_of_dev_cb()), with the interfaces' numbers there (cache.c, rdma_query_gid_table()).
 * rdma_cm takes none of another one (cma.c, cma_validate_port()); address handles are resolved in
 * the GID's own (addr.c, set_addr_netns_by_gid_rcu()). The second port has no address here.
 */
static void be_netns(void)
{
    static const uint8_t v4[2][16] = {{[10] = 0xff, 0xff, 10, 76, 0, 9},
                                      {[10] = 0xff, 0xff, 10, 76, 0, 10}};
    struct ad_port *port = &profile.device.ports[0];
    struct ibv_gid_entry own = port->gids[1];

    be_twins();
    port->num_gids = 1;
    set_gid(port, 1, v4[0]);
    own.gid_index = port->num_gids;
    port->gids[port->num_gids++] = own;
    port->elsewhere = 1u << 1;
    port[1].num_gids = 0;
    set_gid(&port[1], 2, v4[1]);
    port[1].elsewhere = 1u << 0;
}

static void be_mlx5(void)
{
    snprintf(profile.device.name, sizeof(profile.device.name), "mlx5_0");
    profile.device.attr.vendor_id = 0x2c9;
    profile.device.data_in_order = AD_WHOLE_MSG | AD_ALIGNED_128_BYTES;
    profile.device.ece = (struct ad_ece){0x15b3, 0x70000012};
    profile.device.attr.max_qp = 1 << 18;
    profile.device.attr.max_qp_wr = 1 << 15;
    profile.device.attr.max_cqe = (1 << 22) - 1;
    profile.device.attr.max_qp_rd_atom = profile.device.attr.max_qp_init_rd_atom = 16;
    profile.device.attr.max_srq_wr = (1 << 15) - 1;
    profile.device.ports[0].attr.max_msg_sz = 1u << 30;
    profile.device.drops_on_destroy = true;
    profile.raises_last_wqe = profile.raises_qp_errors = profile.errors_notify = true;
}

static void be_irdma(void)
{
    snprintf(profile.device.name, sizeof(profile.device.name), "irdma0");
    profile.device.attr.vendor_id = 0x8086;
    profile.device.attr.max_srq = profile.device.attr.max_srq_wr = profile.device.attr.max_srq_sge =
        0;
    profile.device.attr.max_qp_rd_atom = profile.device.attr.max_qp_init_rd_atom = 127;
    profile.device.attr.atomic_cap = IBV_ATOMIC_NONE;
    profile.device.has_wr_api = false;
    profile.device.max_inline = 101;
    profile.errors_notify = profile.raises_qp_errors = true;
}

/* bnxt_re_cleanup_cq() (rdma-core 44, providers/bnxt_re/verbs.c) drops the completions of a queue
 * pair that is destroyed; bnxt_re_handle_qp_async_event() (Linux 6.12, drivers/infiniband/hw/
 * bnxt_re/main.c) raises LAST_WQE_REACHED for each error that the adapter reports. */
static void be_bnxt(void)
{
    snprintf(profile.device.name, sizeof(profile.device.name), "bnxt_re0");
    profile.device.attr.vendor_id = 0x14e4;
    profile.device.has_wr_api = profile.device.has_resize = false;
    profile.device.max_inline = 0;
    profile.device.attr.max_cqe = 4095;
    profile.device.attr.max_qp_rd_atom = profile.device.attr.max_qp_init_rd_atom = 1;
    profile.device.drops_on_destroy = true;
    profile.errors_notify = profile.raises_at_error = true;
}

static void be_reordering(void)
{
    be_mlx5();
    snprintf(profile.device.name, sizeof(profile.device.name), "mlx5_ar0");
    profile.device.data_in_order = 0;
    profile.reorders = true;
}

/* Data that an adapter passes to PCIe are stored in lines of the CPU, each at its own time. */
static void be_line64(void)
{
    be_reordering();
    profile.unit = 64;
}

/* The answer is that of efa_query_qp_data_in_order() (rdma-core providers/efa/verbs.c) on devices
 * with DATA_POLLING_128. */
static void be_line128(void)
{
    be_reordering();
    profile.unit = 128;
    profile.device.data_in_order = AD_ALIGNED_128_BYTES;
}

/* A bond over both ports of an adapter: one device with one port (Linux 6.1, drivers/net/ethernet/
 * mellanox/mlx5/core/lag/lag.c). */
static void be_lag(void)
{
    be_mlx5();
    snprintf(profile.device.name, sizeof(profile.device.name), "mlx5_bond_0");
    snprintf(profile.device.ports[0].netdev, sizeof(profile.device.ports[0].netdev), "bond0");
    profile.bonded = true;
}

/* mlx5 with firmware that makes only keys of relaxed ordering (mkc_order_write_after_write_ro_only
 * of UCX's src/uct/ib/mlx5/dv/ib_mlx5_ifc.h): uct_ib_md_parse_relaxed_order() (src/uct/ib/base/
 * ib_md.c) then registers no other way. */
static void be_relaxed(void)
{
    be_mlx5();
    profile.device.only_relaxed_keys = true;
}

/* InfiniBand without IPoIB: a LID, and a GID without an IP address. */
static void be_ib(void)
{
    static const uint8_t raw[16] = {0xfe, 0x80, [8] = 0, 2, 0xc9, 3, 0, 0, 0, 1};
    struct ad_port *port = &profile.device.ports[0];

    be_mlx5();
    port->attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    port->attr.lid = 17;
    port->attr.sm_lid = 1;
    port->attr.pkey_tbl_len = 2;
    port->pkeys[0] = 0x7fff; /* whose nodes are limited members: they do not reach each other */
    port->pkeys[1] = 0x8001;
    port->attr.active_mtu = IBV_MTU_4096;
    port->num_gids = 0;
    set_gid(port, 1, raw);
    port->gids[0].gid_type = IBV_GID_TYPE_IB;
    port->gids[0].ndev_ifindex = 0;
    port->netdev[0] = '\0';
}

/* Two ports in subnets of IPoIB of their own, and one InfiniBand fabric, whose subnet prefix is the
 * default one. rdma_cm does not connect one port to the other: Linux 6.1, drivers/infiniband/core/
 * cma.c, validate_ipv4_net_dev() drops a request that did not come by the interface that its
 * sender's address is routed to. */
static void be_fabric(void)
{
    be_ib();
    be_rails();
    profile.one_fabric = true;
    for (uint8_t p = 0; p < 2; p++) {
        struct ad_port *port = &profile.device.ports[p];
        port->attr.lid = (uint16_t)(17 + p);
        port->attr.active_width = 2;
        port->attr.active_speed = 128;
        port->attr.pkey_tbl_len = 1;
        port->pkeys[0] = 0xffff;
        port->num_gids = 1;
        port->gids[0] = profile.device.ports[0].gids[0];
        port->gids[0].port_num = p + 1u;
        port->gids[0].gid.raw[15] = (uint8_t)(p + 1);
        port->ipoib = htonl(10u << 24 | (77u + p) << 16 | 1);
        snprintf(port->netdev, sizeof(port->netdev), "ib%u", p);
    }
}

/* The same with GIDs of different subnets, which routers would connect. */
static void be_subnets(void)
{
    be_fabric();
    profile.one_fabric = false;
    profile.device.ports[1].gids[0].gid.raw[7] = 1;
}

/* The first port InfiniBand, the second RoCE. */
static void be_mixed(void)
{
    static const uint8_t v4[16] = {[10] = 0xff, 0xff, 10, 78, 0, 1};
    struct ad_port *port = &profile.device.ports[1];

    be_fabric();
    profile.one_fabric = false;
    port->attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    port->attr.lid = port->attr.sm_lid = 0;
    port->ipoib = 0;
    port->num_gids = 0;
    set_gid(port, 2, v4);
}

/* The same, each port in a fabric of its own; the subnet managers have the same LID. */
static void be_fabrics(void)
{
    be_fabric();
    profile.one_fabric = false;
}

/* The first port NDR, the second XDR, of which active_speed says no more than NDR: Linux 6.7,
 * drivers/infiniband/core/uverbs_std_types_device.c, copy_port_attr_to_resp(). */
static void be_xdr(void)
{
    be_fabric();
    profile.device.ports[1].active_speed_ex = 256;
}

static void be_rxe_itself(void)
{
    profile.words_of_rxe = true;
}

static const struct {
    const char *name, *what;
    void (*be)(void);
} profiles[] = {
    {"rxe", "as rdma_rxe of Linux 6.1 (the default)", be_rxe_itself},
    {"mlx5", "LAST_WQE_REACHED and QP errors are raised; completions go with their QP", be_mlx5},
    {"irdma", "no SRQ, no atomics, no ibv_wr_*()", be_irdma},
    {"bnxt", "no ibv_wr_*(), no ibv_resize_cq(), 4095 CQ entries, one READ, no inline data",
     be_bnxt},
    {"adaptive-routing", "as mlx5; WRITEs and their parts are placed in any order", be_reordering},
    {"line64", "as adaptive-routing; units of 64 bytes are placed in any order", be_line64},
    {"line128", "the same with 128 bytes, which it promises", be_line128},
    {"relaxed-keys", "as mlx5; only memory keys with relaxed ordering are made", be_relaxed},
    {"ib", "as mlx5 on InfiniBand without IPoIB: no address that rdma_cm could resolve", be_ib},
    {"rails", "as rxe, with two ports in networks without a route between them", be_rails},
    {"fabric", "as ib with IPoIB, two ports in one fabric and in two IP subnets", be_fabric},
    {"fabrics", "the same, in two fabrics with one subnet prefix", be_fabrics},
    {"subnets", "as fabrics, each port in a subnet of its own", be_subnets},
    {"mixed", "as fabrics, the second port RoCE", be_mixed},
    {"xdr", "as fabric, the first port NDR and the second XDR", be_xdr},
    {"lag", "as mlx5, the port is a bond of two links", be_lag},
    {"dual", "as rails, the first port at 2.5 Gbit/s and the second at 10", be_dual},
    {"unlike", "as twins, the second with another MTU, one READ at a time and no inline data",
     be_unlike},
    {"bond", "as twins, with one address: a bond spans both devices", be_bond},
    {"netns", "as twins, shared with another network namespace, whose GIDs are in the table",
     be_netns},
    {"twins", "as rxe, two devices with a port each, which reach each other", be_twins},
    {"socket-direct", "as twins, of one adapter, in two PCIe slots", be_socket_direct},
    {"coherent", "as twins, and atomics are coherent with the CPU (IBV_ATOMIC_GLOB)", be_coherent},
};

bool profile_choose(const char *name)
{
    for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
        if (strcmp(profiles[i].name, name) != 0)
            continue;
        be_rxe();
        profiles[i].be();
        return true;
    }
    return false;
}

/*** faults ***/

static uint32_t left[AD_NUM_FAULTS]; /* remaining number, or until the n-th */
static uint32_t seen[AD_NUM_FAULTS];
static uint64_t silent_until;
static struct timer port_timer, gid_timer, lid_timer;

static const struct {
    const char *name, *what;
} faults[AD_NUM_FAULTS] = {
    [AD_FAULT_POST] = {"post", "the N-th post of each process fails with ENOMEM"},
    [AD_FAULT_CREATE] = {"create", "the N-th call that makes an object fails with ENOMEM"},
    [AD_FAULT_ADDR] = {"addr", "the next N addresses are not resolved"},
    [AD_FAULT_ROUTE] = {"route", "the next N routes are not resolved"},
    [AD_FAULT_CONNECT] = {"connect", "the next N requests end in CONNECT_ERROR"},
    [AD_FAULT_UNKNOWN] = {"unknown",
                          "every N-th WRITE or atomic is executed, and ends with RETRY_EXC"},
    [AD_FAULT_SILENCE] = {"silence", "nothing arrives for N ms"},
    [AD_FAULT_PORT] = {"port", "the port is down for N ms; 0: it is up"},
    [AD_FAULT_DEVICE] = {"device", "N=1: the device fails"},
    [AD_FAULT_QUEUES] = {"queues",
                         "completion queues (N=1) or shared receive queues (N=2) are in error"},
    [AD_FAULT_GID] = {"gid", "the port lacks its IPv4 address for N ms"},
    [AD_FAULT_PEERMEM] = {"peermem", "N=1: memory is registered that the CPU cannot reach"},
    [AD_FAULT_PLACED_LATE] =
        {"late", "WRITEs are placed N ms after they succeed, or before a READ, atomic, "
                 "SEND or immediate of their QP"},
    [AD_FAULT_FORK] = {"fork", "N=1: registered pages are shared with forked children"},
    [AD_FAULT_LOSS] = {"ud-loss", "every N-th datagram is lost"},
    [AD_FAULT_TWICE] = {"ud-twice", "every N-th datagram arrives twice"},
    [AD_FAULT_LATE] = {"ud-late", "every N-th datagram arrives up to 20 ms late"},
    [AD_FAULT_LID] = {"lid", "InfiniBand: the port has another LID for N ms; 0: its own"},
    [AD_FAULT_SL] = {"sl",
                     "InfiniBand: the subnet manager's paths have service level N, and packets "
                     "of others are lost; 0: of none"},
    [AD_FAULT_LAST_LATE] = {"last-late", "LAST_WQE_REACHED is raised N ms later"},
    [AD_FAULT_RATE] = {"rate", "each port moves N KB a second in each direction"},
    [AD_FAULT_HOLD] = {"hold", "requests of connections of the N-th port wait; 0: of none"},
    [AD_FAULT_CUT] = {"cut", "requests of connections of the N-th port, READs too, end with "
                             "RETRY_EXC, and are not executed; 0: of none; 99: of all"},
};

void profile_list(void)
{
    puts("Profiles:");
    for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++)
        printf("  %-18s %s\n", profiles[i].name, profiles[i].what);
    puts("\nFaults:");
    for (size_t i = 0; i < AD_NUM_FAULTS; i++)
        printf("  %-18s %s\n", faults[i].name, faults[i].what);
}

static void set_port(enum ibv_port_state state, uint32_t event)
{
    profile.device.ports[0].attr.state = state;
    async_event_to_all(event, 1);
}

static void port_is_up(struct timer *timer)
{
    (void)timer;
    set_port(IBV_PORT_ACTIVE, IBV_EVENT_PORT_ACTIVE);
}

/* The address is the last one of the table. */
static void set_address(bool there)
{
    struct ad_port *port = &profile.device.ports[0];

    port->num_gids = there ? 2 : 1;
    async_event_to_all(IBV_EVENT_GID_CHANGE, 1);
}

static void address_is_back(struct timer *timer)
{
    (void)timer;
    set_address(true);
}

enum { LIDS_APART = 1000 };

/* The subnet manager has given the port another one, or gives it its own again. */
static void set_lid(bool own)
{
    static uint16_t first;
    uint16_t *lid = &profile.device.ports[0].attr.lid;

    if (!first)
        first = *lid;
    *lid = (uint16_t)(own ? first : first + LIDS_APART);
    async_event_to_all(IBV_EVENT_LID_CHANGE, 1);
}

static void lid_is_back(struct timer *timer)
{
    (void)timer;
    set_lid(true);
}

static void change_lid(uint32_t ms)
{
    if (!lid_timer.due)
        timer_init(&lid_timer, lid_is_back);
    timer_stop(&lid_timer);
    set_lid(!ms);
    if (ms)
        timer_set(&lid_timer, now_ns() + ms * NS_PER_MS);
}

void fault_new_process(const struct proc *proc)
{
    AD_STORE(proc->bells->posts_to_go, left[AD_FAULT_POST]);
}

static void fail_posts(void)
{
    for (struct vp_list *l = all_procs.next; l != &all_procs; l = l->next) {
        const struct proc *proc = vp_container_of(l, struct proc, link);
        if (proc->bells)
            fault_new_process(proc);
    }
}

int fault_set(uint32_t what, uint32_t count)
{
    if (what >= AD_NUM_FAULTS)
        return EINVAL;
    left[what] = count;
    seen[what] = 0;
    if (what == AD_FAULT_POST)
        fail_posts();
    if (what == AD_FAULT_SILENCE)
        silent_until = now_ns() + count * NS_PER_MS;
    if (what == AD_FAULT_DEVICE)
        async_event_to_all(IBV_EVENT_DEVICE_FATAL, 0);
    if (what == AD_FAULT_QUEUES && count)
        queues_to_error(count == 1 ? K_CQ : K_SRQ);
    if (what == AD_FAULT_PEERMEM)
        profile.device.takes_any_memory = count;
    if (what == AD_FAULT_RATE)
        wires_end();
    if (what == AD_FAULT_FORK)
        profile.device.shares_pages = count;
    if (what == AD_FAULT_LID)
        change_lid(count);
    if (what == AD_FAULT_GID) {
        if (!gid_timer.due)
            timer_init(&gid_timer, address_is_back);
        set_address(false);
        timer_set(&gid_timer, now_ns() + count * NS_PER_MS);
    }
    if (what == AD_FAULT_PORT) {
        if (!port_timer.due)
            timer_init(&port_timer, port_is_up);
        timer_stop(&port_timer);
        if (count) {
            set_port(IBV_PORT_DOWN, IBV_EVENT_PORT_ERR);
            timer_set(&port_timer, now_ns() + count * NS_PER_MS);
        } else {
            port_is_up(&port_timer);
        }
    }
    return 0;
}

bool fault_hits(enum ad_fault what)
{
    if (!left[what])
        return false;
    if (what == AD_FAULT_UNKNOWN || what >= AD_FAULT_LOSS)
        return ++seen[what] % left[what] == 0;
    if (what == AD_FAULT_CREATE)
        return ++seen[what] == left[what];
    left[what]--;
    return true;
}

uint8_t fault_sl(void)
{
    return (uint8_t)left[AD_FAULT_SL];
}

uint64_t fault_late_ms(void)
{
    return left[AD_FAULT_PLACED_LATE];
}

uint64_t fault_last_late_ms(void)
{
    return left[AD_FAULT_LAST_LATE];
}

uint64_t fault_rate(void)
{
    return left[AD_FAULT_RATE];
}

bool fault_holds(uint32_t wire)
{
    return left[AD_FAULT_HOLD] == wire;
}

bool fault_cuts(uint32_t wire)
{
    return left[AD_FAULT_CUT] == wire || left[AD_FAULT_CUT] > AD_MAX_PORTS;
}

bool fault_is_silent(void)
{
    return profile.device.ports[0].attr.state != IBV_PORT_ACTIVE ||
           (silent_until && now_ns() < silent_until);
}

bool read_number(const char *text, uint64_t *number)
{
    char *end;

    *number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

/* WHAT=N */
bool fault_parse(const char *text)
{
    const char *eq = strchr(text, '=');
    size_t length = eq ? (size_t)(eq - text) : 0;
    uint64_t n;

    for (uint32_t i = 0; eq && i < AD_NUM_FAULTS; i++)
        if (strlen(faults[i].name) == length && strncmp(faults[i].name, text, length) == 0)
            return read_number(eq + 1, &n) && n <= UINT32_MAX && fault_set(i, (uint32_t)n) == 0;
    return false;
}
