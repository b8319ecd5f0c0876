/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of the verbs provider (ports/address.c): what a process publishes is what its peers
 * read, and what is malformed or of another fabric is refused. The interfaces of RoCE ports
 * (ports/netdev.c), whose files and names the test provides.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../harness/check.h"
#include "util/fd.h"
#include "util/log.h"
#include "verbs/ports/address.h"
#include "verbs/ports/netdev.h"

static char last_line[600];

static void note_line(enum ut_log_level level, const char *category, const char *format, ...)
{
    va_list ap;

    CHECK(strcmp(category, "verbs") == 0 && level == UT_LOG_ERROR);
    va_start(ap, format);
    vsnprintf(last_line, sizeof(last_line), format, ap);
    va_end(ap);
}

static const char *file_path, *file_text; /* the only file; text NULL: it is not there */

static int open_files;

static FILE *open_file(const char *path)
{
    CHECK(strcmp(path, file_path) == 0);
    open_files += file_text != NULL;
    return file_text ? fmemopen((void *)(uintptr_t)file_text, strlen(file_text), "r") : NULL;
}

static int close_file(FILE *file)
{
    open_files--;
    return fclose(file);
}

static char *name_of_index(unsigned int index, char *name)
{
    return index == 7 ? strcpy(name, "bond0") : NULL;
}

#define ut_log_write    note_line
#define ut_fd_open_file open_file
#define if_indextoname  name_of_index
#define fclose          close_file
#include "../../provider/verbs/ports/address.c"
#include "../../provider/verbs/ports/netdev.c"
#undef if_indextoname
#undef fclose

static struct vp_prov prov;
static struct vp_port here;
static struct vp_ud *const some_ud = (struct vp_ud *)(void *)&prov;

static void set_ip(union vp_sockaddr *addr, const char *text, uint16_t port)
{
    memset(addr, 0, sizeof(*addr));
    addr->sa.sa_family = strchr(text, ':') ? AF_INET6 : AF_INET;
    CHECK(inet_pton(addr->sa.sa_family, text,
                    addr->sa.sa_family == AF_INET ? (void *)&addr->in.sin_addr
                                                  : (void *)&addr->in6.sin6_addr) == 1);
    vp_set_ip_port(addr, htons(port));
    CHECK(vp_ip_port(addr) == htons(port));
}

/*
 * By IP
 */

static const char *const ips[VP_MAX_PORTS] = {"10.1.2.3",      "fd00::5", "fe80::1234",
                                              "192.168.0.255", "::1",     "10.1.2.4"};

static size_t publish_ips(unsigned int count, union vp_any_address *out)
{
    uint8_t bytes[PROV_ADDR_MAX];

    prov = (struct vp_prov){.num_ports = count, .key = "secret"};
    for (unsigned int i = 0; i < count; i++)
        set_ip(&prov.ports[i].addr, ips[i], (uint16_t)(4000 + 257 * i));
    size_t size = vp_address(&prov.base, bytes);
    CHECK(size == 10 + 18 * count && size <= PROV_ADDR_MAX);
    CHECK(vp_address_read(bytes, size, out) == 0);
    CHECK(vp_address_read(bytes, size - 1, out) == -EPROTO);
    CHECK(vp_address_read(bytes, size, out) == 0 && memcmp(out->cm.key, prov.key, 7) == 0);
    return size;
}

static void peers_read_ip_addresses(void)
{
    union vp_any_address address;
    struct vp_peer peer;
    char text[64];

    for (unsigned int count = 1; count <= VP_MAX_PORTS; count++) {
        publish_ips(count, &address);
        for (unsigned int tni = 0; tni < 13; tni++) {
            const char *wanted = ips[tni % count];
            uint16_t port = htons((uint16_t)(4000 + 257 * (tni % count)));
            memset(&here, 0, sizeof(here));
            set_ip(&here.addr, "fe80::1", 1);
            here.addr.in6.sin6_scope_id = 9;
            CHECK(vp_address_of_tni(&address, tni, &here, &peer) == 0 && !peer.ud);
            CHECK(vp_same_ip(&peer.ip, &prov.ports[tni % count].addr));
            CHECK(vp_ip_port(&peer.ip) == port);
            CHECK(strcmp(vp_peer_text(&peer, text, sizeof(text)), wanted) == 0);
            bool has_scope = tni % count == 2; /* it is valid on one link only */
            CHECK(peer.ip.sa.sa_family == AF_INET ||
                  peer.ip.in6.sin6_scope_id == (has_scope ? 9 : 0));
            set_ip(&here.addr, "10.1.2.9", 1);
            CHECK(vp_address_of_tni(&address, tni, &here, &peer) == 0);
            CHECK(peer.ip.sa.sa_family == AF_INET || peer.ip.in6.sin6_scope_id == 0);
        }
    }
}

static void own_ip(void)
{
    union vp_any_address address;
    uint8_t ip[16];
    char text[64];

    publish_ips(1, &address);
    CHECK(vp_ip(&prov.base, ip));
    CHECK(strcmp(inet_ntop(AF_INET6, ip, text, sizeof(text)), "::ffff:10.1.2.3") == 0);
    set_ip(&prov.ports[0].addr, "fd00::5", 1);
    CHECK(vp_ip(&prov.base, ip));
    CHECK(strcmp(inet_ntop(AF_INET6, ip, text, sizeof(text)), "fd00::5") == 0);
    prov.ports[0].addr.sa.sa_family = AF_UNSPEC;
    CHECK(!vp_ip(&prov.base, ip));
}

static void addresses_are_compared_without_ports(void)
{
    union vp_sockaddr a, b;

    for (unsigned int i = 0; i < VP_MAX_PORTS; i++)
        for (unsigned int k = 0; k < VP_MAX_PORTS; k++) {
            set_ip(&a, ips[i], 1);
            set_ip(&b, ips[k], 2);
            CHECK(vp_same_ip(&a, &b) == (i == k));
        }
    set_ip(&a, "fd00::5", 1);
    set_ip(&b, "fd00::6", 1); /* differs in its last byte */
    CHECK(!vp_same_ip(&a, &b));
    a.sa.sa_family = AF_UNIX;
    char text[64];
    CHECK(strcmp(vp_addr_text(&a, text, sizeof(text)), "?") == 0);
}

/*
 * By datagrams
 */

static void set_gid(union ibv_gid *gid, const char *text)
{
    CHECK(inet_pton(AF_INET6, text, gid->raw) == 1);
}

static void publish_gids(unsigned int count, bool roce, union vp_any_address *out)
{
    uint8_t bytes[PROV_ADDR_MAX];

    prov = (struct vp_prov){.num_ports = count, .qkey = 0x89abcdef, .ud_key = "123456789abcdef"};
    for (unsigned int i = 0; i < count; i++) {
        char gid[64];
        snprintf(gid, sizeof(gid), "fe80::9:1:2:3:%x", i + 1);
        set_gid(&prov.ports[i].at.gid, gid);
        prov.ports[i].at.lid = (uint16_t)(roce ? 0 : 0x1201 + i);
        prov.ports[i].at.qpn = 0xabcd01 + i;
        prov.ports[i].ud = some_ud;
    }
    size_t size = vp_address(&prov.base, bytes);
    CHECK(size == 31 + 13 * count);
    CHECK(vp_address_read(bytes, size - 1, out) == -EPROTO);
    CHECK(vp_address_read(bytes, size, out) == 0);
}

static void peers_read_addresses_for_datagrams(void)
{
    union vp_any_address address;
    struct vp_peer peer;
    char text[100], wanted[100];

    for (unsigned int count = 1; count <= VP_MAX_PORTS; count++)
        for (int roce = 0; roce < 2; roce++) {
            publish_gids(count, roce, &address);
            here = (struct vp_port){.ud = some_ud, .gid_index = roce ? 3 : -1, .name = "fake0:1"};
            set_gid(&here.at.gid, roce ? "fd00::1" : "fe80::9:0:0:0:77");
            for (unsigned int tni = 0; tni < 13; tni++) {
                const struct vp_ud_addr *at = &prov.ports[tni % count].at;
                CHECK(vp_address_of_tni(&address, tni, &here, &peer) == 0 && peer.ud);
                CHECK(memcmp(&peer.at.gid, &at->gid, 16) == 0 && peer.at.lid == at->lid);
                CHECK(peer.at.qpn == at->qpn && peer.at.qkey == prov.qkey && peer.at.sl == 0);
                CHECK(memcmp(peer.at.key, prov.ud_key, VP_UD_KEY_BYTES) == 0);
                if (roce)
                    snprintf(wanted, sizeof(wanted), "GID fe80::9:1:2:3:%x", tni % count + 1);
                else
                    snprintf(wanted, sizeof(wanted), "LID %u (GID fe80::9:1:2:3:%x)", at->lid,
                             tni % count + 1);
                CHECK(strcmp(vp_peer_text(&peer, text, sizeof(text)), wanted) == 0);
            }
        }
}

static void other_fabrics_are_refused(void)
{
    static const struct {
        bool peer_is_roce, peer_has_ud, has_ud;
        int gid_index;
        const char *gid, *line;
    } cases[] = {
        {false, true, true, -1, "fe80::9:0:0:0:77", NULL},
        {true, true, true, 0, "fd00::77", NULL},
        {false, true, true, 0, "fe80::9:0:0:0:77",
         "fake0:1 is Ethernet, and a peer's port (GID fe80::9:1:2:3:1) is InfiniBand"},
        {true, true, true, -1, "fe80::9:0:0:0:77",
         "fake0:1 is InfiniBand, and a peer's port (GID fe80::9:1:2:3:1) is Ethernet"},
        {false, true, true, -1, "fec0::9:1:2:3:1",
         "fake0:1 (GID fec0::9:1:2:3:1) is in another InfiniBand subnet than a peer's port (GID "
         "fe80::9:1:2:3:1)"},
        {false, true, true, -1, "fe80::8:1:2:3:1", "is in another InfiniBand subnet"},
        {false, true, false, -1, "fe80::9:0:0:0:77",
         "a peer connects by datagrams, and fake0:1 by rdma_cm"},
        {false, false, true, -1, "fe80::9:0:0:0:77",
         "a peer connects by rdma_cm, and fake0:1 by datagrams"}};
    union vp_any_address address;
    struct vp_peer peer;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i].peer_has_ud)
            publish_gids(1, cases[i].peer_is_roce, &address);
        else
            publish_ips(1, &address);
        here = (struct vp_port){.ud = cases[i].has_ud ? some_ud : NULL,
                                .gid_index = cases[i].gid_index,
                                .name = "fake0:1"};
        set_gid(&here.at.gid, cases[i].gid);
        last_line[0] = '\0';
        int rc = vp_address_of_tni(&address, 0, &here, &peer);
        CHECK(rc == (cases[i].line ? -EHOSTUNREACH : 0));
        CHECK(cases[i].line ? strstr(last_line, cases[i].line) != NULL : !last_line[0]);
    }
}

static void malformed_addresses_are_refused(void)
{
    union vp_any_address address;
    uint8_t bytes[sizeof(address) + 1] = {0};
    size_t size = publish_ips(2, &address);

    for (int i = 0; i < 6; i++) {
        memcpy(bytes, &address, size);
        if (i == 0)
            bytes[0]++; /* the version */
        if (i == 1)
            bytes[1] = 0; /* ports */
        if (i == 2)
            bytes[1] = VP_MAX_PORTS + 1;
        if (i == 3)
            bytes[2] = 2; /* the kind */
        union vp_any_address out;
        size_t n = i == 2 || i == 3 ? sizeof(address) : i == 4 ? sizeof(address) + 1 : size;
        CHECK(vp_address_read(bytes, n, &out) == (i == 5 ? 0 : i == 4 ? -EINVAL : -EPROTO));
    }
}

/*
 * Interfaces
 */

static void addresses_of_this_namespace(void)
{
    static const struct {
        const char *text;
        bool is_here;
    } cases[] = {{"10.1.2.3", true},
                 {"10.1.2.4", false},
                 {"fd00::5", true},
                 {"fd00::6", false},
                 {"fe80::a234:56ff:fe78:9abc", true}, /* of the hardware address */
                 {"fe80::a034:56ff:fe78:9abc", false},
                 {"fe80::a234:56ff:fe78:9abd", false},
                 {"fe81::a234:56ff:fe78:9abc", false}};
    static union vp_sockaddr ip4, ip6;
    static struct sockaddr_ll link = {
        .sll_family = AF_PACKET, .sll_halen = 6, .sll_addr = {0xa0, 0x34, 0x56, 0x78, 0x9a, 0xbc}};
    struct ifaddrs list[] = {{.ifa_addr = NULL},
                             {.ifa_addr = &ip4.sa},
                             {.ifa_addr = (struct sockaddr *)(void *)&link},
                             {.ifa_addr = &ip6.sa}};
    union vp_sockaddr addr;

    set_ip(&ip4, "10.1.2.3", 0);
    set_ip(&ip6, "fd00::5", 0);
    for (int i = 0; i < 3; i++)
        list[i].ifa_next = &list[i + 1];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_ip(&addr, cases[i].text, 5);
        CHECK(vp_netdev_has(list, &addr) == cases[i].is_here);
        CHECK(vp_netdev_has(NULL, &addr)); /* nobody knows */
    }
    link.sll_halen = 20; /* InfiniBand */
    set_ip(&addr, "fe80::a234:56ff:fe78:9abc", 5);
    CHECK(!vp_netdev_has(list, &addr));
}

static void bonds(void)
{
    static const struct {
        const char *text, *wanted;
    } modes[] = {{"802.3ad 4\n", "bond0 (802.3ad)"},
                 {"active-backup 1\n", "bond0 (active-backup)"},
                 {"\n", "bond0"}};
    static const struct {
        const char *text;
        uint8_t paths;
    } ports[] = {{"2\n", 2}, {"255\n", 255}, {"256\n", 1}, {"0\n", 1}, {"x\n", 1}, {NULL, 1}};
    char text[VP_BOND_TEXT];

    file_path = "/sys/class/net/bond0/bonding/mode";
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        file_text = modes[i].text;
        CHECK(vp_netdev_bond(7, text, sizeof(text)) && strcmp(text, modes[i].wanted) == 0);
        CHECK(open_files == 0);
    }
    file_text = NULL;
    strcpy(text, "x");
    CHECK(!vp_netdev_bond(7, text, sizeof(text)) && !text[0]);
    file_path = ""; /* no file is opened */
    CHECK(!vp_netdev_bond(0, text, sizeof(text)) && !vp_netdev_bond(8, text, sizeof(text)));
    CHECK(vp_netdev_paths(0) == 1 && vp_netdev_paths(8) == 1);
    file_path = "/sys/class/net/bond0/bonding/ad_num_ports";
    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
        file_text = ports[i].text;
        CHECK(vp_netdev_paths(7) == ports[i].paths && open_files == 0);
    }
}

int main(void)
{
    peers_read_ip_addresses();
    own_ip();
    addresses_are_compared_without_ports();
    peers_read_addresses_for_datagrams();
    other_fabrics_are_refused();
    malformed_addresses_are_refused();
    addresses_of_this_namespace();
    bonds();
    return 0;
}
