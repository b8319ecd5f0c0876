/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: processes on the RDMA network, with or without the key, send the datagrams of
 * connections made by datagrams: any bytes, or messages that match those of this process, in any
 * order, repeated and late. This process requests connections, accepts and refuses, closes and
 * breaks them, and answers may be missing. Needs no device: tests/provider/fake_verbs.h replaces
 * libibverbs, and the functions of ud.h are in this file. The clock is the fuzzer's, too.
 */
#include "../provider/fake_verbs.h"

/* also defined in fake_verbs.h */
#define IDLE UD_IDLE
#define GONE UD_GONE
#include "../../provider/verbs/connect/udcm.c"
#undef IDLE
#undef GONE

#include "../provider/fake_ud.h"
#include "fuzz_verbs.h"

enum { PEERS = 3, KEPT = 8, OWN_QPN = 100, VENDOR = 0x15b3 };

/*** datagrams ***/

static struct message kept[KEPT]; /* the messages sent last */
static unsigned int num_sent;
static uint8_t arrived[VP_UD_MAX];
static size_t arrived_size; /* 0: no message */
static bool sends;

bool vp_ud_send(struct vp_port *port, const struct vp_ud_addr *to, const void *data, size_t size)
{
    (void)port, (void)to;
    if (size != sizeof(struct message))
        abort();
    memcpy(&kept[num_sent++ % KEPT], data, size);
    return sends;
}

size_t vp_ud_recv(struct vp_port *port, uint8_t data[VP_UD_MAX], uint8_t *sl)
{
    size_t size = arrived_size;

    (void)port;
    *sl = 0;
    memcpy(data, arrived, VP_UD_MAX);
    arrived_size = 0;
    return size;
}

/*** the process ***/

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    fake_tick_ns = 1000000;
    fake_ece.options = 0x73;
    return ut_process_environment();
}

static void open_all(void)
{
    const struct prov_config config = {
        .wake = wake, .num_tnis = 1, .peer_timeout_ms = 4000, .job_timeout_ms = 4000};

    open_provider(&config);
    struct vp_port *port = &prov->ports[0];
    port->cm_ops = &vp_udcm_ops;
    port->ud = (struct vp_ud *)prov; /* not used here */
    port->mtu = IBV_MTU_1024;
    port->gid_index = -1;
    port->at.lid = 1;
    port->at.qpn = OWN_QPN;
    memset(prov->ud_key, 0x77, sizeof(prov->ud_key));
    memset(prov->key, 0x77, sizeof(prov->key));
    memset(port->at.key, 0x77, sizeof(port->at.key));
    prov->udcm->last_number = UINT32_MAX - 2; /* so that it wraps */
    memset(kept, 0, sizeof(kept));
    num_sent = 0;
    arrived_size = 0;
    reach_rc = 0;
    sends = true;
    fake_ece.vendor_id = 0;
    open_endpoint();
}

/** * incoming messages ** */

static struct vp_ud_addr peer_at(unsigned int which)
{
    struct vp_ud_addr at = {.lid = (uint16_t)(2 + which), .qpn = OWN_QPN + 1 + which};

    memset(at.key, (int)(0x40 + which), sizeof(at.key));
    return at;
}

/* The message is of that process, and refers to the same connection as kept[]. */
static void make_fit(struct message *msg, struct fuzz_input *in)
{
    uint8_t which = fuzz_byte(in), kind = fuzz_byte(in);
    const struct message *last = &kept[which >> 2 & (KEPT - 1)];
    struct vp_ud_addr from = peer_at((which & 3) % PEERS);

    memcpy(msg->magic, magic, sizeof(magic));
    msg->version = VERSION;
    msg->kind = (uint8_t)(kind & 7);
    msg->size %= MAX_DATA + 1;
    msg->mtu = (uint8_t)(1 + msg->mtu % IBV_MTU_4096);
    memcpy(msg->key, prov->ports[0].at.key, sizeof(msg->key));
    memcpy(msg->gid, from.gid.raw, sizeof(msg->gid));
    msg->lid = from.lid;
    msg->ud_qpn = from.qpn;
    memcpy(msg->own_key, from.key, sizeof(msg->own_key));
    msg->to = kind & 8 ? last->from : 0;
    msg->from = kind & 16 ? last->to : msg->from % 4;
    msg->echo = kind & 32 ? last->copy_number : msg->echo;
}

/* Private data of a valid request or answer. */
static void make_sense(struct message *msg)
{
    struct vp_hello_req *req = (struct vp_hello_req *)msg->data;

    if (msg->ece.vendor_id & 1)
        msg->ece.vendor_id = VENDOR;
    if (msg->kind == REP) {
        memcpy(msg->data, "uTfA", 4);
        msg->data[offsetof(struct vp_hello_rep, mtu)] = msg->mtu; /* which is checked before */
        msg->size = sizeof(struct vp_hello_rep);
    }
    if (msg->kind != REQ)
        return;
    msg->size = sizeof(*req);
    req->kind = (uint8_t)(req->kind & 1 ? VP_REQ_PROBE : req->kind >> 1);
    memcpy(req->key, prov->key, sizeof(prov->key));
    req->target_id = ENDPOINT;
    req->origin_id %= 4;
    req->tag %= 4;
}

static void arrive(struct fuzz_input *in, uint8_t how)
{
    struct message msg;

    memset(arrived, 0, sizeof(arrived));
    fuzz_bytes(in, &msg, how & 1 ? offsetof(struct message, data) + 8 : sizeof(msg));
    if (how & 1)
        memset(msg.data + 8, 0, sizeof(msg.data) - 8);
    arrived_size = how & 16 ? 1 + fuzz_byte(in) % (VP_UD_MAX - 1) : sizeof(msg);
    if (how & 2)
        make_fit(&msg, in);
    if (how & 4)
        make_sense(&msg);
    memcpy(arrived, &msg, sizeof(msg));
    vp_cm_run_events(prov);
}

/* Connects to one of the peers, whose address has the layout of this process's own. */
static void connect_out(uint8_t how)
{
    uint8_t address[PROV_ADDR_MAX], hello[PROV_PRIVATE_DATA_MAX] = {0};
    struct vp_port *port = &prov->ports[0];
    struct prov_conn **place = free_place();
    struct vp_ud_addr own = port->at;

    if (!place)
        return;
    port->at = peer_at((how & 3) % PEERS);
    memcpy(prov->ud_key, port->at.key, sizeof(prov->ud_key));
    size_t n = vp_address(&prov->base, address);
    port->at = own;
    memcpy(prov->ud_key, own.key, sizeof(prov->ud_key));
    if (vp_connect(ep, address, n, how >> 2, ENDPOINT, hello, sizeof(hello), place, place) != 0)
        *place = NULL;
}

static void pass_ms(uint8_t how)
{
    fake_now.tv_nsec += how * 37 % 1000 * 1000000L;
    fake_now.tv_sec += how >> 4;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { ARRIVE, AGAIN, CONNECT, PROGRESS, POLL, CLOSE, BREAK, WAIT };
    struct fuzz_input in = {data, size};

    open_all();
    while (in.left > 0) {
        uint8_t how = fuzz_byte(&in);
        struct prov_conn **conn = &conns[how >> 3 & (CONNS - 1)];
        switch (how & 7) {
        case ARRIVE:
            arrive(&in, how >> 3);
            break;
        case AGAIN: /* the same datagram */
            arrived_size = sizeof(struct message);
            vp_cm_run_events(prov);
            break;
        case CONNECT:
            connect_out(how >> 3);
            break;
        case POLL:
            policy = how >> 3 & 1;
            reach_rc = how & 0x10 ? -EHOSTUNREACH : 0;
            sends = !(how & 0x20);
            fake_status = how & 0x40 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR;
            fake_ece.vendor_id = how & 0x80 ? VENDOR : 0;
            vp_ep_poll(ep);
            break;
        case CLOSE:
            close_conn(conn);
            break;
        case BREAK:
            break_conn(*conn);
            break;
        case WAIT:
            pass_ms(how >> 3);
            /* fall through */
        default:
            vp_progress(&prov->base);
        }
    }
    close_endpoint();
    return 0;
}
