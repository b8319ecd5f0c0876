/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of ports: see address.h. */
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/log.h"

enum { ADDRESS_VERSION = 8, SUBNET_BYTES = 8 };

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

bool vp_same_ip(const union vp_sockaddr *a, const union vp_sockaddr *b)
{
    if (a->sa.sa_family != b->sa.sa_family)
        return false;
    return a->sa.sa_family == AF_INET
               ? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr
               : memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0;
}

const char *vp_addr_text(const union vp_sockaddr *addr, char *buf, size_t size)
{
    const void *raw = addr->sa.sa_family == AF_INET ? (const void *)&addr->in.sin_addr
                                                    : (const void *)&addr->in6.sin6_addr;

    return inet_ntop(addr->sa.sa_family, raw, buf, (socklen_t)size) ? buf : "?";
}

static void pack_ip_entry(const union vp_sockaddr *addr, struct vp_port_entry *entry)
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

static size_t pack_ud_address(const struct vp_prov *prov, void *buf)
{
    struct vp_ud_address address = {.version = ADDRESS_VERSION,
                                    .num_ports = (uint8_t)prov->num_ports,
                                    .ud = 1,
                                    .qkey = prov->qkey};

    memcpy(address.key, prov->ud_key, sizeof(address.key));
    memcpy(address.subnet, prov->ports[0].at.gid.raw, sizeof(address.subnet));
    for (unsigned int i = 0; i < prov->num_ports; i++) {
        const struct vp_ud_addr *at = &prov->ports[i].at;
        struct vp_ud_entry *entry = &address.ports[i];
        memcpy(entry->interface, at->gid.raw + sizeof(address.subnet), sizeof(entry->interface));
        entry->lid = at->lid;
        for (unsigned int byte = 0; byte < sizeof(entry->qpn); byte++)
            entry->qpn[byte] = (uint8_t)(at->qpn >> 8 * byte);
    }
    size_t size =
        offsetof(struct vp_ud_address, ports) + prov->num_ports * sizeof(struct vp_ud_entry);
    memcpy(buf, &address, size);
    return size;
}

static size_t pack_ip_address(const struct vp_prov *prov, void *buf)
{
    struct vp_address address = {.version = ADDRESS_VERSION, .num_ports = (uint8_t)prov->num_ports};

    memcpy(address.key, prov->key, sizeof(address.key));
    for (unsigned int i = 0; i < prov->num_ports; i++)
        pack_ip_entry(&prov->ports[i].addr, &address.ports[i]);
    size_t size =
        offsetof(struct vp_address, ports) + prov->num_ports * sizeof(struct vp_port_entry);
    memcpy(buf, &address, size);
    return size;
}

size_t vp_address(struct prov *base, void *buf)
{
    const struct vp_prov *prov = vp_prov(base);

    return prov->ports[0].ud ? pack_ud_address(prov, buf) : pack_ip_address(prov, buf);
}

bool vp_ip(struct prov *base, uint8_t ip[16])
{
    const union vp_sockaddr *addr = &vp_prov(base)->ports[0].addr;
    struct vp_port_entry entry;

    if (addr->sa.sa_family != AF_INET && addr->sa.sa_family != AF_INET6)
        return false;
    pack_ip_entry(addr, &entry);
    memcpy(ip, entry.ip, sizeof(entry.ip));
    return true;
}

int vp_address_read(const void *bytes, size_t size, union vp_any_address *address)
{
    const struct vp_address *head = &address->cm;

    if (size > sizeof(*address))
        return -EINVAL;
    memset(address, 0, sizeof(*address));
    memcpy(address, bytes, size);
    size_t min_size =
        head->ud
            ? offsetof(struct vp_ud_address, ports) + head->num_ports * sizeof(struct vp_ud_entry)
            : offsetof(struct vp_address, ports) + head->num_ports * sizeof(struct vp_port_entry);
    if (head->version != ADDRESS_VERSION || head->ud > 1 || !head->num_ports ||
        head->num_ports > VP_MAX_PORTS || size < min_size) {
        ut_debug(VP_CAT, "a peer's address is malformed (%zu bytes, version %u)", size,
                 head->version);
        return -EPROTO;
    }
    return 0;
}

static void unpack_ud_entry(const struct vp_ud_address *address, const struct vp_ud_entry *entry,
                            struct vp_ud_addr *at)
{
    memcpy(at->gid.raw, address->subnet, sizeof(address->subnet));
    memcpy(at->gid.raw + sizeof(address->subnet), entry->interface, sizeof(entry->interface));
    at->lid = entry->lid;
    for (unsigned int byte = 0; byte < sizeof(entry->qpn); byte++)
        at->qpn |= (uint32_t)entry->qpn[byte] << 8 * byte;
    at->qkey = address->qkey;
    memcpy(at->key, address->key, sizeof(at->key));
}

static void unpack_ip_entry(const struct vp_port_entry *entry, const struct vp_port *from,
                            union vp_sockaddr *addr)
{
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

static const char *gid_text(const union ibv_gid *gid, char *buf, size_t size)
{
    return inet_ntop(AF_INET6, gid->raw, buf, (socklen_t)size) ? buf : "?";
}

/* For datagrams: checks that both ports are of one kind, and InfiniBand ports in one subnet. */
static int check_fabric(const struct vp_port *from, const struct vp_ud_addr *at)
{
    static const char *const kinds[] = {"Ethernet", "InfiniBand"};
    bool lcl_is_infiniband = from->gid_index < 0, rmt_is_infiniband = at->lid != 0;
    char own[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN];

    gid_text(&from->at.gid, own, sizeof(own));
    gid_text(&at->gid, other, sizeof(other));
    if (lcl_is_infiniband != rmt_is_infiniband) {
        ut_error(VP_CAT,
                 "%s is %s, and a peer's port (GID %s) is %s: no packet reaches it. "
                 "UTOFU_VERBS_DEVICES has to name ports of one kind on all hosts",
                 from->name, kinds[lcl_is_infiniband], other, kinds[rmt_is_infiniband]);
        return -EHOSTUNREACH;
    }
    if (lcl_is_infiniband && memcmp(&from->at.gid, &at->gid, SUBNET_BYTES) != 0) {
        ut_error(VP_CAT,
                 "%s (GID %s) is in another InfiniBand subnet than a peer's port (GID %s), and "
                 "datagrams pass no router: name ports of one subnet in UTOFU_VERBS_DEVICES, or "
                 "give them IP addresses and set UTOFU_VERBS_CONNECT=rdmacm",
                 from->name, own, other);
        return -EHOSTUNREACH;
    }
    return 0;
}

const char *vp_peer_text(const struct vp_peer *peer, char *buf, size_t size)
{
    char gid[INET6_ADDRSTRLEN];

    if (!peer->ud)
        return vp_addr_text(&peer->ip, buf, size);
    gid_text(&peer->at.gid, gid, sizeof(gid));
    if (peer->at.lid)
        snprintf(buf, size, "LID %u (GID %s)", peer->at.lid, gid);
    else
        snprintf(buf, size, "GID %s", gid);
    return buf;
}

int vp_address_of_tni(const union vp_any_address *address, unsigned int tni,
                      const struct vp_port *from, struct vp_peer *peer)
{
    unsigned int port = tni % address->cm.num_ports;

    memset(peer, 0, sizeof(*peer));
    peer->ud = address->cm.ud;
    if (peer->ud != (from->ud != NULL)) {
        ut_error(VP_CAT,
                 "a peer connects by %s, and %s by %s: set UTOFU_VERBS_CONNECT to one value for "
                 "the whole job",
                 peer->ud ? "datagrams" : "rdma_cm", from->name,
                 peer->ud ? "rdma_cm" : "datagrams");
        return -EHOSTUNREACH;
    }
    if (!peer->ud) {
        unpack_ip_entry(&address->cm.ports[port], from, &peer->ip);
        return 0;
    }
    unpack_ud_entry(&address->ud, &address->ud.ports[port], &peer->at);
    return check_fabric(from, &peer->at);
}
