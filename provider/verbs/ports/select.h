/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the usable ports are used, and the order in which the TNIs get them.
 *
 * Any TNI of a process communicates with any TNI of another one, so all ports of a process must
 * reach all ports of its peers. Several ports of a host are used only if they are in one network,
 * which is the same one on all hosts that are alike.
 */
#ifndef VP_RAILS_H
#define VP_RAILS_H

#include <sched.h>
#include <stdbool.h>

#include "netdev.h"
#include "verbs/prov_types.h"

enum { VP_MAX_USABLE = 32, VP_NETWORK_TEXT = 64, VP_FUNCTION_TEXT = 16 };

/* A listening port. */
struct vp_usable_port {
    struct vp_port port;
    char name[IBV_SYSFS_NAME_MAX + 8]; /* device:port */
    bool infiniband;
    struct vp_network subnet;            /* InfiniBand: of its GID */
    struct vp_network fabric;            /* of all ports that it reaches */
    bool near;                           /* to every CPU that this process may run on */
    char bond[VP_BOND_TEXT];             /* RoCE: the bond that has its address; empty: none */
    uint8_t paths;                       /* RoCE: by so many ports the bond sends at once */
    char shares[IBV_SYSFS_NAME_MAX + 8]; /* RoCE: the port with the same address; empty: none */
    char function[VP_FUNCTION_TEXT];     /* vp_pci_function() its device */
    uint64_t board;                      /* vp_adapter_id() its device */
    int8_t socket;                       /* vp_adapter_socket() it; -1: not known */
    char why_not[256];                   /* empty: it is used */
};

/* The network of an address, by the interface that has the address; otherwise /24 or /64. */
void vp_network_of(const union vp_sockaddr *addr, struct vp_network *out);
/* The subnet of an InfiniBand port. */
void vp_network_of_gid(const union ibv_gid *gid, struct vp_network *out);
/* As text: 10.1.0.0/16. */
const char *vp_network_text(const struct vp_network *network, char *buf, size_t size);

/* What a port is, also where the headers are older than libibverbs: rdma-core 50 has appended
 * active_speed_ex to struct ibv_port_attr. */
union vp_port_attr {
    struct ibv_port_attr attr;
    struct {
        uint8_t older[52];
        uint32_t speed_ex; /* 0: active_speed says it */
    } newer;
    uint8_t room[64];
};

/* 0 or an errno. */
int vp_query_port(struct ibv_context *context, unsigned int port, union vp_port_attr *out);
/* Mbit/s; 0: the device does not say. */
unsigned int vp_port_speed(const union vp_port_attr *attr);

/* RoCE: the traffic class that the administrator gave to the port; -1: none. */
int vp_traffic_class(const char *device, unsigned int port);
/* The one that librdmacm's connections have, where no other is set; 0: none is set. */
int vp_rdmacm_class(const char *device, unsigned int port);

/* The PCI function that has the device's physical ports, as 0000:03:00.0: that of a virtual
 * function or of a subfunction is the one that it is part of. Empty: not known. */
void vp_pci_function(const char *device, char text[VP_FUNCTION_TEXT]);
/* A number that all devices of one adapter have, and no other adapter; 0: not known. */
uint64_t vp_adapter_id(const struct ibv_device_attr *attr);
/* Which of the adapter's sockets, where the cables are, the port of a device has, from 0 on; -1:
 * not known. `function`: vp_pci_function() the device. */
int vp_adapter_socket(const char *device, unsigned int port, const char *function);
/* Numbers the physical links of the used ports, which are the first: `wire`. Two ports have one
 * link if they are of one bond, or one port of functions that are part of one, or have one socket
 * of one adapter. */
void vp_rails_find_links(struct vp_usable_port *found, unsigned int used);
/* How many of the ports behind this one, the first one following the last one, take parts of its
 * long writes: each by a physical link that no other has. */
unsigned int vp_rails_count_further(const struct vp_port *ports, unsigned int count,
                                    unsigned int port);
/* By which ports long writes of this one go, or why by one. */
void vp_rails_describe(const struct vp_prov *prov, unsigned int port, char *text, size_t size);

/* The NUMA node of a device (-1: not known); is it near to every CPU of this process? */
int vp_numa_node(const char *device);
bool vp_is_near(const char *device);
/* Are all these CPUs in a list such as 0-3,8-11? */
bool vp_cpus_are_in(const char *list, const cpu_set_t *cpus);

/*
 * Fills in `fabric`: the network, and for InfiniBand ports that reach each other, whatever their IP
 * addresses, the lowest of their networks. `reaches` is asked of two ports whose GIDs are of one
 * subnet: the default subnet prefix is that of many fabrics. NULL: only IP networks count.
 */
void vp_rails_group_fabrics(struct vp_usable_port *found, unsigned int count,
                            bool (*reaches)(const struct vp_port *from, const struct vp_port *to));

/* Are ports in use that reach each other, but not by IP? The used ones are the first. */
bool vp_rails_need_datagrams(const struct vp_usable_port *found, unsigned int used);

/*
 * Fills in why_not and `shares`. Of RoCE ports with one address one is used: an interface spans
 * both, and what comes for the address arrives at either. Preferred is the one that librdmacm
 * listens at. Unless the user has `chosen` ports or networks, not used are moreover: ports that
 * have less than half the speed of the fastest; Ethernet beside InfiniBand; all that are not of the
 * network that is the fastest, or of those networks the one with the lowest address; and the slower
 * ones of this network, unless they are so many that it is faster with them. As every TNI is as
 * likely to be used, n ports are n times as fast as the slowest of them.
 */
void vp_rails_choose(struct vp_usable_port *found, unsigned int count, bool chosen);

/* Moves the used ports to the front, and returns their number. Unless the user has chosen, near
 * ports come first, and among equal ports process n of its host begins with the n-th. */
unsigned int vp_rails_sort(struct vp_usable_port *found, unsigned int count, bool chosen,
                           unsigned int local_rank);

#endif
