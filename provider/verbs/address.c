/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of ports: see address.h. */
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "util/log.h"

enum { ADDRESS_VERSION = 3 };

uint16_t vp_ip_port(const union vp_sockaddr *addr)
{
    return addr->sa.sa_family == AF_INET ? addr->in.sin_port : addr->in6.sin6_port;
}

void vp_set_ip_port(union vp_sockaddr *addr, uint16_t port)
{
    if (addr->sa.sa_family == AF_INET)
        addr->in.sin_port = port;
    else
        addr->in6.sin6_port = port;
}

const char *vp_addr_text(const union vp_sockaddr *addr, char *buf, size_t size)
{
    const void *raw = addr->sa.sa_family == AF_INET ? (const void *)&addr->in.sin_addr
                                                    : (const void *)&addr->in6.sin6_addr;

    return inet_ntop(addr->sa.sa_family, raw, buf, (socklen_t)size) ? buf : "?";
}

static void to_entry(const union vp_sockaddr *addr, struct vp_port_entry *entry)
{
    static const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (addr->sa.sa_family == AF_INET) {
        memcpy(entry->ip, v4_mapped, sizeof(v4_mapped));
        memcpy(entry->ip + 12, &addr->in.sin_addr, 4);
        entry->port = addr->in.sin_port;
    } else {
        memcpy(entry->ip, &addr->in6.sin6_addr, 16);
        entry->port = addr->in6.sin6_port;
    }
}

size_t vp_address(struct prov *base, void *buf)
{
    struct vp_prov *prov = vp_prov(base);
    struct vp_address address = {.version = ADDRESS_VERSION, .num_ports = (uint8_t)prov->num_ports};

    memcpy(address.key, prov->key, sizeof(address.key));
    for (unsigned int i = 0; i < prov->num_ports; i++)
        to_entry(&prov->ports[i].addr, &address.ports[i]);
    size_t size =
        offsetof(struct vp_address, ports) + prov->num_ports * sizeof(struct vp_port_entry);
    memcpy(buf, &address, size);
    return size;
}

void vp_ip(struct prov *base, uint8_t ip[16])
{
    struct vp_port_entry entry;

    to_entry(&vp_prov(base)->ports[0].addr, &entry);
    memcpy(ip, entry.ip, sizeof(entry.ip));
}

int vp_address_read(const void *bytes, size_t size, struct vp_address *address)
{
    size_t head = offsetof(struct vp_address, ports);

    if (size > sizeof(*address))
        return -EINVAL;
    memset(address, 0, sizeof(*address));
    memcpy(address, bytes, size);
    if (address->version != ADDRESS_VERSION || !address->num_ports ||
        address->num_ports > VP_MAX_PORTS ||
        size < head + address->num_ports * sizeof(struct vp_port_entry)) {
        ut_debug(VP_CAT, "a peer's address is garbled (%zu bytes, version %u)", size,
                 address->version);
        return -EPROTO;
    }
    return 0;
}

void vp_address_of_tni(const struct vp_address *address, unsigned int tni,
                       const struct vp_port *from, struct vp_peer *peer)
{
    union vp_sockaddr *addr = &peer->ip;
    const struct vp_port_entry *entry = &address->ports[tni % address->num_ports];

    memset(peer, 0, sizeof(*peer));
    memcpy(&addr->in6.sin6_addr, entry->ip, 16);
    if (IN6_IS_ADDR_V4MAPPED(&addr->in6.sin6_addr)) {
        memset(addr, 0, sizeof(*addr));
        addr->in.sin_family = AF_INET;
        memcpy(&addr->in.sin_addr, entry->ip + 12, 4);
        addr->in.sin_port = entry->port;
        return;
    }
    addr->in6.sin6_family = AF_INET6;
    addr->in6.sin6_port = entry->port;
    if (IN6_IS_ADDR_LINKLOCAL(&addr->in6.sin6_addr) && from->addr.sa.sa_family == AF_INET6)
        addr->in6.sin6_scope_id = from->addr.in6.sin6_scope_id;
}
