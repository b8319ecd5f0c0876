/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: another task fills slots of the LAPI layer with arbitrary records. Accepted
 * records must have an existing task, request and function, and stay within their slot. Addresses
 * of memory are made valid first, because LAPI permits a task to write anywhere.
 */
#define la_cntr_increment la_bump_in_memory
#include "../../layers/lapi/context.h"
#undef la_cntr_increment

/* A record may contain any address of a counter. */
static void la_cntr_increment(lapi_cntr_t *cntr)
{
    if (cntr == NULL)
        __builtin_trap();
}

#include "../../layers/lapi/dispatch.c"
#include "../../layers/lapi/hdr_handlers.c"
#include "../../layers/lapi/inbox.c"
#include "../../layers/lapi/receive.c"
#include "../../layers/lapi/vector.c"

#include "fuzz.h"
#include "layer_lines.h"

enum { PROCS = 4, INS = 8, ARENA = 4096 };

struct la la = {
    .job.procs = PROCS, .requests.num_free = LA_NUM_REQS, .net.port.num_free = LA_NUM_OPS};
static struct la_control_words control;
static uint8_t inbox[LA_NUM_SLOTS][LA_SLOT_SIZE] __attribute__((aligned(4096)));
static uint8_t arena[ARENA] __attribute__((aligned(64)));
static uint8_t bounce[LA_SLOT_SIZE];
static struct la_incoming ins[INS];
static void *pieces[1] = {arena};
static ulong lengths[1] = {ARENA};
static lapi_vec_t vec = {
    .vec_type = LAPI_GEN_IOVECTOR, .num_vecs = 1, .info = pieces, .len = lengths};

static void check(bool good)
{
    if (!good)
        __builtin_trap();
}

void la_report_error(int code, uint32_t rank)
{
    (void)code, (void)rank;
}

uint32_t lc_env_number(const char *name, uint32_t default_value)
{
    (void)name;
    return default_value;
}

void la_send_reply(const struct la_record *rec, uint8_t flag, uint64_t value)
{
    (void)value;
    check(rec->rank < PROCS && rec->req_index < LA_NUM_REQS &&
          (flag == LA_WANTS_FIN || flag == LA_WANTS_CMPL));
}

bool lc_op_put(struct lc_op *o, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size, unsigned long int flags)
{
    (void)id, (void)lcl, (void)rmt, (void)flags;
    check(o->rank < PROCS && size <= LA_SHORT_GET_SIZE);
    lc_op_free(o);
    return true;
}

utofu_stadd_t la_reply_stadd(utofu_vcq_id_t id, uint32_t req, uint32_t offset)
{
    (void)id;
    check(req < LA_NUM_REQS && offset < LA_REPLY_SIZE);
    return 0;
}

bool la_incoming_reserve_spare(void)
{
    return false;
}

struct la_incoming *la_incoming_alloc(void)
{
    static int next_in;

    return &ins[next_in++ % INS];
}

static void check_msg(const struct la_incoming *msg)
{
    const struct la_record *rec = &msg->rec;

    check(rec->rank < PROCS && rec->req_index < LA_NUM_REQS && rec->kind >= LA_AM &&
          rec->kind <= LA_LAST_KIND);
    check((rec->flags & LA_ASSIST) == 0 ||
          (rec->kind <= LA_PUT && (rec->flags & LA_RENDEZVOUS) != 0));
}

/* Like incoming.c, which takes rec.total_len + 1 bytes for vectors. */
void la_incoming_start(struct la_incoming *msg)
{
    check_msg(msg);
    check(msg->rec.total_len <= LAPI_MAX_MSG_SZ && (msg->rec.flags & LA_WANTS_FIN) != 0);
    check(msg->rec.kind != LA_PUTV || msg->rec.list_size <= msg->rec.total_len);
}

void la_incoming_start_getv(struct la_incoming *msg, const void *there)
{
    uint8_t list[LA_SLOT_SIZE];

    check_msg(msg);
    check(msg->rec.list_size <= msg->rec.total_len && msg->rec.total_len <= LAPI_MAX_MSG_SZ);
    if ((msg->rec.flags & LA_RENDEZVOUS) == 0)
        memcpy(list, there, msg->rec.list_size);
}

void la_incoming_complete(struct la_incoming *msg)
{
    check_msg(msg);
}

/* Reads all its data; it provides no memory for data of an odd length. */
static void *header(lapi_handle_t *hndl, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **user_info)
{
    const lapi_return_info_t *info = (const lapi_return_info_t *)msg_len;
    const uint8_t *data = info->udata_one_pkt_ptr;
    uint8_t sum = 0;

    (void)hndl, (void)handler, (void)user_info;
    check(info->src < PROCS && *uhdr_len <= LA_MAX_UHDR_SIZE);
    for (uint i = 0; uhdr != NULL && i < *uhdr_len; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)uhdr)[i]);
    for (ulong i = 0; data != NULL && i < *msg_len; i++)
        sum = (uint8_t)(sum + data[i]);
    arena[0] = sum;
    return *msg_len % 2 != 0 ? NULL : arena;
}

/* For Amsendv; data that arrive in one piece may be truncated. */
static void *header_of_vector(lapi_handle_t *hndl, void *uhdr, uint *uhdr_len, ulong *msg_len,
                              compl_hndlr_t **handler, void **user_info)
{
    header(hndl, uhdr, uhdr_len, msg_len, handler, user_info);
    return &vec;
}

static void repair_list(struct la_record *rec)
{
    const uint64_t address = (uintptr_t)arena;
    uint8_t *at = (uint8_t *)rec + LA_LONG_HEADER_SIZE + la_padded_len(rec->uhdr_len);

    for (; at + sizeof(struct la_segment) <= (uint8_t *)rec + LA_SLOT_SIZE;
         at += sizeof(struct la_segment))
        memcpy(at, &address, sizeof(address));
}

/* Makes addresses writable memory; indices and addresses of handlers may also be invalid. */
static void repair_address(struct la_record *rec)
{
    hdr_hndlr_t *const handler = (rec->flags & LA_VECTOR) != 0 ? header_of_vector : header;

    if (rec->kind == LA_PUTV || rec->kind == LA_GETV)
        repair_list(rec);
    if (rec->kind != LA_AM)
        rec->tgt_addr = (uintptr_t)arena + rec->tgt_addr % 16;
    else if (rec->tgt_addr % 4 == 0)
        memcpy(&rec->tgt_addr, &handler, sizeof(rec->tgt_addr));
    else if (rec->tgt_addr % 4 == 1)
        rec->tgt_addr = (uintptr_t)arena + rec->tgt_addr % ARENA;
    else
        rec->tgt_addr = (rec->flags & LA_VECTOR) != 0 ? 2 : rec->tgt_addr % LAPI_ADDRTBL_SZ % 2;
}

static void fill_slot(struct fuzz_input *in)
{
    uint8_t mode = fuzz_byte(in), lane = fuzz_byte(in) % (LA_PRIVATE_LANES + 1);
    uint32_t slot = lane < LA_PRIVATE_LANES
                        ? la_inbox_next_slot(lane)
                        : LA_PRIVATE_LANES * LA_LANE_SLOTS + mode % LA_SHARED_SLOTS;
    struct la_record *rec = (struct la_record *)inbox[slot];
    uint16_t size;

    fuzz_bytes(in, &size, sizeof(size));
    memset(rec, 0xa5, LA_SLOT_SIZE);
    fuzz_bytes(in, rec, LA_LONG_HEADER_SIZE + size % (LA_SLOT_SIZE - LA_LONG_HEADER_SIZE));
    repair_address(rec);
    rec->seq = 0;
    if (mode % 2 == 0 && lane < LA_PRIVATE_LANES) {
        rec->seq = la.inbox.num_consumed[lane] + 1;
        la_dispatch_poll_memory();
    }
    la_dispatch_handle_notice(slot);
    la_dispatch_run();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const struct lc_port_config kind = {.num_ops = LA_NUM_OPS, .bounce_size = LA_SLOT_SIZE};

    (void)argc, (void)argv;
    la.net.port.config = &kind;
    la.net.port.bounce = bounce;
    la.net.port.ops[0].port = &la.net.port; /* the only one: free_ops has zeros */
    la.control.words = &control;
    la.control.inbox = inbox;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {.at = data, .left = size};

    la_inbox_setup();
    la_hdr_handlers_setup();
    la_dispatch_setup();
    memset(&control, 0, sizeof(control));
    memset(inbox, 0, sizeof(inbox));
    control.lanes_requested = LA_PRIVATE_LANES;
    la_hdr_handlers_set(1, (void *)(uintptr_t)header);
    la_hdr_handlers_set(2, (void *)(uintptr_t)header_of_vector);
    while (in.left > 0)
        fill_slot(&in);
    return 0;
}
