/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of strangers to a listener of the verbs provider: how many of them are answered, and
 * when. There is no device: fake_verbs.h, whose clock is moved by the test. This file replaces
 * ud.c.
 */
#include "fake_verbs.h"
#include "../../provider/verbs/ports/ud.h"
#include "checked_locks.h"
#include "../harness/check.h"
#include "process/process.h"

enum { AT_ONCE = 256, PER_MS = 2, QUIET_MS = 10, ENDPOINT = 7 };

static struct vp_prov *prov;
static struct prov_ep *ep;
static struct vp_hello_req asked; /* the data of every request */
static int waiting, taken;        /* requests */

/* The next request, as an event of the kernel. */
static bool next_request(void)
{
    struct fake_id *id = waiting > 0 ? new_id(NULL, INCOMING) : NULL;

    if (!id)
        return false;
    waiting--;
    taken++;
    pending = (struct rdma_cm_event){
        .id = &id->id, .listen_id = &listener, .event = RDMA_CM_EVENT_CONNECT_REQUEST};
    pending.param.conn.private_data = &asked;
    pending.param.conn.private_data_len = sizeof(asked);
    is_pending = true;
    return true;
}

/*
 * Datagrams
 */

static int datagrams; /* that wait */
static int datagram_fd = -1;

size_t vp_ud_recv(struct vp_port *port, uint8_t data[VP_UD_MAX], uint8_t *sl)
{
    (void)port;
    if (!datagrams)
        return 0;
    datagrams--;
    taken++;
    memset(data, 0x55, VP_UD_MAX);
    *sl = 0;
    return VP_UD_MAX;
}

int vp_ud_fd(const struct vp_port *port)
{
    (void)port;
    return datagram_fd;
}

bool vp_ud_send(struct vp_port *port, const struct vp_ud_addr *to, const void *data, size_t size)
{
    (void)port, (void)to, (void)data, (void)size;
    abort(); /* a stranger gets no answer */
}

int vp_ud_resolve(struct vp_port *port, const struct vp_ud_addr *to)
{
    (void)port, (void)to;
    abort();
}

bool vp_ud_sends_are_done(struct vp_port *port)
{
    (void)port;
    return true;
}

void vp_ud_path(const struct vp_port *port, const struct vp_ud_addr *to, struct ibv_ah_attr *attr)
{
    (void)port, (void)to, (void)attr;
}

int vp_ud_probe_port(struct vp_port *port, int gid_index)
{
    (void)port, (void)gid_index;
    return -ENODEV;
}

int vp_ud_open(struct vp_prov *of, struct vp_port *port)
{
    (void)of, (void)port;
    return -ENODEV;
}

void vp_ud_close(struct vp_port *port)
{
    (void)port;
}

static void pass_ms(int ms)
{
    fake_now.tv_nsec += ms * 1000000L;
    fake_now.tv_sec += fake_now.tv_nsec / 1000000000;
    fake_now.tv_nsec %= 1000000000;
}

static void no_request(void *owner, struct prov *self, struct prov_conn *conn, uint64_t id,
                       const void *hello, size_t size)
{
    (void)owner, (void)self, (void)conn, (void)id, (void)hello, (void)size;
}

static void wake(void *owner)
{
    (void)owner;
}

static void open_all(void)
{
    static const struct prov_callbacks callbacks = {.request = no_request};
    const struct prov_config config = {.wake = wake, .num_tnis = 1, .peer_timeout_ms = 100000};
    const struct prov_ep_attr attr = {.id = ENDPOINT, .callbacks = &callbacks, .depth = 16};

    fake_now.tv_sec = 1000;
    prov = fake_open(&config);
    channel.fd = eventfd(1, EFD_CLOEXEC); /* there is always something */
    CHECK(channel.fd >= 0 && vp_watch(prov, channel.fd, VP_WATCH_CM) == 0);
    CHECK(vp_ep_open(&prov->base, &attr, &ep) == 0);
    fake_more = next_request;
}

/* req: NULL: requests by datagrams. */
static void flood(const struct vp_hello_req *req)
{
    if (req)
        asked = *req;
    waiting = req ? 100000 : 0;
    datagrams = req ? 0 : 100000;
    taken = 0;
}

static void strangers_are_answered_at_a_limited_rate(const struct vp_hello_req *req)
{
    pass_ms(1000000);
    flood(req);
    int wait = vp_progress(&prov->base);
    CHECK(taken == AT_ONCE && wait == QUIET_MS);
    for (int i = 0; i < 100; i++) /* no event wakes the thread */
        vp_progress(&prov->base);
    CHECK(taken == AT_ONCE);
    struct epoll_event event;
    CHECK(epoll_wait(prov->epoll_fd, &event, 1, 0) == 0);
    for (int i = 1; i <= 50; i++) {
        pass_ms(QUIET_MS);
        vp_progress(&prov->base); /* polls the channel again from here on */
        vp_progress(&prov->base);
        CHECK(taken == AT_ONCE + i * QUIET_MS * PER_MS);
    }
    waiting = datagrams = 0;
    pass_ms(QUIET_MS);
    vp_progress(&prov->base);
    CHECK(vp_progress(&prov->base) != 0);
}

/* Requests of processes of the job are not limited. */
static void who_knows_the_key_is_not_limited(void)
{
    struct vp_hello_req req = {.target_id = ENDPOINT + 1};

    memcpy(req.key, prov->key, sizeof(req.key));
    pass_ms(1000000);
    flood(&req);
    waiting = 1000;
    vp_progress(&prov->base);
    CHECK(taken == 1000 && waiting == 0);
}

int main(void)
{
    struct vp_hello_req probe = {.kind = VP_REQ_PROBE}, stranger = {.kind = 0};

    CHECK(ut_process_environment() == 0);
    open_all();
    strangers_are_answered_at_a_limited_rate(&probe);
    for (size_t byte = 0; byte < sizeof(stranger.key); byte++) {
        memcpy(stranger.key, prov->key, sizeof(stranger.key));
        stranger.key[byte] ^= 1;
        strangers_are_answered_at_a_limited_rate(&stranger);
    }
    who_knows_the_key_is_not_limited();
    prov->ports[0].ud = (struct vp_ud *)prov; /* not used here */
    datagram_fd = eventfd(1, EFD_CLOEXEC);
    CHECK(datagram_fd >= 0 && vp_watch(prov, datagram_fd, VP_WATCH_UD) == 0);
    uint64_t before = prov->wrong_keys;
    strangers_are_answered_at_a_limited_rate(NULL);
    CHECK(prov->wrong_keys == before + (uint64_t)taken);
    prov->ports[0].ud = NULL;
    fake_more = NULL;
    vp_ep_close(ep);
    fake_close(prov);
    close(channel.fd);
    close(datagram_fd);
    return 0;
}
