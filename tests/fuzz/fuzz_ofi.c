/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of peers over a fabric of libfabric: notes to the control endpoint, messages of
 * connections, and the ends of posted operations, in any order, while this process posts operations
 * of its own. Half of the messages are repaired, so that they pass the first checks.
 */
#include "../../provider/ofi/conn.h"
#include "../../provider/ofi/ep.h"
#include "../../provider/ofi/peer.h"
#include "../../provider/ofi/post.h"
#include "../../provider/ofi/auth.h"
#include "fake_fabric.h"
#include "fuzz.h"
#include "fuzz_provider.h"

enum { ENDPOINT = 7, CONNS = 4, PEERS = 2, MEMORY = 65536 };

static struct fp_prov *prov;
static struct prov_ep *ep;
static struct prov_conn *conns[CONNS];
static uint8_t memory[MEMORY], untouched[64];
static struct prov_mr *mr;
static uint8_t policy;

static void on_up(void *ctx, const void *hello, size_t size)
{
    (void)ctx;
    if (size > PROV_PRIVATE_DATA_MAX)
        abort();
    fake_sum(hello, size);
}

static void on_down(void *ctx, enum prov_reason reason)
{
    struct prov_conn **conn = ctx;

    (void)reason;
    fp_conn_close(*conn);
    *conn = NULL;
}

static void on_request(void *owner, struct prov *of, struct prov_conn *conn, uint64_t id,
                       const void *hello, size_t size)
{
    uint8_t mine[PROV_PRIVATE_DATA_MAX] = {0};
    int i = 0;

    (void)owner, (void)of, (void)id;
    fake_sum(hello, size);
    while (i < CONNS && conns[i])
        i++;
    if (i == CONNS || (policy & 1)) {
        fp_reject(conn);
        return;
    }
    conns[i] = conn;
    if (fp_accept(conn, mine, sizeof(mine), &conns[i]) != 0)
        abort();
}

static void wake(void *owner)
{
    (void)owner;
}

static void open_all(void)
{
    static const struct prov_callbacks callbacks = {
        on_done, on_unsignalled, on_message, on_notify, on_request, on_up, on_down};
    const struct prov_config config = {.wake = wake, .num_tnis = 1, .peer_timeout_ms = 30000};
    const struct prov_ep_attr attr = {.id = ENDPOINT, .callbacks = &callbacks, .depth = 16};
    struct prov *base;

    fake_num_eps = 0;
    policy = 0;
    fake_busy = 0;
    fake_reorders = false;
    if (ofi_provider.open(&config, &base) != 0 ||
        ofi_provider.reg(base, 0, memory, sizeof(memory), PROV_ACCESS_READ | PROV_ACCESS_WRITE,
                         &mr) != 0 ||
        ofi_provider.ep_open(base, &attr, &ep) != 0)
        abort();
    prov = fp_prov_of(base);
    memset(untouched, 9, sizeof(untouched));
}

/* Peers of another host, whose processes cannot be watched. */
static struct fp_address peer_at(uint8_t which)
{
    struct fp_address address = prov->address;

    address.boot = ~address.boot;
    address.pid = 1 + which % PEERS;
    return address;
}

static void close_all(void)
{
    struct fp_peer *peer;

    SLIST_FOREACH (peer, &prov->peers, next)
        fp_peer_died(peer); /* so that no wait is necessary */
    ofi_provider.ep_poll(ep);
    ofi_provider.ep_close(ep);
    memset(conns, 0, sizeof(conns));
    ofi_provider.dereg(&prov->base, mr);
    ofi_provider.close(&prov->base);
    for (size_t i = 0; i < sizeof(untouched); i++)
        if (untouched[i] != 9)
            abort();
}

static struct fp_conn *conn_at(uint8_t which)
{
    return (struct fp_conn *)conns[which % CONNS];
}

static void take_note(struct fuzz_input *in, uint8_t how)
{
    struct fp_ctrl_msg note;
    const struct fp_conn *conn = conn_at(how);

    memset(&note, how, sizeof(note));
    fuzz_bytes(in, &note, offsetof(struct fp_ctrl_msg, hello));
    memset(note.name, 1, sizeof(note.name));
    note.process = peer_at(how >> 2);
    if (how & 8) {
        note.kind = (uint8_t)(1 + note.kind % FP_PONG);
        note.to_id = ENDPOINT;
        note.hello_size %= PROV_PRIVATE_DATA_MAX + 1;
        note.name_size = 1 + note.name_size % FP_NAME_MAX;
        if (conn && note.kind != FP_CONN_REQUEST) {
            note.to_conn = note.kind == FP_PONG ? conn->peer->last_ping : conn->id;
            note.process = conn->peer->address;
        }
    }
    if (how & 8) { /* from a process of the job */
        note.signed_by = FP_SIGNED_BY_RECEIVER;
        fp_sign(&note, prov->key);
    }
    fake_arrive(&fake_eps[0], &note, how & 16 ? sizeof(note) : fuzz_byte(in));
    ofi_provider.progress(&prov->base);
}

/* Sets the fields that every message needs. */
static void repair(uint8_t *bytes, const struct fp_conn *conn, uint8_t how)
{
    struct fp_xfer *x = (struct fp_xfer *)(void *)bytes;

    /* the next in order, or early */
    x->head.number = (uint16_t)(conn->next_in + (x->head.number & 48 ? 0 : x->head.number & 7));
    x->head.to = conn->id;
    x->head.secret = conn->secret_in;
    x->head.kind = (uint8_t)(1 + x->head.kind % FP_RKEY_REPLY);
    if (x->head.kind == FP_READ_DATA || x->head.kind == FP_REFUSAL ||
        x->head.kind == FP_READ_OFFER || x->head.kind == FP_RKEY_REPLY)
        x->head.seq = conn->reported + 1 + x->head.seq % 4;
    else
        x->head.seq = conn->received + 1 + (uint16_t)(x->head.number - conn->next_in);
    x->head.ack = conn->sent - x->head.ack % 4;
    if (!(how & 32) || x->head.kind == FP_RKEY_REPLY)
        return;
    x->rkey = mr->rkey;
    x->rmt = (uintptr_t)memory + x->rmt % MEMORY;
    x->length %= 2 * MEMORY;
    if (how & 64)
        x->offset = x->head.kind == FP_RMA_WRITE ? x->length - 1 - x->offset % 256 : conn->written;
}

static size_t size_of(uint8_t kind)
{
    switch ((enum fp_kind)kind) {
    case FP_RKEY_REPLY:
        return sizeof(struct fp_rkey_reply);
    case FP_WRITE_OFFER:
    case FP_READ_OFFER:
        return sizeof(struct fp_offer);
    default:
        return sizeof(struct fp_xfer);
    }
}

static void take_message(struct fuzz_input *in, uint8_t how)
{
    _Alignas(8) uint8_t bytes[FAKE_BUFFER];
    const struct fp_conn *conn = conn_at(how);
    size_t size = fuzz_bytes(in, bytes, sizeof(struct fp_rkey_reply) + 8);

    memset(bytes + size, how, sizeof(bytes) - size);
    if ((how & 4) && conn)
        repair(bytes, conn, how);
    const struct fp_head *head = (const void *)bytes;
    size = how & 8 ? sizeof(bytes) : how & 16 ? size_of(head->kind) : size;
    if ((how & 24) == 24)
        size = sizeof(struct fp_xfer) + fuzz_byte(in);
    fake_arrive(&fake_eps[1], bytes, size);
    if (!(head->flags & 128)) /* otherwise together with the next one */
        ofi_provider.ep_poll(ep);
}

static void post_one(struct fuzz_input *in, uint8_t how)
{
    struct fp_conn *conn = conn_at(how);
    uint32_t length = (uint32_t)fuzz_byte(in) << (how & 4 ? 8 : 0);
    struct prov_xfer x = {.lcl = memory,
                          .lkey = mr->lkey,
                          .rmt = 4096 + fuzz_byte(in),
                          .rkey = 1 + (how >> 3 & 1),
                          .length = length,
                          .flags = how >> 4 & 1 ? PROV_SIGNAL | PROV_NOTIFY : PROV_STRONG_ORDER};

    if (!conn)
        return;
    if (how & 32)
        ofi_provider.read((struct prov_conn *)conn, &x);
    else if (how & 64)
        ofi_provider.send((struct prov_conn *)conn, memory, length % PROV_MSG_MAX, PROV_SIGNAL, 1);
    else
        ofi_provider.write((struct prov_conn *)conn, &x);
}

static void connect_out(uint8_t how)
{
    struct fp_record record = {.key = {how}, .address = peer_at(how >> 2)};
    struct prov_conn **place = &conns[how % CONNS];

    if (*place)
        return;
    if (ofi_provider.connect(ep, &record,
                             offsetof(struct fp_record, address.name) + record.address.name_size, 0,
                             how >> 3, "hello", 5, place, place) != 0)
        *place = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { NOTE, MESSAGE, POST, END, FAIL, CONNECT, CLOSE, POLL };
    struct fuzz_input in = {data, size};

    open_all();
    while (in.left > 0) {
        uint8_t what = fuzz_byte(&in), how = fuzz_byte(&in);
        switch (what & 7) {
        case NOTE:
            take_note(&in, how);
            ofi_provider.ep_poll(ep);
            break;
        case MESSAGE:
            take_message(&in, how);
            break;
        case POST:
            post_one(&in, how);
            break;
        case END:
        case FAIL:
            fake_end(&fake_eps[how & 1], (what & 7) == END);
            ofi_provider.ep_poll(ep);
            break;
        case CONNECT:
            connect_out(how);
            break;
        case CLOSE:
            if (conns[how % CONNS]) {
                ofi_provider.conn_close(conns[how % CONNS]);
                conns[how % CONNS] = NULL;
            }
            break;
        default:
            policy = how & 1;
            fake_busy = how >> 1 & 3;
            fake_reorders = how >> 3 & 1;
            ofi_provider.progress(&prov->base);
            ofi_provider.ep_poll(ep);
        }
    }
    close_all();
    return 0;
}
