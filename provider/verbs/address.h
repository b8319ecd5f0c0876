/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of ports: as the kernel has them, as text, and as the provider publishes them. */
#ifndef VP_ADDRESS_H
#define VP_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include "prov_types.h"

struct __attribute__((packed)) vp_port_entry {
    uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port;  /* network order */
};
struct __attribute__((packed)) vp_address {
    uint8_t version;
    uint8_t num_ports;
    uint8_t key[VP_KEY_BYTES];
    struct vp_port_entry ports[VP_MAX_PORTS];
};
_Static_assert(sizeof(struct vp_address) <= PROV_ADDR_MAX, "the address must fit");

/* The provider's own address; returns its size, at most PROV_ADDR_MAX. */
size_t vp_address(struct prov *prov, void *buf);
/* Its first port's, IPv4 as ::ffff:a.b.c.d. */
void vp_ip(struct prov *prov, uint8_t ip[16]);
/* A peer's address. 0; -EINVAL: too long; -EPROTO: none of this version. */
int vp_address_read(const void *bytes, size_t size, struct vp_address *address);
/* Where the peer listens for its TNI. `from`: the port that will talk to it, as a link-local
 * address means something on its link only. */
void vp_address_of_tni(const struct vp_address *address, unsigned int tni,
                       const struct vp_port *from, struct vp_peer *peer);
const char *vp_addr_text(const union vp_sockaddr *addr, char *buf, size_t size);
/* In network order. */
uint16_t vp_ip_port(const union vp_sockaddr *addr);
void vp_set_ip_port(union vp_sockaddr *addr, uint16_t port);

#endif
