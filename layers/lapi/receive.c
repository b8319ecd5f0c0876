/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of other tasks. A notice says which slot has one; the dispatcher handles them, and counts
 * the slots of each lane that are free again. A record for which there is no room stays where it
 * is, and so the lane of its origin fills up.
 */
#include "layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 16 };

static uint16_t arrived[LA_SLOTS];
static uint32_t num_arrived;
static uint64_t done[LA_LANES + 1]; /* bit n: slot freed + n modulo the slots is free again */
static uint64_t next[LA_LANES];     /* the record that is expected */
static uint32_t taken[LA_LANES];    /* bit n: slot n, which is one behind that */
static uint16_t early[LA_SLOTS];    /* records that were seen, and not their notices */
static void *addresses[LAPI_ADDRTBL_SZ];
static unsigned int shuffle; /* state of random numbers; 0: in order */

bool la_receive_setup(void)
{
    num_arrived = 0;
    memset(done, 0, sizeof(done));
    memset(next, 0, sizeof(next));
    memset(taken, 0, sizeof(taken));
    memset(early, 0, sizeof(early));
    la.early = 0;
    memset(addresses, 0, sizeof(addresses));
    shuffle = lc_env_number("LAPI_SHUFFLE", 0);
    if (shuffle != 0)
        shuffle += la.rank;
    return true;
}

void *la_receive_address(int index)
{
    return addresses[index];
}

void la_receive_set_address(int index, void *address)
{
    addresses[index] = address;
}

static uint32_t lane_of(uint32_t slot)
{
    return slot / LA_LANE_SLOTS < LA_LANES ? slot / LA_LANE_SLOTS : LA_LANES;
}

/* Of records that came earlier than the one that was expected. */
static void skip_taken(uint32_t lane)
{
    while ((taken[lane] & 1u << next[lane] % LA_LANE_SLOTS) != 0)
        taken[lane] &= ~(1u << next[lane]++ % LA_LANE_SLOTS);
}

static void take_slot(uint32_t slot)
{
    uint32_t lane = lane_of(slot);

    if (num_arrived < LA_SLOTS)
        arrived[num_arrived++] = (uint16_t)slot;
    if (lane == LA_LANES)
        return;
    taken[lane] |= 1u << slot % LA_LANE_SLOTS;
    skip_taken(lane);
}

void la_receive_arrived(uint32_t slot)
{
    if (early[slot] > 0) {
        early[slot]--;
        la.early--;
    } else {
        take_slot(slot);
    }
}

static uint32_t next_slot(uint32_t lane)
{
    return lane * LA_LANE_SLOTS + (uint32_t)(next[lane] % LA_LANE_SLOTS);
}

static bool is_there(uint32_t lane)
{
    const struct la_record *rec = (const struct la_record *)la_inbox[next_slot(lane)];

    return __atomic_load_n(&rec->number, __ATOMIC_ACQUIRE) == next[lane] + 1;
}

static uint32_t lanes_in_use(void)
{
    uint64_t lanes = __atomic_load_n(&la_control->lanes, __ATOMIC_RELAXED);

    return lanes < LA_LANES ? (uint32_t)lanes : LA_LANES;
}

/* In order, as it mostly is. */
static bool free_next_slot(uint32_t lane, uint32_t slot)
{
    uint64_t freed = la_control->freed[lane];

    if (__builtin_expect(done[lane] != 0 || (slot - freed) % LA_LANE_SLOTS != 0, 0))
        return false;
    __atomic_store_n(&la_control->freed[lane], freed + 1, __ATOMIC_RELEASE);
    return true;
}

/* Both sizes of a lane are powers of two: a division by one that is not known costs more than all
 * else here. */
static void free_slot(uint32_t slot)
{
    uint32_t lane = lane_of(slot);
    uint32_t last = (lane < LA_LANES ? LA_LANE_SLOTS : LA_SHARED_SLOTS) - 1u;
    uint64_t freed = la_control->freed[lane];
    uint64_t bits = done[lane] | 1ull << ((slot - lane * LA_LANE_SLOTS) & last);

    _Static_assert((LA_LANE_SLOTS & (LA_LANE_SLOTS - 1)) == 0 &&
                       (LA_SHARED_SLOTS & (LA_SHARED_SLOTS - 1)) == 0,
                   "powers of two");
    while ((bits & 1ull << (freed & last)) != 0)
        bits &= ~(1ull << (freed++ & last));
    done[lane] = bits;
    __atomic_store_n(&la_control->freed[lane], freed, __ATOMIC_RELEASE);
}

/*
 * Kinds of records.
 */

static uint8_t *uhdr_of(struct la_record *rec)
{
    if ((rec->flags & LA_ONE_LINE) != 0)
        return (uint8_t *)rec + LA_SHORT_RECORD;
    return (uint8_t *)rec + ((rec->flags & LA_LONG) != 0 ? LA_LONG_RECORD : LA_LINE);
}

static uint8_t *data_of(struct la_record *rec)
{
    return uhdr_of(rec) + (rec->uhdr_len + 7u) / 8 * 8;
}

static uint64_t len_of(const struct la_record *rec)
{
    return (rec->flags & LA_RENDEZVOUS) != 0 || rec->kind == LA_GET ? rec->len : rec->size;
}

/* Can it be called? By the list of mappings, which has code that is made at run time too. */
static bool is_code(uintptr_t address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long begin, end;
    char line[4352], rights[5];
    bool found = false;

    while (maps != NULL && !found && fgets(line, sizeof(line), maps) != NULL)
        found = sscanf(line, "%lx-%lx %4s", &begin, &end, rights) == 3 && address >= begin &&
                address < end && rights[2] == 'x';
    if (maps != NULL)
        fclose(maps);
    return found;
}

/* An address that a peer sends is looked up once. */
static bool may_call(uintptr_t address)
{
    static uintptr_t known[64];
    uintptr_t *entry = &known[(address >> 4) % 64];

    if (__builtin_expect(*entry == address, 1))
        return true;
    if (!is_code(address))
        return false;
    *entry = address;
    return true;
}

/* NULL: there is none, and nothing is called. */
static hdr_hndlr_t *handler_of(const struct la_record *rec)
{
    void *address = (void *)(uintptr_t)rec->at;
    hdr_hndlr_t *handler;

    if (rec->at < LAPI_ADDRTBL_SZ)
        address = addresses[rec->at];
    else if ((rec->at & LA_IN_PROGRAM) != 0)
        address = (void *)(la_program_base() + (rec->at & ~LA_IN_PROGRAM));
    if (address == NULL || !may_call((uintptr_t)address))
        return NULL;
    memcpy(&handler, &address, sizeof(handler));
    return handler;
}

static void fail(const struct la_record *rec, int code, const char *why)
{
    la_log("a message of task %u is not executed: %s", rec->rank, why);
    la_error(code, rec->rank);
    if ((rec->flags & LA_WANTS_FIN) != 0)
        la_return(rec, LA_FIN, (uint64_t)code);
    else if ((rec->flags & LA_WANTS_CMPL) != 0)
        la_return(rec, LA_CMPL, (uint64_t)code);
}

/* What is there as a whole, and has no handler that runs elsewhere. */
static void complete(const struct la_record *rec)
{
    if (rec->tgt_cntr != 0)
        la_bump((lapi_cntr_t *)(uintptr_t)rec->tgt_cntr);
    if ((rec->flags & LA_WANTS_CMPL) != 0)
        la_return(rec, LA_CMPL, 0);
}

static struct la_in *take(const struct la_record *rec, void *buf)
{
    struct la_in *in = la_in_take();

    in->rec = *rec;
    in->buf = buf;
    return in;
}

static void start(const struct la_record *rec, void *buf, const lapi_return_info_t *info,
                  compl_hndlr_t *handler, void *user_info)
{
    struct la_in *in = take(rec, buf);

    in->how = info->ret_flags;
    in->handler = handler;
    in->user_info = user_info;
    if ((rec->flags & LA_VECTOR) != 0)
        in->vec = buf;
    if ((rec->flags & LA_RENDEZVOUS) == 0)
        la_transfer_ended(in);
    else
        la_transfer_start(in);
}

static void put_there(const struct la_record *rec, void *buf, const uint8_t *data)
{
    if ((rec->flags & LA_VECTOR) != 0)
        la_vec_fill(buf, data, rec->size);
    else
        memcpy(buf, data, rec->size);
}

/* What was packed is freed when this says so. */
static void return_packed(const struct la_record *rec)
{
    if ((rec->flags & LA_WANTS_FIN) != 0)
        la_return(rec, LA_FIN, 0);
}

/* line: its flags are LA_ONE_LINE alone. */
static inline __attribute__((always_inline)) void receive_am(struct la_record *rec, bool line)
{
    const bool whole = line || (rec->flags & LA_RENDEZVOUS) == 0;
    uint8_t *uhdr = line ? (uint8_t *)rec + LA_SHORT_RECORD : uhdr_of(rec);
    uint8_t *data = uhdr + (rec->uhdr_len + 7u) / 8 * 8;
    lapi_return_info_t info = {.msg_len = line ? rec->size : len_of(rec),
                               .udata_one_pkt_ptr = whole && rec->size > 0 ? data : NULL,
                               .src = rec->rank};
    hdr_hndlr_t *header = handler_of(rec);
    compl_hndlr_t *handler = NULL;
    void *user_info = NULL, *buf;
    uint uhdr_len = rec->uhdr_len;
    lapi_handle_t hndl = la.handle;

    if (header == NULL) {
        fail(rec, LAPI_ERR_HDR_HNDLR_NULL,
             "no header handler is set for its index, or its address is no function");
        return;
    }
    buf = header(&hndl, rec->uhdr_len > 0 ? uhdr : NULL, &uhdr_len, &info.msg_len, &handler,
                 &user_info);
    if (whole && buf != NULL && rec->size > 0 && info.ctl_flags != LAPI_BURY_MSG)
        put_there(rec, buf, data);
    if (whole && !line)
        return_packed(rec);
    if (!whole && buf == NULL)
        fail(rec, LAPI_ERR_TGT_ADDR_NULL, "its header handler has no place for the data");
    else if (!whole || handler != NULL)
        start(rec, buf, &info, handler, user_info);
    else
        complete(rec);
}

static void receive_put(struct la_record *rec)
{
    void *to = (void *)(uintptr_t)rec->at;

    if ((rec->flags & LA_RENDEZVOUS) != 0) {
        la_transfer_start(take(rec, to));
        return;
    }
    if (rec->size > 0)
        memcpy(to, data_of(rec), rec->size);
    complete(rec);
}

static void put_done(struct la_op *op, int rc, uint64_t old_value)
{
    (void)op;
    (void)rc;
    (void)old_value;
}

/* Few bytes go with the notice. */
static void receive_get(struct la_record *rec)
{
    struct la_op *op;

    if (rec->len > LA_SMALL_GET) {
        la_transfer_start(take(rec, (void *)(uintptr_t)rec->at));
        return;
    }
    if (rec->len == 0) {
        la_return(rec, LA_FIN, 0);
    } else {
        op = la_op_take(0, rec->rank, put_done, NULL);
        memcpy(la_op_bounce(op), (void *)(uintptr_t)rec->at, rec->len);
        la_op_put(op, rec->id, la_op_bounce_stadd(op), la_reply_stadd(rec->id, rec->req, LA_CMPL),
                  rec->len, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    }
    complete(rec);
}

static void receive_putv(struct la_record *rec)
{
    uint64_t list = rec->value;

    if ((rec->flags & LA_RENDEZVOUS) != 0) {
        la_transfer_start(take(rec, NULL));
        return;
    }
    la_vec_scatter(data_of(rec), list, data_of(rec) + list, rec->size - list);
    return_packed(rec);
    complete(rec);
}

static void receive_getv(struct la_record *rec)
{
    la_transfer_start_list(take(rec, NULL), data_of(rec));
}

#define MODIFY(type)                                                                               \
    static uint64_t modify_##type(const struct la_record *rec)                                     \
    {                                                                                              \
        type *var = (type *)(uintptr_t)rec->at, value = (type)rec->value;                          \
        type expected = (type)rec->len;                                                            \
                                                                                                   \
        switch (rec->op) {                                                                         \
        case FETCH_AND_ADD:                                                                        \
            return __atomic_fetch_add(var, value, __ATOMIC_SEQ_CST);                               \
        case FETCH_AND_OR:                                                                         \
            return __atomic_fetch_or(var, value, __ATOMIC_SEQ_CST);                                \
        case SWAP:                                                                                 \
            return __atomic_exchange_n(var, value, __ATOMIC_SEQ_CST);                              \
        default:                                                                                   \
            __atomic_compare_exchange_n(var, &expected, value, false, __ATOMIC_SEQ_CST,            \
                                        __ATOMIC_SEQ_CST);                                         \
            return expected;                                                                       \
        }                                                                                          \
    }
MODIFY(uint32_t)
MODIFY(uint64_t)

static void receive_rmw(struct la_record *rec)
{
    uint64_t old = rec->kind == LA_RMW ? modify_uint32_t(rec) : modify_uint64_t(rec);

    la_return(rec, LA_FIN, old);
}

static bool has_good_list(const struct la_record *rec)
{
    const bool there = (rec->flags & LA_RENDEZVOUS) == 0;

    if (rec->kind != LA_PUTV && rec->kind != LA_GETV)
        return true;
    return (rec->flags & LA_WANTS_FIN) != 0 && rec->value % sizeof(struct la_piece) == 0 &&
           rec->value <= rec->len && (!there || rec->value <= rec->size);
}

static bool is_in_line(const struct la_record *rec)
{
    return rec->uhdr_len <= LA_LINE_DATA && rec->size <= LA_LINE_DATA &&
           (rec->uhdr_len + 7u) / 8 * 8 + rec->size <= LA_LINE_DATA;
}

static uint32_t room_in(const struct la_record *rec)
{
    if ((rec->flags & LA_ONE_LINE) != 0)
        return LA_LINE_DATA;
    return (rec->flags & LA_LONG) != 0 ? LA_PAYLOAD : LA_SLOT - LA_LINE;
}

/* What each kind may have; other flags are none. Those that are answered say where to. */
static bool has_good_flags(const struct la_record *rec)
{
    const bool fetched = (rec->flags & LA_RENDEZVOUS) != 0;
    uint8_t allowed = LA_WANTS_CMPL | LA_WANTS_FIN | LA_RENDEZVOUS | LA_ONE_LINE;

    if (rec->kind == LA_AM)
        allowed |= LA_VECTOR;
    if (fetched && (rec->kind == LA_AM || rec->kind == LA_PUT))
        allowed |= LA_SHARE;
    if ((rec->flags & ~allowed) != 0 || (rec->flags & (LA_ONE_LINE | LA_LONG)) > LA_ONE_LINE)
        return false;
    if (rec->kind != LA_AM && rec->kind != LA_PUT && (rec->flags & LA_WANTS_FIN) == 0)
        return false;
    return !fetched || ((rec->flags & LA_WANTS_FIN) != 0 && rec->kind != LA_GET &&
                        rec->kind != LA_RMW && rec->kind != LA_RMW64);
}

static bool has_good_variable(const struct la_record *rec)
{
    if (rec->kind != LA_RMW && rec->kind != LA_RMW64)
        return true;
    return rec->op < LAPI_RMW_END && rec->at != 0 &&
           rec->at % (rec->kind == LA_RMW ? sizeof(uint32_t) : sizeof(uint64_t)) == 0;
}

/* Only long records have it; of atomic operations it is an operand. */
static bool has_good_len(const struct la_record *rec)
{
    return (rec->flags & LA_LONG) == 0 || rec->kind == LA_RMW || rec->kind == LA_RMW64 ||
           rec->len <= LAPI_MAX_MSG_SZ;
}

static bool is_good(const struct la_record *rec)
{
    return rec->kind >= LA_AM && rec->kind <= LA_LAST_KIND && has_good_flags(rec) &&
           has_good_list(rec) && has_good_variable(rec) && has_good_len(rec) &&
           rec->rank < la.procs && rec->req < LA_REQS && rec->uhdr_len <= LA_MAX_UHDR &&
           rec->size <= LA_SLOT && (rec->uhdr_len + 7u) / 8 * 8 + rec->size <= room_in(rec);
}

static void receive(uint32_t slot)
{
    struct la_record *rec = (struct la_record *)la_inbox[slot];

    la.arrivals++;
    if (!is_good(rec))
        la_log(
            "a record of kind %u with flags %#x, %u bytes of user header and %u of data, as of "
            "task %u, is not one of this layer, and is left out: does another program of the job "
            "use this memory?",
            rec->kind, rec->flags, rec->uhdr_len, rec->size, rec->rank);
    else if (rec->kind == LA_AM)
        receive_am(rec, false);
    else if (rec->kind == LA_PUT)
        receive_put(rec);
    else if (rec->kind == LA_GET)
        receive_get(rec);
    else if (rec->kind == LA_PUTV)
        receive_putv(rec);
    else if (rec->kind == LA_GETV)
        receive_getv(rec);
    else
        receive_rmw(rec);
    free_slot(slot);
}

/*
 * The dispatcher.
 */

/* Something is left to do when the record has been read, or may be. */
static bool needs_in(const struct la_record *rec)
{
    return rec->kind == LA_AM || rec->kind == LA_GETV || (rec->flags & LA_RENDEZVOUS) != 0 ||
           (rec->kind == LA_GET && rec->len > LA_SMALL_GET);
}

/* What needs nothing goes on: a completion handler, for which others wait, may wait for it. */
static bool has_room(uint32_t slot)
{
    return la_has_room(needs_in((struct la_record *)la_inbox[slot]));
}

static void swap_some(void)
{
    for (uint32_t i = 0; i < num_arrived; i++) {
        uint32_t k = (uint32_t)rand_r(&shuffle) % num_arrived;
        uint16_t slot = arrived[i];

        arrived[i] = arrived[k];
        arrived[k] = slot;
    }
}

/* What arrives while a handler runs is put behind; what has no room stays. */
static uint32_t handle_some(void)
{
    uint32_t handled = 0, kept = 0, i;

    for (i = 0; i < num_arrived && handled < BATCH; i++) {
        uint16_t slot = arrived[i];

        if (!has_room(slot)) {
            arrived[kept++] = slot;
            continue;
        }
        receive(slot);
        handled++;
    }
    if (i < num_arrived)
        memmove(arrived + kept, arrived + i, (num_arrived - i) * sizeof(arrived[0]));
    num_arrived -= handled;
    return handled;
}

/* A message of one line needs few checks, and no queue where nothing that came before waits. */
static bool may_handle_now(const struct la_record *rec)
{
    return num_arrived == 0 && rec->flags == LA_ONE_LINE && rec->kind - LA_AM <= LA_PUT - LA_AM &&
           rec->rank < la.procs && is_in_line(rec) && !la.dispatching && shuffle == 0 &&
           la_has_room(rec->kind == LA_AM);
}

static void handle_now(uint32_t lane, uint32_t slot)
{
    struct la_record *rec = (struct la_record *)la_inbox[slot];

    next[lane]++;
    if (__builtin_expect(taken[lane] != 0, 0))
        skip_taken(lane);
    la.arrivals++;
    la.dispatching = true;
    if (rec->kind == LA_AM)
        receive_am(rec, true);
    else
        receive_put(rec);
    if (!free_next_slot(lane, slot))
        free_slot(slot);
    la.dispatching = false;
}

/* Each record has its notice too: it ends the sleep of who waits for one. */
bool la_receive_look(void)
{
    uint32_t lanes = la.early < LA_MOST_EARLY ? lanes_in_use() : 0;
    bool handled = false, kept = false;

    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint32_t slot = next_slot(lane);

        if (__builtin_expect(!is_there(lane), 1))
            continue;
        early[slot]++;
        la.early++;
        if (may_handle_now((struct la_record *)la_inbox[slot])) {
            handle_now(lane, slot);
            handled = true;
        } else {
            take_slot(slot);
            kept = true;
        }
    }
    return (kept && la_dispatch()) | handled;
}

bool la_dispatch(void)
{
    uint32_t handled;

    if (la.dispatching || num_arrived == 0)
        return false;
    if (shuffle != 0) {
        if (rand_r(&shuffle) % 4 == 0)
            return false; /* until more have come */
        swap_some();
    }
    la.dispatching = true;
    handled = handle_some();
    la.dispatching = false;
    return handled > 0;
}
