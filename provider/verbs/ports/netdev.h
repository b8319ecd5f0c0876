/* SPDX-License-Identifier: Apache-2.0 */
/* Network interfaces of RoCE ports: their network namespace, and bonds. */
#ifndef VP_NETDEV_H
#define VP_NETDEV_H

#include <ifaddrs.h>
#include <stdbool.h>
#include <stddef.h>

#include "verbs/prov_types.h"

enum { VP_BOND_TEXT = 48 };

/* Returns the addresses of the interfaces in this network namespace, to be freed with
 * freeifaddrs(). NULL: unknown. */
struct ifaddrs *vp_netdev_addresses(void);

/* True if an interface has the address, or if the address is the link-local one that follows from
 * an interface's hardware address. Also true if the addresses are unknown. */
bool vp_netdev_has(const struct ifaddrs *addresses, const union vp_sockaddr *addr);

/* True if the interface is a bond. `text`: its name and mode, such as bond0 (802.3ad); otherwise
 * empty. */
bool vp_netdev_bond(unsigned int ifindex, char *text, size_t size);

/* Returns the number of ports over which the bond sends; 1: unknown, or not a bond. */
uint8_t vp_netdev_paths(unsigned int ifindex);

#endif
