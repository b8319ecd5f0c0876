/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: a peer on the RDMA network sends requests to a listener of this process,
 * accepts and rejects requests of this process, all with arbitrary private data, and gives up at
 * any moment. Peers that are connected send control messages, in any order; there are fewer places
 * than connections. Needs no device: tests/provider/fake_verbs.h replaces librdmacm and libibverbs,
 * with events in the order in which the kernel raises them. The clock is the fuzzer's, too.
 */
#include "../provider/fake_verbs.h"

#include "fuzz_verbs.h"

static uint8_t private_data[256];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    fake_tick_ns = 1000000000;
    return ut_process_environment();
}

static void open_all(void)
{
    const struct prov_config config = {.wake = wake, .num_tnis = 1, .peer_timeout_ms = 100000};

    open_provider(&config);
    open_endpoint();
}

static void close_all(void)
{
    is_pending = false;
    close_endpoint();
}

/*
 * Incoming events
 */

static void set_private_data(struct fuzz_input *in)
{
    size_t n = fuzz_bytes(in, private_data, fuzz_byte(in));

    pending.param.conn.private_data = n ? private_data : NULL;
    pending.param.conn.private_data_len = (uint8_t)n;
}

/* A request: for a valid connection, a probe, or anything. */
static void request(struct fuzz_input *in, uint8_t how)
{
    struct vp_hello_req *req = (struct vp_hello_req *)private_data;
    struct fake_id *id = new_id(NULL, INCOMING);

    if (!id)
        return;
    pending = (struct rdma_cm_event){
        .id = &id->id, .listen_id = &listener, .event = RDMA_CM_EVENT_CONNECT_REQUEST};
    is_pending = true;
    set_private_data(in);
    if ((how & 1) && pending.param.conn.private_data_len >= sizeof(*req)) {
        req->kind = (uint8_t)(req->kind & 1 ? VP_REQ_PROBE : req->kind >> 1);
        memcpy(req->key, prov->key, sizeof(prov->key));
        req->target_id = ENDPOINT;
        req->origin_id %= 4;
        req->tag %= 4;
    }
    pending.param.conn.responder_resources = how;
    vp_cm_run_events(prov);
}

/* An event that the kernel may raise for an id in its step, chosen by `which`. */
static enum rdma_cm_event_type choose(struct fake_id *id, uint8_t which)
{
    static const enum rdma_cm_event_type next[][4] = {
        [ADDRESS] = {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_RESOLVED,
                     RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_DEVICE_REMOVAL},
        [ROUTE] = {RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED,
                   RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_DEVICE_REMOVAL},
        [ASKED] = {RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_REJECTED,
                   RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_CONNECT_ERROR},
        [INCOMING] = {RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_REJECTED,
                      RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_DEVICE_REMOVAL},
        [ACCEPTED] = {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED,
                      RDMA_CM_EVENT_CONNECT_ERROR},
        [CONNECTED] = {RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED,
                       RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_TIMEWAIT_EXIT},
        [GONE] = {RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_DISCONNECTED,
                  RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_DEVICE_REMOVAL},
    };

    return next[id->step][which & 3];
}

static void advance(struct fake_id *id, enum rdma_cm_event_type type)
{
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        id->step = IDLE;
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        id->step = ANSWERED;
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        id->step = CONNECTED;
        break;
    default:
        id->step = GONE;
    }
}

static void tell(struct fuzz_input *in, uint8_t which)
{
    struct fake_id *id = ids[fuzz_byte(in) % IDS];

    if (!id || id->step == IDLE || id->step == ANSWERED)
        return;
    if (id->step == INCOMING && !id->id.context)
        return;
    pending = (struct rdma_cm_event){.id = &id->id, .event = choose(id, which)};
    pending.status = (int)(int8_t)fuzz_byte(in);
    is_pending = true;
    set_private_data(in);
    if ((which & 4) && pending.event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
        uint8_t *mtu = &private_data[offsetof(struct vp_hello_rep, mtu)];
        memcpy(private_data, "uTfA", 4);
        *mtu = (uint8_t)(IBV_MTU_256 + *mtu % IBV_MTU_4096);
    }
    if ((which & 4) && pending.event == RDMA_CM_EVENT_REJECTED)
        memcpy(private_data, "uTfR", 4);
    advance(id, pending.event);
    vp_cm_run_events(prov);
}

/* A control message of a peer, on any earlier or current queue pair. */
static void say(struct fuzz_input *in)
{
    static const uint32_t controls[] = {VP_CTL_CLOSE, VP_CTL_SUSPEND_REQUEST, VP_CTL_SUSPEND_FORCE,
                                        VP_CTL_SUSPEND_REFUSE, VP_CTL_SUSPEND};

    if (num_arrivals == REPORTS || !qp_num)
        return;
    uint32_t which = qp_num - fuzz_byte(in) % (qp_num < 8 ? qp_num : 8);
    arrivals[num_arrivals++] = (struct ibv_wc){.opcode = IBV_WC_RECV,
                                               .status = IBV_WC_SUCCESS,
                                               .wc_flags = IBV_WC_WITH_IMM,
                                               .imm_data = htobe32(controls[fuzz_byte(in) % 5]),
                                               .qp_num = which};
}

static void connect_out(struct fuzz_input *in, uint8_t how)
{
    uint8_t address[PROV_ADDR_MAX], hello[PROV_PRIVATE_DATA_MAX] = {0};
    struct prov_conn **place = free_place();

    if (!place)
        return;
    size_t n = fuzz_bytes(in, address, fuzz_byte(in) % (sizeof(address) + 1));
    if (how & 1)
        n = vp_address(&prov->base, address);
    if (vp_connect(ep, address, n, how, ENDPOINT, hello, sizeof(hello), place, place) != 0)
        *place = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { REQUEST, TELL, CONNECT, PROGRESS, POLL, CLOSE, BREAK, WAIT };
    struct fuzz_input in = {data, size};

    open_all();
    while (in.left > 0) {
        uint8_t how = fuzz_byte(&in);
        struct prov_conn **conn = &conns[how >> 3 & (CONNS - 1)];
        switch (how & 7) {
        case REQUEST:
            request(&in, how >> 3);
            break;
        case TELL:
            tell(&in, how >> 3);
            break;
        case CONNECT:
            connect_out(&in, how >> 3);
            break;
        case POLL:
            policy = how >> 3 & 15;
            if (how & 0x80)
                say(&in);
            fake_status = how & 0x40 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR;
            vp_ep_poll(ep);
            break;
        case CLOSE:
            close_conn(conn);
            break;
        case BREAK:
            break_conn(*conn);
            break;
        case WAIT:
            fake_now.tv_sec += how >> 3;
            /* fall through */
        default:
            vp_progress(&prov->base);
        }
    }
    close_all();
    return 0;
}
