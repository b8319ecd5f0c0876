/* SPDX-License-Identifier: Apache-2.0 */
/* The network interfaces behind RoCE ports: of this network namespace or another one, and bonds. */
#ifndef VP_NETDEV_H
#define VP_NETDEV_H

#include <ifaddrs.h>
#include <stdbool.h>
#include <stddef.h>

#include "verbs/prov_types.h"

enum { VP_BOND_TEXT = 48 };

/* The addresses of the interfaces of this network namespace: for freeifaddrs(). NULL: not known. */
struct ifaddrs *vp_netdev_addresses(void);

/* Is the address one of them, or the link-local one that follows from the hardware address of one,
 * which needs not have it? True where that is not known. */
bool vp_netdev_has(const struct ifaddrs *here, const union vp_sockaddr *addr);

/* Is the interface a bond? `text`: its name and mode, as bond0 (802.3ad); else it is empty. */
bool vp_netdev_bond(unsigned int ifindex, char *text, size_t size);

/* By how many of its ports does the bond send at once? 1: not known, or it is none. */
uint8_t vp_netdev_paths(unsigned int ifindex);

#endif
