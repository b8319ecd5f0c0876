/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and executes the records of other tasks: one function for each kind. */
#include "receive.h"
#include "control.h"
#include "errors.h"
#include "hdr_handlers.h"
#include "net.h"
#include "incoming.h"
#include "vector.h"

#include <string.h>

/*
 * Validation. Other tasks may write anything into a slot.
 */

static bool has_valid_list(const struct la_record *rec)
{
    const bool in_record = (rec->flags & LA_RENDEZVOUS) == 0;

    if (rec->kind != LA_PUTV && rec->kind != LA_GETV)
        return true;
    return (rec->flags & LA_WANTS_FIN) != 0 && rec->list_size % sizeof(struct la_segment) == 0 &&
           rec->list_size <= rec->total_len && (!in_record || rec->list_size <= rec->data_len);
}

bool la_record_fits_inline(const struct la_record *rec)
{
    return rec->uhdr_len <= LA_INLINE_CAPACITY && rec->data_len <= LA_INLINE_CAPACITY &&
           la_padded_len(rec->uhdr_len) + rec->data_len <= LA_INLINE_CAPACITY;
}

/* Bytes that user header and data may have in the record. */
static uint32_t record_capacity(const struct la_record *rec)
{
    if ((rec->flags & LA_INLINE) != 0)
        return LA_INLINE_CAPACITY;
    return (rec->flags & LA_LONG_HEADER_FLAGS) != 0 ? LA_LONG_HEADER_CAPACITY
                                                    : LA_SLOT_SIZE - LA_SHORT_HEADER_SIZE;
}

/* Checks that the kind permits the flags, and that a record that needs a reply asks for one. */
static bool has_valid_flags(const struct la_record *rec)
{
    const bool is_rendezvous = (rec->flags & LA_RENDEZVOUS) != 0;
    uint8_t allowed = LA_WANTS_CMPL | LA_WANTS_FIN | LA_RENDEZVOUS | LA_INLINE;

    if (rec->kind == LA_AM)
        allowed |= LA_VECTOR;
    if (is_rendezvous && (rec->kind == LA_AM || rec->kind == LA_PUT))
        allowed |= LA_ASSIST;
    if ((rec->flags & ~allowed) != 0 ||
        (rec->flags & (LA_INLINE | LA_LONG_HEADER_FLAGS)) > LA_INLINE)
        return false;
    if (rec->kind != LA_AM && rec->kind != LA_PUT && (rec->flags & LA_WANTS_FIN) == 0)
        return false;
    return !is_rendezvous || ((rec->flags & LA_WANTS_FIN) != 0 && rec->kind != LA_GET &&
                              rec->kind != LA_RMW && rec->kind != LA_RMW64);
}

static bool has_valid_rmw(const struct la_record *rec)
{
    if (rec->kind != LA_RMW && rec->kind != LA_RMW64)
        return true;
    return rec->rmw_op < LAPI_RMW_END && rec->tgt_addr != 0 &&
           rec->tgt_addr % (rec->kind == LA_RMW ? sizeof(uint32_t) : sizeof(uint64_t)) == 0;
}

/* Only long records have a length. In atomic operations the field is an operand. */
static bool has_valid_len(const struct la_record *rec)
{
    return (rec->flags & LA_LONG_HEADER_FLAGS) == 0 || rec->kind == LA_RMW ||
           rec->kind == LA_RMW64 || rec->total_len <= LAPI_MAX_MSG_SZ;
}

bool la_record_is_valid(const struct la_record *rec)
{
    return rec->kind >= LA_AM && rec->kind <= LA_LAST_KIND && has_valid_flags(rec) &&
           has_valid_list(rec) && has_valid_rmw(rec) && has_valid_len(rec) &&
           rec->rank < la.job.procs && rec->req_index < LA_NUM_REQS &&
           rec->uhdr_len <= LA_MAX_UHDR_SIZE && rec->data_len <= LA_SLOT_SIZE &&
           la_padded_len(rec->uhdr_len) + rec->data_len <= record_capacity(rec);
}

/*
 * Execution, one function for each kind of record.
 */

static uint8_t *uhdr_in(struct la_record *rec)
{
    if ((rec->flags & LA_INLINE) != 0)
        return (uint8_t *)rec + LA_INLINE_HEADER_SIZE;
    return (uint8_t *)rec +
           ((rec->flags & LA_LONG_HEADER_FLAGS) != 0 ? LA_LONG_HEADER_SIZE : LA_SHORT_HEADER_SIZE);
}

static uint8_t *data_in(struct la_record *rec)
{
    return uhdr_in(rec) + la_padded_len(rec->uhdr_len);
}

static uint64_t total_len_of(const struct la_record *rec)
{
    return (rec->flags & LA_RENDEZVOUS) != 0 || rec->kind == LA_GET ? rec->total_len
                                                                    : rec->data_len;
}

/* Reports an error to the error handler of this task, and in the reply to the origin. */
static void reject_message(const struct la_record *rec, int code, const char *why)
{
    la_log("rejected a message of task %u: %s", rec->rank, why);
    la_report_error(code, rec->rank);
    if ((rec->flags & LA_WANTS_FIN) != 0)
        la_send_reply(rec, LA_WANTS_FIN, (uint64_t)code);
    else if ((rec->flags & LA_WANTS_CMPL) != 0)
        la_send_reply(rec, LA_WANTS_CMPL, (uint64_t)code);
}

/* Completes a message whose data are here and whose completion handler does not run elsewhere. */
static void complete_message(const struct la_record *rec)
{
    if (rec->tgt_cntr != 0)
        la_cntr_increment((lapi_cntr_t *)(uintptr_t)rec->tgt_cntr);
    if ((rec->flags & LA_WANTS_CMPL) != 0)
        la_send_reply(rec, LA_WANTS_CMPL, 0);
}

static struct la_incoming *alloc_incoming(const struct la_record *rec, void *buf)
{
    struct la_incoming *msg = la_incoming_alloc();

    msg->rec = *rec;
    msg->buf = buf;
    return msg;
}

/* The header handler has returned: fetches the data if necessary, then runs the completion handler.
 */
static void start_incoming(const struct la_record *rec, void *buf, const lapi_return_info_t *info,
                           compl_hndlr_t *handler, void *user_info)
{
    struct la_incoming *msg = alloc_incoming(rec, buf);

    msg->ret_flags = info->ret_flags;
    msg->handler = handler;
    msg->user_info = user_info;
    if ((rec->flags & LA_VECTOR) != 0)
        msg->vec = buf;
    if ((rec->flags & LA_RENDEZVOUS) == 0)
        la_incoming_complete(msg);
    else
        la_incoming_start(msg);
}

/* buf: from the header handler: destination, or (LA_VECTOR) a lapi_vec_t. */
static void store_data(const struct la_record *rec, void *buf, const uint8_t *data)
{
    if ((rec->flags & LA_VECTOR) != 0)
        la_vec_scatter(buf, data, rec->data_len);
    else
        memcpy(buf, data, rec->data_len);
}

/* The origin frees its packed data when it receives this reply. */
static void send_fin_if_wanted(const struct la_record *rec)
{
    if ((rec->flags & LA_WANTS_FIN) != 0)
        la_send_reply(rec, LA_WANTS_FIN, 0);
}

/* is_inline: LA_INLINE is the only flag, which is known at compile time. has_data: the data are in
 * the record, so nothing needs to be fetched. */
static inline __attribute__((always_inline)) void receive_am(struct la_record *rec, bool is_inline)
{
    const bool has_data = is_inline || (rec->flags & LA_RENDEZVOUS) == 0;
    uint8_t *uhdr = is_inline ? (uint8_t *)rec + LA_INLINE_HEADER_SIZE : uhdr_in(rec);
    uint8_t *data = uhdr + la_padded_len(rec->uhdr_len);
    lapi_return_info_t info = {.msg_len = is_inline ? rec->data_len : total_len_of(rec),
                               .udata_one_pkt_ptr = has_data && rec->data_len > 0 ? data : NULL,
                               .src = rec->rank};
    hdr_hndlr_t *hdr_handler = la_hdr_handlers_find(rec);
    compl_hndlr_t *cmpl_handler = NULL;
    void *user_info = NULL, *buf;
    uint uhdr_len = rec->uhdr_len;
    lapi_handle_t hndl = la.handle;

    if (hdr_handler == NULL) {
        reject_message(
            rec, LAPI_ERR_HDR_HNDLR_NULL,
            "it names a header handler that is not set, or an address that is not a function");
        return;
    }
    buf = hdr_handler(&hndl, rec->uhdr_len > 0 ? uhdr : NULL, &uhdr_len, &info.msg_len,
                      &cmpl_handler, &user_info);
    if (has_data && buf != NULL && rec->data_len > 0 && info.ctl_flags != LAPI_BURY_MSG)
        store_data(rec, buf, data);
    if (has_data && !is_inline)
        send_fin_if_wanted(rec);
    if (!has_data && buf == NULL)
        reject_message(rec, LAPI_ERR_TGT_ADDR_NULL,
                       "its header handler has returned no address for the data");
    else if (!has_data || cmpl_handler != NULL)
        start_incoming(rec, buf, &info, cmpl_handler, user_info);
    else
        complete_message(rec);
}

static void receive_put(struct la_record *rec)
{
    void *dst = (void *)(uintptr_t)rec->tgt_addr;

    if ((rec->flags & LA_RENDEZVOUS) != 0) {
        la_incoming_start(alloc_incoming(rec, dst));
        return;
    }
    if (rec->data_len > 0)
        memcpy(dst, data_in(rec), rec->data_len);
    complete_message(rec);
}

/* The reply carries short data. */
static void receive_get(struct la_record *rec)
{
    struct lc_op *op;

    if (rec->total_len > LA_SHORT_GET_SIZE) {
        la_incoming_start(alloc_incoming(rec, (void *)(uintptr_t)rec->tgt_addr));
        return;
    }
    if (rec->total_len == 0) {
        la_send_reply(rec, LA_WANTS_FIN, 0);
    } else {
        op = la_op_alloc(0, rec->rank, NULL, NULL);
        memcpy(lc_op_bounce(op), (void *)(uintptr_t)rec->tgt_addr, rec->total_len);
        lc_op_put(op, rec->vcq_id, lc_op_bounce_stadd(op),
                  la_reply_stadd(rec->vcq_id, rec->req_index, LA_REPLY_OFFSET(get_data)),
                  rec->total_len, UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
    }
    complete_message(rec);
}

static void receive_putv(struct la_record *rec)
{
    uint64_t list_size = rec->list_size;

    if ((rec->flags & LA_RENDEZVOUS) != 0) {
        la_incoming_start(alloc_incoming(rec, NULL));
        return;
    }
    la_list_scatter(data_in(rec), list_size, data_in(rec) + list_size, rec->data_len - list_size);
    send_fin_if_wanted(rec);
    complete_message(rec);
}

static void receive_getv(struct la_record *rec)
{
    la_incoming_start_getv(alloc_incoming(rec, NULL), data_in(rec));
}

/* Executes an atomic operation, and returns the old value. */
#define DEFINE_RMW(type)                                                                           \
    static uint64_t rmw_##type(const struct la_record *rec)                                        \
    {                                                                                              \
        type *var = (type *)(uintptr_t)rec->tgt_addr, value = (type)rec->operand;                  \
        type expected = (type)rec->compare;                                                        \
                                                                                                   \
        switch (rec->rmw_op) {                                                                     \
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
DEFINE_RMW(uint32_t)
DEFINE_RMW(uint64_t)

static void receive_rmw(struct la_record *rec)
{
    uint64_t old = rec->kind == LA_RMW ? rmw_uint32_t(rec) : rmw_uint64_t(rec);

    la_send_reply(rec, LA_WANTS_FIN, old);
}

void la_receive_record(struct la_record *rec)
{
    if (!la_record_is_valid(rec))
        la_log("dropped an invalid record of kind %u with flags %#x, %u bytes of user header and "
               "%u bytes of data, from task %u: does another program of the job use this memory?",
               rec->kind, rec->flags, rec->uhdr_len, rec->data_len, rec->rank);
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
}

void la_receive_inline(struct la_record *rec)
{
    if (rec->kind == LA_AM)
        receive_am(rec, true);
    else
        receive_put(rec);
}
