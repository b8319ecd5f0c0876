/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of ports: in the kernel's format, as text, and as the provider publishes them. */
#ifndef VP_ADDRESS_H
#define VP_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include "verbs/prov_types.h"

enum { VP_PEER_TEXT = 80 };

/* Published addresses for librdmacm. */
struct __attribute__((packed)) vp_port_entry {
    uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port;  /* network order */
};
struct __attribute__((packed)) vp_address {
    uint8_t version;
    uint8_t num_ports;
    uint8_t ud; /* 0; 1: the address is a struct vp_ud_address */
    uint8_t key[VP_KEY_BYTES];
    struct vp_port_entry ports[VP_MAX_PORTS];
};
/* Published addresses for datagrams. The GIDs of all ports begin with the same bytes. */
struct __attribute__((packed)) vp_ud_entry {
    uint8_t interface[8]; /* the rest of the GID */
    uint16_t lid;
    uint8_t qpn[3]; /* lowest byte first */
};
struct __attribute__((packed)) vp_ud_address {
    uint8_t version;
    uint8_t num_ports;
    uint8_t ud;
    uint8_t key[VP_UD_KEY_BYTES]; /* begins at the same offset as in struct vp_address */
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

/* Writes the provider's own address. Returns its size, at most PROV_ADDR_MAX. */
size_t vp_address(struct prov *prov, void *buf);
/* Gets the IP address of the provider's first port, IPv4 as ::ffff:a.b.c.d. False: no IP
 * address. */
bool vp_ip(struct prov *prov, uint8_t ip[16]);
/* Reads a peer's address. Returns 0; -EINVAL: too long; -EPROTO: of another version. */
int vp_address_read(const void *bytes, size_t size, union vp_any_address *address);
/* Gets the address at which the peer listens for its TNI. `from`: this side's port, since a
 * link-local address is valid on one link only. Returns 0; -EHOSTUNREACH (logged): the peer uses
 * another connection manager, or its port is in another fabric. */
int vp_address_of_tni(const union vp_any_address *address, unsigned int tni,
                      const struct vp_port *from, struct vp_peer *peer);
/* Compares the addresses without their port numbers. */
bool vp_same_ip(const union vp_sockaddr *a, const union vp_sockaddr *b);
const char *vp_peer_text(const struct vp_peer *peer, char *buf, size_t size);
const char *vp_addr_text(const union vp_sockaddr *addr, char *buf, size_t size);
/* In network order. */
uint16_t vp_ip_port(const union vp_sockaddr *addr);
void vp_set_ip_port(union vp_sockaddr *addr, uint16_t port);

#endif
