/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of ports: as the kernel has them, as text, and as the provider publishes them. */
#ifndef VP_ADDRESS_H
#define VP_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include "verbs/prov_types.h"

/* By librdmacm: */
struct __attribute__((packed)) vp_port_entry {
    uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port;  /* network order */
};
struct __attribute__((packed)) vp_address {
    uint8_t version;
    uint8_t num_ports;
    uint8_t ud; /* 0; 1: it is a struct vp_ud_address */
    uint8_t key[VP_KEY_BYTES];
    struct vp_port_entry ports[VP_MAX_PORTS];
};
/* By datagrams; all ports have GIDs that begin with the same bytes: */
struct __attribute__((packed)) vp_ud_entry {
    uint8_t interface[8]; /* the rest of the GID */
    uint16_t lid;
    uint8_t qpn[3]; /* lowest byte first */
};
struct __attribute__((packed)) vp_ud_address {
    uint8_t version;
    uint8_t num_ports;
    uint8_t ud;
    uint8_t key[VP_UD_KEY_BYTES]; /* begins where the other one's does */
    uint32_t qkey;
    uint8_t subnet[8];
    struct vp_ud_entry ports[VP_MAX_PORTS];
};
_Static_assert(sizeof(struct vp_address) <= PROV_ADDR_MAX &&
                   sizeof(struct vp_ud_address) <= PROV_ADDR_MAX,
               "an address must fit");
union vp_any_address {
    struct vp_address cm;
    struct vp_ud_address ud;
};

/* The provider's own address; returns its size, at most PROV_ADDR_MAX. */
size_t vp_address(struct prov *prov, void *buf);
/* Its first port's, IPv4 as ::ffff:a.b.c.d. False: it has none. */
bool vp_ip(struct prov *prov, uint8_t ip[16]);
/* A peer's address. 0; -EINVAL: too long; -EPROTO: none of this version. */
int vp_address_read(const void *bytes, size_t size, union vp_any_address *address);
/* Where the peer listens for its TNI. `from`: the port that will talk to it, as a link-local
 * address means something on its link only. 0; -EPROTO, logged: it connects in another way. */
int vp_address_of_tni(const union vp_any_address *address, unsigned int tni,
                      const struct vp_port *from, struct vp_peer *peer);
const char *vp_addr_text(const union vp_sockaddr *addr, char *buf, size_t size);
/* In network order. */
uint16_t vp_ip_port(const union vp_sockaddr *addr);
void vp_set_ip_port(union vp_sockaddr *addr, uint16_t port);

#endif
