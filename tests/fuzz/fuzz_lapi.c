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

struct la la = {.job.procs = PROCS, .requests.num_free = LA_REQS, .net.port.num_free = LA_OPS};
static struct la_control control;
static uint8_t inbox[LA_SLOTS][LA_SLOT] __attribute__((aligned(4096)));
static uint8_t arena[ARENA] __attribute__((aligned(64)));
static uint8_t bounce[LA_SLOT];
static struct la_transfer ins[INS];
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

void la_send_reply(const struct la_record *rec, uint32_t offset, uint64_t value)
{
    (void)value;
    check(rec->rank < PROCS && rec->req < LA_REQS &&
          (offset == LA_FIN_END || offset == LA_CMPL_END));
}

bool lc_op_put(struct lc_op *o, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size, unsigned long int flags)
{
    (void)id, (void)lcl, (void)rmt, (void)flags;
    check(o->rank < PROCS && size <= LA_SMALL_GET);
    lc_op_free(o);
    return true;
}

utofu_stadd_t la_reply_stadd(utofu_vcq_id_t id, uint32_t req, uint32_t offset)
{
    (void)id;
    check(req < LA_REQS && offset < LA_REPLY);
    return 0;
}

bool la_transfer_has_spare(void)
{
    return false;
}

struct la_transfer *la_transfer_alloc(void)
{
    static int next_in;

    return &ins[next_in++ % INS];
}

static void check_in(const struct la_transfer *in)
{
    const struct la_record *rec = &in->rec;

    check(rec->rank < PROCS && rec->req < LA_REQS && rec->kind >= LA_AM &&
          rec->kind <= LA_LAST_KIND);
    check((rec->flags & LA_ASSIST) == 0 ||
          (rec->kind <= LA_PUT && (rec->flags & LA_RENDEZVOUS) != 0));
}

/* Like transfer.c, which takes rec.len + 1 bytes for vectors. */
void la_transfer_start(struct la_transfer *in)
{
    check_in(in);
    check(in->rec.len <= LAPI_MAX_MSG_SZ && (in->rec.flags & LA_WANTS_FIN) != 0);
    check(in->rec.kind != LA_PUTV || in->rec.value <= in->rec.len);
}

void la_transfer_start_list(struct la_transfer *in, const void *there)
{
    uint8_t list[LA_SLOT];

    check_in(in);
    check(in->rec.value <= in->rec.len && in->rec.len <= LAPI_MAX_MSG_SZ);
    if ((in->rec.flags & LA_RENDEZVOUS) == 0)
        memcpy(list, there, in->rec.value);
}

void la_transfer_complete(struct la_transfer *in)
{
    check_in(in);
}

/* Reads all its data; it provides no memory for data of an odd length. */
static void *header(lapi_handle_t *hndl, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **user_info)
{
    const lapi_return_info_t *info = (const lapi_return_info_t *)msg_len;
    const uint8_t *data = info->udata_one_pkt_ptr;
    uint8_t sum = 0;

    (void)hndl, (void)handler, (void)user_info;
    check(info->src < PROCS && *uhdr_len <= LA_MAX_UHDR);
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
    uint8_t *at = (uint8_t *)rec + LA_LONG_HEADER + (rec->uhdr_len + 7u) / 8 * 8;

    for (; at + sizeof(struct la_piece) <= (uint8_t *)rec + LA_SLOT; at += sizeof(struct la_piece))
        memcpy(at, &address, sizeof(address));
}

/* Makes addresses writable memory; indices and addresses of handlers may also be invalid. */
static void repair_address(struct la_record *rec)
{
    hdr_hndlr_t *const handler = (rec->flags & LA_VECTOR) != 0 ? header_of_vector : header;

    if (rec->kind == LA_PUTV || rec->kind == LA_GETV)
        repair_list(rec);
    if (rec->kind != LA_AM)
        rec->at = (uintptr_t)arena + rec->at % 16;
    else if (rec->at % 4 == 0)
        memcpy(&rec->at, &handler, sizeof(rec->at));
    else if (rec->at % 4 == 1)
        rec->at = (uintptr_t)arena + rec->at % ARENA;
    else
        rec->at = (rec->flags & LA_VECTOR) != 0 ? 2 : rec->at % LAPI_ADDRTBL_SZ % 2;
}

static void fill_slot(struct fuzz_input *in)
{
    uint8_t mode = fuzz_byte(in), lane = fuzz_byte(in) % (LA_LANES + 1);
    uint32_t slot = lane < LA_LANES ? la_inbox_next_slot(lane)
                                    : LA_LANES * LA_LANE_SLOTS + mode % LA_SHARED_SLOTS;
    struct la_record *rec = (struct la_record *)inbox[slot];
    uint16_t size;

    fuzz_bytes(in, &size, sizeof(size));
    memset(rec, 0xa5, LA_SLOT);
    fuzz_bytes(in, rec, LA_LONG_HEADER + size % (LA_SLOT - LA_LONG_HEADER));
    repair_address(rec);
    rec->number = 0;
    if (mode % 2 == 0 && lane < LA_LANES) {
        rec->number = la.inbox.next[lane] + 1;
        la_dispatch_poll_memory();
    }
    la_dispatch_arrived(slot);
    la_dispatch_run();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const struct lc_port_config kind = {.num_ops = LA_OPS, .bounce_size = LA_SLOT};

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
    control.lanes = LA_LANES;
    la_hdr_handlers_set(1, (void *)(uintptr_t)header);
    la_hdr_handlers_set(2, (void *)(uintptr_t)header_of_vector);
    while (in.left > 0)
        fill_slot(&in);
    return 0;
}
