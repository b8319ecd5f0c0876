/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects which of the usable ports are used, and the order in which the TNIs get them.
 *
 * Any TNI of a process communicates with any TNI of another process, so all ports of a process must
 * reach all ports of its peers. Several ports of a host are used only if they are in one network.
 * Hosts that are alike select the same network.
 */
#ifndef VP_SELECT_H
#define VP_SELECT_H

#include <sched.h>
#include <stdbool.h>

#include "netdev.h"
#include "verbs/prov_types.h"

enum { VP_MAX_USABLE = 32, VP_NETWORK_TEXT = 64, VP_FUNCTION_TEXT = 16 };

/* A port on which this process can listen. */
struct vp_usable_port {
    struct vp_port port;
    char name[IBV_SYSFS_NAME_MAX + 8]; /* device:port */
    bool infiniband;
    struct vp_network subnet; /* InfiniBand: network of the GID */
    struct vp_network fabric; /* network of all ports that it reaches */
    bool near;                /* near to every CPU on which this process may run */
    char bond[VP_BOND_TEXT];  /* RoCE: bond that has its address; empty: none */
    uint8_t paths;            /* RoCE: number of ports over which the bond sends */
    char same_address_as[IBV_SYSFS_NAME_MAX + 8]; /* RoCE: another port; empty: none */
    char pci_function[VP_FUNCTION_TEXT];          /* from vp_pci_function() */
    uint64_t adapter_id;                          /* from vp_adapter_id() */
    int8_t connector;                             /* from vp_adapter_connector(); -1: unknown */
    char why_not[256];                            /* empty: the port is used */
};

/* Gets the network of an address from the interface with the address; without such an interface,
 * /24 or /64. */
void vp_network_of(const union vp_sockaddr *addr, struct vp_network *out);
/* Gets the subnet of an InfiniBand port. */
void vp_network_of_gid(const union ibv_gid *gid, struct vp_network *out);
/* Returns the text of a network, such as 10.1.0.0/16. */
const char *vp_network_text(const struct vp_network *network, char *buf, size_t size);

/* Port attributes, also with headers older than libibverbs: rdma-core 50 has appended
 * active_speed_ex to struct ibv_port_attr. */
union vp_port_attr {
    struct ibv_port_attr attr;
    struct {
        uint8_t older[52];
        uint32_t speed_ex; /* 0: use active_speed */
    } newer;
    uint8_t room[64];
};

/* Returns 0 or an errno. */
int vp_query_port(struct ibv_context *context, unsigned int port, union vp_port_attr *out);
/* Returns Mbit/s; 0: unknown. */
unsigned int vp_port_speed(const union vp_port_attr *attr);

/* RoCE: returns the traffic class that the administrator set for the port; -1: none. */
int vp_traffic_class(const char *device, unsigned int port);
/* Returns the default traffic class of librdmacm's connections; 0: none. */
int vp_rdmacm_class(const char *device, unsigned int port);

/* Gets the PCI function that has the device's physical ports, such as 0000:03:00.0: for a virtual
 * function or a subfunction, the physical function. Empty: unknown. */
void vp_pci_function(const char *device, char text[VP_FUNCTION_TEXT]);
/* Returns a number that identifies the adapter; 0: unknown. */
uint64_t vp_adapter_id(const struct ibv_device_attr *attr);
/* Returns the number of the adapter's cable connector for a device's port, from 0 on; -1: unknown.
 * `function`: from vp_pci_function(). */
int vp_adapter_connector(const char *device, unsigned int port, const char *function);
/* Numbers the physical links of the used ports, which come first: `phys_link`. Two ports share a
 * link if they belong to one bond, are the same port of functions of one PCI function, or have the
 * same connector of one adapter. */
void vp_ports_find_links(struct vp_usable_port *usable, unsigned int used);
/* Returns how many of the following ports (cyclically) take parts of this port's long writes: each
 * needs a physical link that the others do not use. */
unsigned int vp_rails_count_further(const struct vp_port *ports, unsigned int count,
                                    unsigned int port);
/* Describes which ports long writes of this port use, or why only one. */
void vp_rails_describe(const struct vp_prov *prov, unsigned int port, char *text, size_t size);

/* Return the NUMA node of a device (-1: unknown), and whether the device is near to every CPU of
 * this process. */
int vp_numa_node(const char *device);
bool vp_is_numa_local(const char *device);
/* True if all these CPUs are in a list such as 0-3,8-11. */
bool vp_cpus_are_in(const char *list, const cpu_set_t *cpus);

/*
 * Fills in `fabric`: the network of the port. For InfiniBand ports that reach each other, whatever
 * their IP addresses, it is the lowest of their networks. `reaches` tests two ports whose GIDs have
 * the same subnet prefix, since many fabrics have the default prefix. NULL: only IP networks count.
 */
void vp_ports_group_fabrics(struct vp_usable_port *usable, unsigned int count,
                            bool (*reaches)(const struct vp_port *from, const struct vp_port *to));

/* True if used ports reach each other, but not by IP. The used ports must come first. */
bool vp_ports_need_datagrams(const struct vp_usable_port *usable, unsigned int used);

/*
 * Fills in why_not and `same_address_as`. Only one of the RoCE ports with the same address is used,
 * preferably one on which librdmacm listens: an interface spans these ports, and packets for the
 * address arrive at any of them. Unless the user has `chosen` ports or networks, this also excludes
 * ports with less than half the speed of the fastest port; Ethernet beside InfiniBand; all networks
 * but the fastest (of several, the one with the lowest address); and slower ports of this network,
 * unless the network is faster with them. Since all TNIs are equally likely to be used, n ports are
 * n times as fast as the slowest of them.
 */
void vp_ports_select(struct vp_usable_port *usable, unsigned int count, bool chosen);

/* Moves the used ports to the front, and returns their number. Unless the user has chosen, near
 * ports come first, and among equal ports process n of its host begins with the n-th. */
unsigned int vp_ports_sort(struct vp_usable_port *usable, unsigned int count, bool chosen,
                           unsigned int local_rank);

#endif
