/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Further ports of a link, for parts of long puts (link/rails.c, rail_setup.c, rail_keys.c): which
 * links have them, who asks whom and when, how the ports share a put, and whose memory keys are
 * used. The test is the provider, the peer and the clock.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/fake_clock.h"
#include "engine/parted.h"
#include "link/hello.h"
#include "link/rails.h"
#include "peers/peers.h"
#include "stag/region.h"

enum { PROVIDER = 1, TNI = 1, OWN_EP = 1, THRESHOLD = 70000, PEER_TNI = 2, SPEED = 100 };
enum { INDEX = UT_STAG_CHUNK + 3, OWN_LKEY = 11, OWN_RKEY = 22, BASE = 0x10000, SIZE = 1000 };

static struct prov some;
static struct ut_process process;
static struct prov_caps caps[UT_NUM_TNIS];
static unsigned int devices[UT_NUM_TNIS];
static uint32_t vcqs_of_tni[UT_NUM_TNIS];

const struct ut_process *__wrap_ut_process_peek(void);
const struct ut_process *__wrap_ut_process_peek(void)
{
    return &process;
}

uint32_t __wrap_ut_vcq_count_of_tni(unsigned int tni);
uint32_t __wrap_ut_vcq_count_of_tni(unsigned int tni)
{
    cr_assert(tni < UT_NUM_TNIS);
    return vcqs_of_tni[tni];
}

/*
 * The provider
 */

static struct ut_vcq vcq;
static struct ut_link *to_peer;
static unsigned int opened[UT_MAX_RAILS + 1], most_endpoints, closed;
static uint32_t threshold;
static struct {
    struct prov_ep *ep;
    unsigned int tni;
    uint64_t id;
    struct ut_rail *rail;
} asked[UT_MAX_RAILS];
static unsigned int num_asked, rejected, accepted;
static int connect_rc, accept_rc;
static struct prov_conn *const conns[UT_MAX_RAILS] = {(void *)&asked[0], (void *)&asked[1],
                                                      (void *)&asked[2]};

static void get_caps(struct prov *prov, unsigned int tni, struct prov_caps *out)
{
    cr_assert(prov == &some && tni < UT_NUM_TNIS);
    *out = caps[tni];
}

static unsigned int device_of(struct prov *prov, unsigned int tni)
{
    cr_assert(prov == &some && tni < UT_NUM_TNIS);
    return devices[tni];
}

static int ep_open(struct prov *prov, const struct prov_ep_attr *attr, struct prov_ep **ep)
{
    cr_assert(prov == &some && attr->rail >= 1 && attr->rail <= UT_MAX_RAILS);
    cr_assert(attr->tni == TNI + attr->rail && attr->owner == &vcq && attr->depth == 16);
    cr_assert_eq(attr->id, ut_vcq_id_key(vcq.id) | (uint64_t)attr->rail << 46);
    cr_assert_eq(attr->callbacks, vcq.link_ops->rail_callbacks);
    cr_assert_geq(fcntl(0, F_GETFD), 0, "a descriptor of it would be the program's input");
    if (attr->rail > most_endpoints)
        return -ENOMEM;
    opened[attr->rail]++;
    *ep = (void *)&opened[attr->rail];
    return 0;
}

static int connect_peer(struct prov_ep *ep, const void *addr, size_t size, unsigned int tni,
                        uint64_t id, const void *hello, size_t hello_size, void *ctx,
                        struct prov_conn **conn)
{
    cr_assert(size == 3 && memcmp(addr, "abc", 3) == 0 && hello_size == sizeof(struct ut_hello));
    cr_assert_eq(((const struct ut_hello *)hello)->version, UT_WIRE_VERSION);
    cr_assert_lt(num_asked, UT_MAX_RAILS);
    asked[num_asked].ep = ep;
    asked[num_asked].tni = tni;
    asked[num_asked].id = id;
    asked[num_asked].rail = ctx;
    *conn = conns[num_asked++];
    return connect_rc;
}

static int accept_peer(struct prov_conn *conn, const void *hello, size_t size, void *ctx)
{
    cr_assert(conn && size == sizeof(struct ut_hello) && ctx);
    cr_assert_eq(((const struct ut_hello *)hello)->version, UT_WIRE_VERSION);
    accepted += accept_rc == 0;
    return accept_rc;
}

static void reject_peer(struct prov_conn *conn)
{
    cr_assert(conn);
    rejected++;
}

static void conn_close(struct prov_conn *conn)
{
    cr_assert(conn);
    closed++;
}

static void set_split_threshold(struct prov_conn *conn, uint32_t min)
{
    cr_assert_eq(conn, (void *)&to_peer);
    threshold = min;
}

static const struct prov_callbacks rail_callbacks;
static const struct ut_link_ops link_ops = {.rail_callbacks = &rail_callbacks};
static struct prov_ops ops = {.caps = get_caps,
                              .device = device_of,
                              .ep_open = ep_open,
                              .connect = connect_peer,
                              .accept = accept_peer,
                              .reject = reject_peer,
                              .conn_close = conn_close,
                              .set_split_threshold = set_split_threshold};

/*
 * The peer
 */

static struct ut_msg_rail_keys sent; /* the last message */
static unsigned int num_sent;
static int find_rc;

void __wrap_ut_link_send(struct ut_link *l, const void *data, size_t size, bool solicited);
void __wrap_ut_link_send(struct ut_link *l, const void *data, size_t size, bool solicited)
{
    cr_assert(l == to_peer && solicited && size <= sizeof(sent));
    memset(&sent, 0, sizeof(sent));
    memcpy(&sent, data, size);
    num_sent++;
}

void __wrap_ut_link_fill_hello(const struct ut_link *l, uint16_t serial, struct ut_hello *hello);
void __wrap_ut_link_fill_hello(const struct ut_link *l, uint16_t serial, struct ut_hello *hello)
{
    cr_assert(l == to_peer && serial == to_peer->serial);
    *hello = (struct ut_hello){.version = UT_WIRE_VERSION};
}

int __wrap_ut_peers_find_owner(const struct ut_vcq_ident *ident, struct ut_peer *peer);
int __wrap_ut_peers_find_owner(const struct ut_vcq_ident *ident, struct ut_peer *peer)
{
    cr_assert_eq(ut_vcq_id_canonical(ident), to_peer->peer);
    peer->addr_size = 3;
    memcpy(peer->addr, "abc", 3);
    return find_rc;
}

static utofu_vcq_id_t id_of(uint16_t component)
{
    struct ut_vcq_ident ident = {.tni = TNI, .cmp = component};

    return ut_vcq_id_canonical(&ident);
}

static void open_link(bool is_smaller)
{
    for (unsigned int tni = 0; tni < UT_NUM_TNIS; tni++)
        caps[tni] = (struct prov_caps){
            .num_ports = 3, .max_rails = 2, .split_threshold = THRESHOLD, .speed = SPEED};
    process.prov[PROVIDER] = &some;
    some.ops = &ops;
    most_endpoints = UT_MAX_RAILS;
    utofu_vcq_id_t a = id_of(1), b = id_of(2);
    if ((ut_vcq_id_key(a) < ut_vcq_id_key(b)) != is_smaller)
        a = id_of(2), b = id_of(1);
    vcq.id = a;
    vcq.tni = TNI;
    vcq.toq_mask = 15;
    vcq.link_ops = &link_ops;
    vcq.num_eps = OWN_EP;
    vcq.eps_end = vcq.eps + OWN_EP;
    vcq.runs_scheduled = true;
    vcqs_of_tni[TNI] = 1;
    to_peer = ut_link_get(&vcq, b);
    cr_assert(to_peer);
    to_peer->provider = PROVIDER;
    to_peer->peer_tni = PEER_TNI;
    to_peer->ops = &ops;
    to_peer->conn = (void *)&to_peer;
    to_peer->state = UT_LINK_UP;
    to_peer->serial = 9;
    to_peer->peer_incarnation = 77;
}

static void open_first(void)
{
    open_link(true);
    ut_rails_enable(to_peer);
}

TestSuite(parts, .init = open_first);

static void message(unsigned int count, unsigned int flags, unsigned int others)
{
    struct ut_msg_head m = {.type = UT_MSG_RAILS,
                            .flags = (uint8_t)flags,
                            .rail_count = (uint8_t)count,
                            .other_devices = (uint8_t)others};

    ut_rails_on_message(to_peer, &m);
}

static void expect_count(unsigned int number, unsigned int flags)
{
    cr_assert_eq(num_sent, 1);
    cr_assert(sent.head.type == UT_MSG_RAILS && sent.head.rail_count == number &&
              sent.head.flags == flags);
    cr_assert_eq(sent.head.other_devices, to_peer->rails ? to_peer->rails->lcl_other_devices : 0);
    num_sent = 0;
}

/* Both rails up. */
static void connect_both(void)
{
    message(2, 0, 0);
    cr_assert_eq(num_asked, 2);
    for (int i = 0; i < 2; i++)
        ut_rails_on_up(asked[i].rail);
}

/*
 * Which links, and how many
 */

Test(parts, link_has_what_the_provider_offers)
{
    cr_assert(to_peer->rails && threshold == THRESHOLD);
    cr_assert(to_peer->rails->split_threshold == THRESHOLD && to_peer->rails->num_ports == 3 &&
              to_peer->rails->max_rails == 2);
    cr_assert_eq(to_peer->rails->rmt_other_devices, 7, "until the peer tells");
    for (int i = 0; i < UT_MAX_RAILS; i++)
        cr_assert_eq(to_peer->rails->rail[i].link, to_peer);
    caps[TNI].split_threshold = UT_RAILS_MIN_SPLIT_THRESHOLD - 1;
    caps[TNI].max_rails = UT_MAX_RAILS + 1;
    to_peer->rails->next_attempt_ms = to_peer->rails->pause_ms = 5;
    ut_rails_enable(to_peer); /* the connection was made anew */
    cr_assert(threshold == UT_RAILS_MIN_SPLIT_THRESHOLD && threshold == 8192);
    cr_assert_eq(to_peer->rails->split_threshold, UT_RAILS_MIN_SPLIT_THRESHOLD);
    cr_assert_eq(to_peer->rails->max_rails, UT_MAX_RAILS);
    cr_assert(to_peer->rails->next_attempt_ms == 0 && to_peer->rails->pause_ms == 0);
    ut_rails_close(to_peer);
    cr_assert(!to_peer->rails);
    ut_rails_close(to_peer);
    ut_rails_drop_keys(to_peer);
}

static void expect_none(void)
{
    ut_rails_close(to_peer);
    threshold = 0;
    ut_rails_enable(to_peer);
    cr_assert(!to_peer->rails && threshold == 0);
}

Test(parts, links_without_further_ports)
{
    static const struct ut_vcq_handlers handlers;
    const struct ut_vcq_handlers *of_program = vcq.handlers;
    uint64_t key = to_peer->id_key;

    caps[TNI].split_threshold = 0;
    expect_none();
    caps[TNI].split_threshold = THRESHOLD;
    caps[TNI].max_rails = 0;
    expect_none();
    caps[TNI].max_rails = 1;
    to_peer->passive = true;
    expect_none();
    to_peer->passive = false;
    vcq.handlers = &handlers;
    expect_none();
    vcq.handlers = of_program;
    to_peer->id_key = ut_vcq_id_key(vcq.id);
    expect_none();
    to_peer->id_key = key;
    ops.set_split_threshold = NULL;
    expect_none();
    ops.set_split_threshold = set_split_threshold;
    ut_rails_enable(to_peer);
    cr_assert(to_peer->rails);
}

Test(parts, ports_of_other_devices)
{
    for (unsigned int mask = 0; mask < 4; mask++) {
        devices[TNI] = 40;
        devices[TNI + 1] = mask & 1 ? 41 : 40;
        devices[TNI + 2] = mask & 2 ? 41 : 40;
        ut_rails_enable(to_peer);
        cr_assert_eq(to_peer->rails->lcl_other_devices, mask);
    }
}

/*
 * Who asks whom, and when
 */

Test(parts, peer_is_asked_at_intervals)
{
    uint64_t pause = 250;

    for (int i = 0; i < UT_MAX_RAILS; i++)
        vcq.eps[OWN_EP + i].source_copy_max = 99;
    close(0); /* as a program may */
    fake_clock_align();
    cr_assert(!ut_rails_are_up(to_peer));
    cr_assert(fcntl(0, F_GETFD) < 0 && errno == EBADF);
    expect_count(2, UT_MSG_FLAG_REQUEST);
    cr_assert(opened[1] == 1 && opened[2] == 1 && opened[3] == 0);
    for (int i = 0; i < 10; i++) {
        fake_clock_pass_ms(pause - 1);
        cr_assert(!ut_rails_are_up(to_peer));
        cr_assert_eq(num_sent, 0, "after %llu", (unsigned long long)pause);
        fake_clock_align();
        cr_assert(!ut_rails_are_up(to_peer));
        expect_count(2, UT_MSG_FLAG_REQUEST);
        pause = pause < 32000 ? 2 * pause : 64000;
    }
    cr_assert(opened[1] == 1 && opened[2] == 1, "the endpoints stay");
    cr_assert(vcq.num_rails == 2 && vcq.num_eps == OWN_EP + 2);
    cr_assert_eq(vcq.eps_end, vcq.eps + OWN_EP + 2);
    for (int i = 1; i <= 2; i++) {
        struct ut_vcq_ep *e = &vcq.eps[OWN_EP + i - 1];
        cr_assert(e->ep == (void *)&opened[i] && e->ops == &ops && e->provider == PROVIDER &&
                  e->source_copy_max == 0);
    }
}

/* A program with VCQs on several ports uses these itself. */
Test(parts, program_that_uses_its_ports)
{
    vcqs_of_tni[TNI + 3] = 1; /* the same port */
    cr_assert(!ut_rails_are_up(to_peer));
    expect_count(2, UT_MSG_FLAG_REQUEST);
    connect_both();
    cr_assert(ut_rails_are_up(to_peer));
    for (unsigned int tni = 0; tni < UT_NUM_TNIS; tni++) {
        if (tni % 3 == TNI % 3)
            continue;
        vcqs_of_tni[tni] = 1;
        cr_assert(!ut_rails_are_up(to_peer), "TNI %u", tni);
        message(2, UT_MSG_FLAG_REQUEST, 0);
        expect_count(0, 0);
        vcqs_of_tni[tni] = 0;
        cr_assert(ut_rails_are_up(to_peer));
    }
    cr_assert_eq(num_sent, 0);
}

Test(parts, endpoints_that_cannot_be_opened)
{
    most_endpoints = 0;
    cr_assert(!ut_rails_are_up(to_peer));
    cr_assert_eq(num_sent, 0);
    message(2, UT_MSG_FLAG_REQUEST, 0);
    expect_count(0, 0);
    cr_assert_eq(num_asked, 0);
    most_endpoints = 1;
    message(2, UT_MSG_FLAG_REQUEST, 0);
    expect_count(1, 0);
    cr_assert_eq(num_asked, 1);
    cr_assert(vcq.num_rails == 1 && vcq.num_eps == OWN_EP + 1);
    fake_clock_pass_ms(1000);
    cr_assert(!ut_rails_are_up(to_peer));
    expect_count(1, UT_MSG_FLAG_REQUEST);
}

/* The VCQ with the smaller id connects, as many as both have. */
Test(parts, smaller_id_connects)
{
    to_peer->provider = PROVIDER;
    message(1, 0, 5);
    cr_assert_eq(num_sent, 0);
    cr_assert_eq(to_peer->rails->rmt_other_devices, 5);
    cr_assert_eq(num_asked, 1);
    message(3, UT_MSG_FLAG_REQUEST, 0);
    expect_count(2, 0);
    cr_assert_eq(num_asked, 2, "the first has not been answered");
    for (unsigned int i = 0; i < 2; i++) {
        cr_assert(asked[i].ep == (void *)&opened[i + 1] && asked[i].tni == PEER_TNI + i + 1);
        cr_assert_eq(asked[i].id, to_peer->id_key | (uint64_t)(i + 1) << 46);
        cr_assert(asked[i].rail == &to_peer->rails->rail[i] && asked[i].rail->conn == conns[i]);
    }
    message(0, 0, 0);
    cr_assert_eq(num_asked, 2);
}

TestSuite(parts_larger);

Test(parts_larger, larger_id_waits)
{
    open_link(false);
    ut_rails_enable(to_peer);
    message(2, UT_MSG_FLAG_REQUEST, 0);
    expect_count(2, 0);
    cr_assert_eq(num_asked, 0);
}

Test(parts, connections_that_cannot_be_asked_for)
{
    find_rc = -EAGAIN;
    message(2, 0, 0);
    cr_assert_eq(num_asked, 0);
    find_rc = 0;
    connect_rc = -ENOMEM;
    message(2, 0, 0);
    cr_assert_eq(num_asked, 2);
    cr_assert(!to_peer->rails->rail[0].conn && !to_peer->rails->rail[1].conn);
}

/* A peer that asks gets an answer in any case. */
Test(parts, peer_that_asks_too_early)
{
    to_peer->state = UT_LINK_CONNECTING;
    message(2, 0, 0);
    cr_assert_eq(num_sent, 0);
    message(2, UT_MSG_FLAG_REQUEST, 0);
    expect_count(0, 0);
    to_peer->state = UT_LINK_UP;
    ut_rails_close(to_peer);
    message(2, UT_MSG_FLAG_REQUEST, 0);
    expect_count(0, 0);
    message(2, 0, 0);
    cr_assert(num_sent == 0 && num_asked == 0 && opened[1] == 0);
}

static void request(unsigned int number, uint64_t key, unsigned int version, uint64_t incarnation,
                    size_t size)
{
    struct ut_hello hello[2] = {{.version = (uint8_t)version, .incarnation = incarnation}};

    ut_rails_on_request(&vcq, &some, conns[0], key | (uint64_t)number << 46, hello, size);
}

Test(parts, requests_of_the_peer)
{
    const size_t size = sizeof(struct ut_hello);
    uint64_t key = to_peer->id_key;

    request(1, key, UT_WIRE_VERSION, 77, size); /* no endpoint yet */
    message(0, UT_MSG_FLAG_REQUEST, 0);
    request(0, key, UT_WIRE_VERSION, 77, size);
    request(3, key, UT_WIRE_VERSION, 77, size);
    request(1, key, UT_WIRE_VERSION + 1, 77, size);
    request(1, key, UT_WIRE_VERSION, 78, size);
    request(1, key, UT_WIRE_VERSION, 77, size - 1);
    request(1, key, UT_WIRE_VERSION, 77, size + 1);
    request(1, key ^ 1, UT_WIRE_VERSION, 77, size); /* another VCQ */
    cr_assert(rejected == 8 && accepted == 0);
    accept_rc = -EAGAIN;
    request(1, key, UT_WIRE_VERSION, 77, size);
    cr_assert(rejected == 8 && !to_peer->rails->rail[0].conn);
    accept_rc = 0;
    for (unsigned int number = 1; number <= 2; number++) {
        request(number, key, UT_WIRE_VERSION, 77, size);
        cr_assert(accepted == number && to_peer->rails->rail[number - 1].conn == conns[0]);
        request(number, key, UT_WIRE_VERSION, 77, size); /* a second time */
        cr_assert(accepted == number && rejected == 8 + number);
    }
    to_peer->rails->rail[1].conn = NULL;
    to_peer->state = UT_LINK_IDLE;
    request(2, key, UT_WIRE_VERSION, 77, size);
    to_peer->state = UT_LINK_UP;
    ut_rails_close(to_peer);
    request(2, key, UT_WIRE_VERSION, 77, size);
    cr_assert(accepted == 2 && rejected == 12);
}

/*
 * Shares
 */

static void check_shares(uint32_t own, uint32_t first, uint32_t second)
{
    cr_assert(to_peer->rails->share == own && to_peer->rails->rail[0].share == first &&
                  to_peer->rails->rail[1].share == second && to_peer->rails->rail[2].share == 0,
              "%u %u %u", to_peer->rails->share, to_peer->rails->rail[0].share,
              to_peer->rails->rail[1].share);
}

Test(parts, shares_are_in_proportion_to_the_speed)
{
    caps[TNI + 2].speed = 2 * SPEED;
    cr_assert(!ut_rails_are_up(to_peer));
    message(2, 0, 0);
    check_shares(0, 0, 0);
    ut_rails_on_up(asked[0].rail);
    cr_assert(ut_rails_are_up(to_peer) && to_peer->rails->num_up == 1 &&
              to_peer->rails->pause_ms == 0);
    check_shares(32768, 32768, 0);
    ut_rails_on_up(asked[1].rail);
    check_shares(16384, 16384, 32768);
    cr_assert_eq(to_peer->rails->num_up, 2);
    ut_rails_on_down(asked[0].rail);
    check_shares(21845, 0, 43690);
    cr_assert(closed == 1 && !asked[0].rail->conn && !asked[0].rail->up);
    cr_assert_eq(to_peer->rails->num_up, 1);
    ut_rails_on_down(asked[1].rail);
    check_shares(65536, 0, 0);
    cr_assert(closed == 2 && to_peer->rails->num_up == 0);
    num_sent = 0;
    cr_assert(!ut_rails_are_up(to_peer));
    cr_assert_eq(num_sent, 0, "after a pause");
    fake_clock_pass_ms(501);
    cr_assert(!ut_rails_are_up(to_peer));
    expect_count(2, UT_MSG_FLAG_REQUEST);
}

Test(parts, shares_of_ports_without_a_known_speed)
{
    for (unsigned int tni = 0; tni < UT_NUM_TNIS; tni++)
        caps[tni].speed = 0;
    connect_both();
    check_shares(21845, 21845, 21845);
    caps[TNI].max_rails = UT_MAX_RAILS;
    ut_rails_enable(to_peer);
    message(UT_MAX_RAILS, 0, 0);
    ut_rails_on_up(asked[2].rail);
    cr_assert_eq(to_peer->rails->share, 16384);
    for (int i = 0; i < UT_MAX_RAILS; i++)
        cr_assert_eq(to_peer->rails->rail[i].share, 16384);
}

Test(parts, attempt_that_failed_leaves_nothing)
{
    message(1, 0, 0);
    ut_rails_on_down(asked[0].rail);
    cr_assert(to_peer->rails->num_up == 0 && closed == 1);
    message(2, 0, 0);
    cr_assert_eq(num_asked, 3, "again, and the other one");
    ut_rails_close(to_peer);
    cr_assert_eq(closed, 3);
}

/*
 * Keys of memory
 */

static struct ut_region region;
static struct prov_mr own_mr = {.lkey = OWN_LKEY, .rkey = 5};
static struct ut_stag_local local = {.region = &region, .size = 4096};
static const struct prov_mr own = {.lkey = OWN_LKEY, .rkey = OWN_RKEY};
static bool has_extra = true;
static struct prov_mr keys[UT_MAX_RAILS];
static uint64_t extra_length;

bool __wrap_ut_region_extra_keys(struct ut_region *r, int provider, unsigned int device,
                                 uint64_t length, struct prov_mr *out);
bool __wrap_ut_region_extra_keys(struct ut_region *r, int provider, unsigned int device,
                                 uint64_t length, struct prov_mr *out)
{
    cr_assert(r == &region && provider == PROVIDER);
    extra_length = length;
    if (has_extra)
        *out = (struct prov_mr){.lkey = 1000 + device, .rkey = 2000 + device};
    return has_extra;
}

static utofu_stadd_t target(void)
{
    return ut_stadd_make(UT_STAG_DYNAMIC_BASE + INDEX - UT_STAG_CHUNK, 1, BASE);
}

static void read_entry(uint32_t rkey, uint64_t base, uint64_t size)
{
    struct ut_cached_stag *e = ut_stag_cache_find_or_add(&to_peer->stag_cache, INDEX);

    cr_assert(e);
    *e = (struct ut_cached_stag){.base = base, .size = size, .rkey = rkey};
}

static unsigned int find_keys(uint32_t length)
{
    memset(keys, 0, sizeof(keys));
    return ut_rails_find_keys(to_peer, &local, target(), length, own, keys);
}

static void open_keys(unsigned int here, unsigned int there)
{
    for (unsigned int i = 0; i < UT_NUM_TNIS; i++)
        devices[i] = 50;
    devices[TNI + 1] = here & 1 ? 51 : 50;
    devices[TNI + 2] = here & 2 ? 52 : 50;
    ut_rails_enable(to_peer);
    message(2, 0, there);
    for (int i = 0; i < 2; i++)
        ut_rails_on_up(asked[i].rail);
    read_entry(OWN_RKEY, BASE, SIZE);
    region.mr[PROVIDER] = &own_mr;
    num_sent = 0;
}

Test(parts, ports_of_one_device_share_the_keys)
{
    open_keys(0, 0);
    cr_assert_eq(find_keys(SIZE), 3);
    for (int i = 0; i < 2; i++)
        cr_assert(keys[i].lkey == OWN_LKEY && keys[i].rkey == OWN_RKEY);
    ut_rails_on_down(asked[0].rail);
    cr_assert_eq(find_keys(SIZE), 2);
    cr_assert(num_sent == 0 && !to_peer->rails->keys);
}

Test(parts, own_keys_of_other_devices)
{
    open_keys(2, 0);
    cr_assert_eq(find_keys(640), 3);
    cr_assert(keys[0].lkey == OWN_LKEY && keys[1].lkey == 1052 && keys[1].rkey == OWN_RKEY);
    cr_assert_eq(extra_length, 640);
    has_extra = false; /* not registered yet */
    cr_assert_eq(find_keys(640), 1);
}

static void answer_with(uint64_t base, uint64_t size, uint32_t first, uint32_t second)
{
    struct ut_msg_rail_keys m = {.head = {.type = UT_MSG_RAIL_KEYS},
                                 .rmt_stadd = target(),
                                 .base = base,
                                 .size = size,
                                 .rkey = {first, second}};

    ut_rails_on_keys(to_peer, &m);
}

/* The peer is asked when as many bytes were put as the STag has. */
Test(parts, keys_of_the_peers_other_devices)
{
    open_keys(0, 3);
    cr_assert_eq(find_keys(SIZE - 1), 0);
    cr_assert_eq(num_sent, 0);
    cr_assert_eq(find_keys(1), 0);
    cr_assert_eq(num_sent, 1);
    cr_assert(sent.head.type == UT_MSG_RAIL_KEYS && sent.head.flags == UT_MSG_FLAG_REQUEST &&
              sent.head.rails == 3 && sent.rmt_stadd == target());
    answer_with(BASE, SIZE, 0, 702);
    cr_assert_eq(find_keys(1), 2);
    cr_assert_eq(keys[1].rkey, 702);
    fake_clock_pass_ms(100);
    find_keys(1);
    cr_assert(num_sent == 2 && sent.head.rails == 1, "the one that is missing");
    answer_with(BASE, SIZE, 701, 0);
    cr_assert_eq(find_keys(1), 3);
    cr_assert(keys[0].rkey == 701 && keys[1].rkey == 702 && keys[0].lkey == OWN_LKEY);
    fake_clock_pass_ms(100000);
    find_keys(SIZE);
    cr_assert_eq(num_sent, 2);
}

Test(parts, peer_without_keys_is_asked_at_intervals)
{
    uint64_t pause = 4;

    open_keys(0, 1);
    fake_clock_align();
    find_keys(SIZE);
    cr_assert_eq(num_sent, 1);
    for (unsigned int i = 1; i < 18; i++) {
        fake_clock_pass_ms(pause - 1);
        find_keys(SIZE);
        cr_assert_eq(num_sent, i, "after %llu", (unsigned long long)pause);
        fake_clock_pass_ms(1);
        fake_clock_align();
        find_keys(SIZE);
        cr_assert_eq(num_sent, i + 1, "after %llu", (unsigned long long)pause);
        pause = pause < 32000 ? 2 * pause : 64000;
    }
}

/* Keys belong to one registration: another address, size or key of the STag drops them. */
Test(parts, keys_of_an_earlier_registration)
{
    open_keys(0, 3);
    for (int what = 0; what < 4; what++) {
        read_entry(OWN_RKEY, BASE, SIZE);
        find_keys(SIZE);
        answer_with(BASE, SIZE, 701, 702);
        cr_assert_eq(find_keys(1), 3);
        if (what < 3)
            read_entry(OWN_RKEY + (what == 0), BASE + (what == 1), SIZE + (what == 2));
        else
            ut_rails_invalidate_keys(to_peer, target());
        cr_assert_eq(find_keys(1), 0, "case %d", what);
    }
    find_keys(SIZE);
    answer_with(BASE + 1, SIZE, 701, 702);
    answer_with(BASE, SIZE + 1, 701, 702);
    cr_assert_eq(find_keys(1), 0);
    answer_with(BASE, SIZE, 701, 702);
    cr_assert_eq(find_keys(1), 3);
    ut_rails_invalidate_keys(to_peer, ut_stadd_make(5, 0, 0)); /* no STag */
    cr_assert_eq(find_keys(1), 3);
    ut_rails_drop_keys(to_peer);
    cr_assert(!to_peer->rails->keys);
    answer_with(BASE, SIZE, 701, 702); /* too late */
    ut_rails_invalidate_keys(to_peer, target());
    cr_assert(!to_peer->rails->keys);
    ut_link_drop_stag_cache(to_peer);
    cr_assert_eq(find_keys(SIZE), 0, "the entry was not read");
    ut_rails_close(to_peer);
    answer_with(BASE, SIZE, 701, 702);
}

/* Two STags with one place: the later one has it. */
Test(parts, stags_that_share_a_place)
{
    struct ut_cached_stag *e;
    utofu_stadd_t other = target() + ((uint64_t)UT_NUM_RAIL_KEYS << 40);
    struct prov_mr unused[UT_MAX_RAILS];

    open_keys(0, 3);
    find_keys(SIZE);
    answer_with(BASE, SIZE, 701, 702);
    e = ut_stag_cache_find_or_add(&to_peer->stag_cache, INDEX + UT_NUM_RAIL_KEYS);
    *e = (struct ut_cached_stag){.base = BASE, .size = SIZE, .rkey = OWN_RKEY};
    cr_assert_eq(ut_rails_find_keys(to_peer, &local, other, 1, own, unused), 0);
    answer_with(BASE, SIZE, 701, 702); /* of the first */
    cr_assert_eq(ut_rails_find_keys(to_peer, &local, other, 1, own, unused), 0);
    cr_assert_eq(find_keys(1), 0);
}

/*
 * What the peer asks
 */

static bool is_registered = true;

enum ut_stag_result __wrap_ut_stag_find(struct ut_stag_table *table, utofu_stadd_t stadd,
                                        uint64_t length, bool write, struct ut_stag_local **out,
                                        uint8_t **addr);
enum ut_stag_result __wrap_ut_stag_find(struct ut_stag_table *table, utofu_stadd_t stadd,
                                        uint64_t length, bool write, struct ut_stag_local **out,
                                        uint8_t **addr)
{
    cr_assert(table == vcq.stags && stadd == target() && length == 0 && write);
    *out = &local;
    *addr = local.base;
    return is_registered ? UT_STAG_OK : UT_STAG_OK + 1;
}

static void ask_for_keys(unsigned int mask)
{
    struct ut_msg_rail_keys m = {
        .head = {.type = UT_MSG_RAIL_KEYS, .flags = UT_MSG_FLAG_REQUEST, .rails = mask},
        .rmt_stadd = target()};

    num_sent = 0;
    ut_rails_on_keys(to_peer, &m);
    cr_assert(num_sent == 1 && sent.head.type == UT_MSG_RAIL_KEYS && sent.head.flags == 0 &&
              sent.head.rails == mask && sent.rmt_stadd == target());
}

Test(parts, peer_gets_the_keys_that_it_asks_for)
{
    open_keys(2, 0);
    local.base = (uint8_t *)0x5000;
    ask_for_keys(3);
    cr_assert(sent.base == 0x5000 && sent.size == 4096 && extra_length == 4096);
    cr_assert(sent.rkey[0] == 5 && sent.rkey[1] == 2052 && sent.rkey[2] == 0);
    ask_for_keys(2);
    cr_assert(sent.rkey[0] == 0 && sent.rkey[1] == 2052);
    ask_for_keys(1);
    cr_assert(sent.rkey[0] == 5 && sent.rkey[1] == 0);
    ask_for_keys(4);
    cr_assert(sent.rkey[0] == 0 && sent.rkey[1] == 0 && sent.rkey[2] == 0);
    has_extra = false;
    ask_for_keys(3);
    cr_assert(sent.rkey[0] == 5 && sent.rkey[1] == 0);
    is_registered = false;
    ask_for_keys(3);
    cr_assert(sent.base == 0 && sent.size == 0 && sent.rkey[0] == 0);
    is_registered = true;
    ut_rails_close(to_peer);
    ask_for_keys(3);
    cr_assert(sent.base == 0 && sent.size == 0 && sent.rkey[0] == 0);
}

/* A put whose connection broke: is it in parts that others decide on, and what counts it still? */
Test(parts, put_in_parts_after_a_break)
{
    enum { OUT = UT_SPLIT_POSTED | UT_SPLIT_OUTSTANDING };
    static const struct {
        uint8_t parted, by_rail, pending;
        bool is_decided_elsewhere;
        uint8_t parted_then, pending_then, outstanding;
    } cases[] = {{0, 0, 0, false, 0, 0, 2},
                 {UT_SPLIT_POSTED, 0, 0, false, UT_SPLIT_POSTED, 0, 2},
                 {OUT, 0, 1, false, UT_SPLIT_POSTED, 1, 1},
                 {OUT, 2, 2, true, OUT, 2, 2},
                 {OUT, 2, 3, true, OUT | UT_SPLIT_PART_UNKNOWN, 2, 2}};
    struct ut_rails rails = {0};
    struct ut_link link = {.rails = &rails};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ut_slot slot = {
            .parted = cases[i].parted, .by_rail = cases[i].by_rail, .pending = cases[i].pending};
        rails.split_puts_out = 2;
        link.unordered_out = 2;
        cr_assert_eq(ut_parted_rewind(&link, &slot), cases[i].is_decided_elsewhere, "%zu", i);
        cr_assert(slot.parted == cases[i].parted_then && slot.pending == cases[i].pending_then);
        cr_assert(rails.split_puts_out == cases[i].outstanding &&
                  link.unordered_out == cases[i].outstanding);
    }
}
