/* SPDX-License-Identifier: Apache-2.0 */
/* Connects the further ports (rails) of a link: see rails.h. */
#include "link/rails.h"

#include <errno.h>
#include <string.h>

#include "link/hello.h"
#include "peers/peers.h"
#include "util/clock.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/back_off.h"

/* The id of a rail's endpoint is the key of its VCQ, with the number of the rail (from 1) above
 * these bits. */
enum { KEY_BITS = 46 };

static uint64_t rail_endpoint_id(uint64_t key, unsigned int number)
{
    return key | (uint64_t)number << KEY_BITS;
}

static unsigned int port_of_tni(const struct ut_rails *rails, unsigned int tni)
{
    return tni % rails->num_ports;
}

/* True if the process has VCQs on TNIs of several ports: the program itself uses the ports. */
static bool uses_many_ports(const struct ut_link *link)
{
    unsigned int port = port_of_tni(link->rails, link->vcq->tni);

    for (unsigned int tni = 0; tni < UT_NUM_TNIS; tni++)
        if (port_of_tni(link->rails, tni) != port && ut_vcq_count_of_tni(tni) > 0)
            return true;
    return false;
}

/* Returns the endpoint of a rail; opens it at the first use. NULL: it cannot be opened. In vcq->eps
 * the endpoints of rails follow those of the providers, in the order of their numbers. */
static struct prov_ep *open_endpoint(const struct ut_link *link, unsigned int number)
{
    struct ut_vcq *vcq = link->vcq;
    struct prov *prov = ut_rails_prov(link);
    unsigned int at = vcq->num_eps - vcq->num_rails + number - 1;
    const struct prov_ep_attr attr = {.tni = vcq->tni + number,
                                      .id = rail_endpoint_id(ut_vcq_id_key(vcq->id), number),
                                      .owner = vcq,
                                      .callbacks = vcq->link_ops->rail_callbacks,
                                      .depth = vcq->toq_mask + 1,
                                      .rail = number};
    struct ut_vcq_ep *e = &vcq->eps[at];

    if (number <= vcq->num_rails)
        return e->ep;
    ut_fd_reserve_stdio();
    int rc = prov->ops->ep_open(prov, &attr, &e->ep);
    ut_fd_release_stdio();
    if (rc != 0) {
        ut_info("link",
                "VCQ %016llx: no endpoint for parts of long puts: %s; long puts use one port",
                (unsigned long long)vcq->id, strerror(-rc));
        return NULL;
    }
    e->ops = prov->ops;
    e->provider = link->provider;
    e->source_copy_max = 0;
    vcq->num_rails++;
    vcq->num_eps++;
    vcq->eps_end = vcq->eps + vcq->num_eps;
    return e->ep;
}

/* Opens the endpoints of all rails that this side can have. Returns their number. */
static unsigned int open_endpoints(const struct ut_link *link)
{
    unsigned int max_rails = uses_many_ports(link) ? 0 : link->rails->max_rails, n = 0;

    while (n < max_rails && open_endpoint(link, n + 1))
        n++;
    return n;
}

/* Tells the peer the number of endpoints of this side. UT_MSG_FLAG_REQUEST: the peer replies. */
static void send_rail_count(struct ut_link *link, unsigned int number, unsigned int flags)
{
    const struct ut_msg_head m = {.type = UT_MSG_RAILS,
                                  .flags = (uint8_t)flags,
                                  .rail_count = (uint8_t)number,
                                  .other_devices =
                                      link->rails ? link->rails->lcl_other_devices : 0};

    ut_link_send(link, &m, sizeof(m), true);
}

/* Sets the time of the next attempt to connect rails. */
static void pause_connecting(struct ut_rails *rails)
{
    rails->pause_ms =
        ut_retry_delay_next_ms(rails->pause_ms, UT_RAILS_FIRST_PAUSE_MS, UT_RAILS_MAX_PAUSE_MS);
    rails->next_attempt_ms = ut_now_ms() + rails->pause_ms;
}

/* Opens endpoints and asks the peer to open as many, unless the pause is not over. */
static void request_rails(struct ut_link *link)
{
    if (ut_now_ms() < link->rails->next_attempt_ms)
        return;
    pause_connecting(link->rails);
    unsigned int n = open_endpoints(link);
    if (n > 0)
        send_rail_count(link, n, UT_MSG_FLAG_REQUEST);
}

bool ut_rails_are_up(struct ut_link *link)
{
    if (uses_many_ports(link))
        return false;
    if (link->rails->num_up > 0)
        return true;
    request_rails(link);
    return false;
}

/* Sends the connect request of a rail. On an error the rail stays down. */
static void connect_rail(struct ut_link *link, const struct ut_peer *peer, unsigned int number)
{
    struct ut_rail *rail = &link->rails->rail[number - 1];
    struct ut_hello hello;

    if (rail->conn)
        return;
    ut_link_fill_hello(link, link->serial, &hello);
    int rc = link->ops->connect(open_endpoint(link, number), peer->addr, peer->addr_size,
                                link->peer_tni + number, rail_endpoint_id(link->id_key, number),
                                &hello, sizeof(hello), rail, &rail->conn);
    if (rc != 0)
        rail->conn = NULL;
}

void ut_rails_on_message(struct ut_link *link, const struct ut_msg_head *m)
{
    struct ut_vcq_ident ident;
    struct ut_peer peer;

    if (!link->rails || link->state != UT_LINK_UP) { /* the peer waits for a reply */
        if (m->flags & UT_MSG_FLAG_REQUEST)
            send_rail_count(link, 0, 0);
        return;
    }
    unsigned int n = open_endpoints(link);
    if (m->flags & UT_MSG_FLAG_REQUEST)
        send_rail_count(link, n, 0);
    link->rails->rmt_other_devices = m->other_devices;
    if (n > m->rail_count)
        n = m->rail_count;
    if (n == 0 || link->id_key < ut_vcq_id_key(link->vcq->id) ||
        !ut_vcq_id_unpack(link->peer, &ident) || ut_peers_find_owner(&ident, &peer) != 0)
        return;
    for (unsigned int number = 1; number <= n; number++)
        connect_rail(link, &peer, number);
}

void ut_rails_on_request(struct ut_vcq *vcq, struct prov *prov, struct prov_conn *conn,
                         uint64_t peer_endpoint_id, const void *hello, size_t size)
{
    unsigned int number = (unsigned int)(peer_endpoint_id >> KEY_BITS);
    struct ut_link *link = ut_link_lookup(vcq, peer_endpoint_id & ((UINT64_C(1) << KEY_BITS) - 1));
    struct ut_hello peer_hello = {0}, own_hello;

    if (size == sizeof(peer_hello))
        memcpy(&peer_hello, hello, sizeof(peer_hello));
    if (!link || !link->rails || link->state != UT_LINK_UP || number == 0 ||
        number > vcq->num_rails || link->rails->rail[number - 1].conn ||
        peer_hello.version != UT_WIRE_VERSION || peer_hello.incarnation != link->peer_incarnation) {
        prov->ops->reject(conn);
        return;
    }
    struct ut_rail *rail = &link->rails->rail[number - 1];
    ut_link_fill_hello(link, link->serial, &own_hello);
    if (prov->ops->accept(conn, &own_hello, sizeof(own_hello), rail) == 0)
        rail->conn = conn;
}

/* Returns the speed in Mbit/s of the port of a rail; 0: of the link's own connection. */
static uint32_t speed_of(const struct ut_link *link, unsigned int number)
{
    struct prov *prov = ut_rails_prov(link);
    struct prov_caps caps;

    prov->ops->caps(prov, link->vcq->tni + number, &caps);
    return caps.speed ? caps.speed : 1;
}

/* Gives each port a share in proportion to its speed. */
static void divide_shares(struct ut_link *link)
{
    struct ut_rails *rails = link->rails;
    uint64_t sum = speed_of(link, 0);

    for (unsigned int i = 0; i < UT_MAX_RAILS; i++)
        sum += rails->rail[i].up ? speed_of(link, i + 1) : 0;
    rails->share = (uint32_t)(((uint64_t)speed_of(link, 0) << UT_RAILS_SHARE_SHIFT) / sum);
    for (unsigned int i = 0; i < UT_MAX_RAILS; i++)
        rails->rail[i].share =
            rails->rail[i].up
                ? (uint32_t)(((uint64_t)speed_of(link, i + 1) << UT_RAILS_SHARE_SHIFT) / sum)
                : 0;
}

void ut_rails_on_up(struct ut_rail *rail)
{
    rail->up = true;
    rail->link->rails->num_up++;
    rail->link->rails->pause_ms = 0;
    divide_shares(rail->link);
    ut_debug("link", "VCQ %016llx: another port takes parts of long puts",
             (unsigned long long)rail->link->peer);
}

void ut_rails_on_down(struct ut_rail *rail)
{
    struct ut_link *link = rail->link;

    link->ops->conn_close(rail->conn);
    rail->conn = NULL;
    if (rail->up)
        link->rails->num_up--;
    rail->up = false;
    divide_shares(link);
    pause_connecting(link->rails);
    ut_debug("link", "VCQ %016llx: a port takes no parts of long puts any more",
             (unsigned long long)link->peer);
}
