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

#include "verbs/prov_types.h"

enum { VP_MAX_FOUND = 32 };

/* A listening port. */
struct vp_found {
    struct vp_port port;
    char name[IBV_SYSFS_NAME_MAX + 8]; /* device:port */
    bool infiniband;
    bool near;         /* near to every CPU that this process may run on */
    char why_not[256]; /* empty: the port is used */
};

/* The network of an address, by the interface that has the address; otherwise /24 or /64. */
void vp_network_of(const union vp_sockaddr *addr, struct vp_network *out);
/* The subnet of an InfiniBand port. */
void vp_network_of_gid(const union ibv_gid *gid, struct vp_network *out);
/* As text: 10.1.0.0/16. */
const char *vp_network_text(const struct vp_network *network, char *buf, size_t size);

/* Mbit/s; 0: the device does not say. */
unsigned int vp_port_speed(const struct ibv_port_attr *attr);

/* The NUMA node of a device (-1: not known); is it near to every CPU of this process? */
int vp_numa_node(const char *device);
bool vp_is_near(const char *device);
/* Are all these CPUs in a list such as 0-3,8-11? */
bool vp_cpus_are_in(const char *list, const cpu_set_t *cpus);

/*
 * Fills in why_not. Unless the user has `chosen` ports or networks, these are not used: ports with
 * less than half the speed of the fastest; Ethernet beside InfiniBand; and ports outside the
 * network whose ports are the fastest together (of equal networks, the one with the lowest
 * address).
 */
void vp_rails_choose(struct vp_found *found, unsigned int count, bool chosen);

/* Moves the used ports to the front, and returns their number. Unless the user has chosen, near
 * ports come first, and among equal ports process n of its host begins with the n-th. */
unsigned int vp_rails_sort(struct vp_found *found, unsigned int count, bool chosen,
                           unsigned int local_rank);

#endif
