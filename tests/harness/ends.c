/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const char *ut_rc_name(int rc)
{
    static const struct {
        int rc;
        const char *name;
    } names[] = {
#define NAME(code) {UTOFU_##code, #code}
        NAME(SUCCESS),
        NAME(ERR_NOT_FOUND),
        NAME(ERR_NOT_COMPLETED),
        NAME(ERR_NOT_PROCESSED),
        NAME(ERR_BUSY),
        NAME(ERR_USED),
        NAME(ERR_FULL),
        NAME(ERR_NOT_AVAILABLE),
        NAME(ERR_NOT_SUPPORTED),
        NAME(ERR_TCQ_OTHER),
        NAME(ERR_TCQ_DESC),
        NAME(ERR_TCQ_MEMORY),
        NAME(ERR_TCQ_STADD),
        NAME(ERR_TCQ_LENGTH),
        NAME(ERR_MRQ_OTHER),
        NAME(ERR_MRQ_PEER),
        NAME(ERR_MRQ_LCL_MEMORY),
        NAME(ERR_MRQ_RMT_MEMORY),
        NAME(ERR_MRQ_LCL_STADD),
        NAME(ERR_MRQ_RMT_STADD),
        NAME(ERR_MRQ_LCL_LENGTH),
        NAME(ERR_MRQ_RMT_LENGTH),
        NAME(ERR_BARRIER_OTHER),
        NAME(ERR_BARRIER_MISMATCH),
        NAME(ERR_INVALID_ARG),
        NAME(ERR_INVALID_POINTER),
        NAME(ERR_INVALID_FLAGS),
        NAME(ERR_INVALID_COORDS),
        NAME(ERR_INVALID_PATH),
        NAME(ERR_INVALID_TNI_ID),
        NAME(ERR_INVALID_CQ_ID),
        NAME(ERR_INVALID_BG_ID),
        NAME(ERR_INVALID_CMP_ID),
        NAME(ERR_INVALID_VCQ_HDL),
        NAME(ERR_INVALID_VCQ_ID),
        NAME(ERR_INVALID_VBG_ID),
        NAME(ERR_INVALID_PATH_ID),
        NAME(ERR_INVALID_STADD),
        NAME(ERR_INVALID_ADDRESS),
        NAME(ERR_INVALID_SIZE),
        NAME(ERR_INVALID_STAG),
        NAME(ERR_INVALID_EDATA),
        NAME(ERR_INVALID_NUMBER),
        NAME(ERR_INVALID_OP),
        NAME(ERR_INVALID_DESC),
        NAME(ERR_INVALID_DATA),
        NAME(ERR_OUT_OF_RESOURCE),
        NAME(ERR_OUT_OF_MEMORY),
        NAME(ERR_FATAL),
#undef NAME
    };

    for (size_t i = 0; i < NUM(names); i++)
        if (names[i].rc == rc)
            return names[i].name;
    return "a code that does not exist";
}

/* Ends */

enum { SCRATCH = 8 };

void *ut_pages(size_t size)
{
    void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(mem != MAP_FAILED);
    return mem;
}

void ut_end_attach(struct ut_end *end, utofu_vcq_hdl_t vcq, size_t size)
{
    end->vcq = vcq;
    end->size = size;
    end->mem = ut_pages(size + SCRATCH);
    CHECK_OK(utofu_query_vcq_id(vcq, &end->id));
    CHECK_OK(utofu_reg_mem(vcq, end->mem, size + SCRATCH, 0, &end->stadd));
}

void ut_end_open(struct ut_end *end, utofu_tni_id_t tni, unsigned long int flags, size_t size)
{
    utofu_vcq_hdl_t vcq;

    CHECK_OK(utofu_create_vcq(tni, flags, &vcq));
    ut_end_attach(end, vcq, size);
}

void ut_end_close(struct ut_end *end)
{
    CHECK_OK(utofu_dereg_mem(end->vcq, end->stadd, 0));
    CHECK_OK(utofu_free_vcq(end->vcq));
    munmap(end->mem, end->size + SCRATCH);
    *end = (struct ut_end){0};
}

struct ut_peer ut_end_peer(const struct ut_end *end)
{
    return (struct ut_peer){end->id, end->stadd, end->stadd + end->size};
}

void ut_end_gather(const struct ut_end *end, struct ut_peer peers[])
{
    struct ut_peer mine = ut_end_peer(end);

    ut_allgather(&mine, peers, sizeof(mine));
}

void ut_open_all(struct ut_end *end, size_t size, struct ut_peer peers[])
{
    ut_end_open(end, 0, 0, size);
    ut_end_gather(end, peers);
}

void ut_close_all(struct ut_end *end)
{
    ut_barrier();
    ut_end_close(end);
}

/* Kinds */

const char *ut_kind_name(enum ut_kind kind)
{
    static const char *const names[] = {
        "put", "put_gap", "put_stride", "put_stride_gap", "put_piggyback", "put_piggyback8",
        "get", "get_gap", "get_stride", "get_stride_gap", "nop",
    };

    return names[kind];
}

bool ut_is_get(enum ut_kind kind)
{
    return kind >= UT_GET && kind <= UT_GET_STRIDE_GAP;
}

bool ut_is_put(enum ut_kind kind)
{
    return kind <= UT_PIGGYBACK8;
}

bool ut_is_piggyback(enum ut_kind kind)
{
    return kind == UT_PIGGYBACK || kind == UT_PIGGYBACK8;
}

bool ut_is_stride(enum ut_kind kind)
{
    return kind == UT_PUT_STRIDE || kind == UT_PUT_STRIDE_GAP || kind == UT_GET_STRIDE ||
           kind == UT_GET_STRIDE_GAP;
}

bool ut_has_gap(enum ut_kind kind)
{
    return kind == UT_PUT_GAP || kind == UT_PUT_STRIDE_GAP || kind == UT_GET_GAP ||
           kind == UT_GET_STRIDE_GAP;
}

size_t ut_max_length(enum ut_kind kind)
{
    return kind == UT_PIGGYBACK ? 32 : kind == UT_PIGGYBACK8 ? 8 : UT_MAX_PUTGET;
}

size_t ut_num_blocks(const struct ut_comm *comm)
{
    return ut_is_stride(comm->kind) ? comm->blocks : 1;
}

/* Starting */

static uint64_t piggyback8_value(const struct ut_comm *c)
{
    uint64_t value = 0x5a5a5a5a5a5a5a5a; /* the bytes above the data are not sent */

    memcpy(&value, c->data, c->length <= sizeof(value) ? c->length : sizeof(value));
    return value;
}

/* Calls the function of this kind from a family: utofu_##name or utofu_prepare_##name. The
 * arguments in which the families differ come last. */
#define CALL(prefix, c, ...)                                                                       \
    switch ((c)->kind) {                                                                           \
    case UT_PUT:                                                                                   \
        return prefix##put((c)->vcq, (c)->rmt, (c)->lcl_stadd, (c)->rmt_stadd, (c)->length,        \
                           (c)->edata, (c)->flags, __VA_ARGS__);                                   \
    case UT_PUT_GAP:                                                                               \
        return prefix##put_gap((c)->vcq, (c)->rmt, (c)->lcl_stadd, (c)->rmt_stadd, (c)->length,    \
                               (c)->edata, (c)->flags, (c)->mtu, (c)->gap, __VA_ARGS__);           \
    case UT_PUT_STRIDE:                                                                            \
        return prefix##put_stride((c)->vcq, (c)->rmt, (c)->lcl_stadd, (c)->rmt_stadd, (c)->length, \
                                  (c)->stride, (c)->blocks, (c)->edata, (c)->flags, __VA_ARGS__);  \
    case UT_PUT_STRIDE_GAP:                                                                        \
        return prefix##put_stride_gap((c)->vcq, (c)->rmt, (c)->lcl_stadd, (c)->rmt_stadd,          \
                                      (c)->length, (c)->stride, (c)->blocks, (c)->edata,           \
                                      (c)->flags, (c)->mtu, (c)->gap, __VA_ARGS__);                \
    case UT_PIGGYBACK:                                                                             \
        return prefix##put_piggyback((c)->vcq, (c)->rmt, (c)->data, (c)->rmt_stadd, (c)->length,   \
                                     (c)->edata, (c)->flags, __VA_ARGS__);                         \
    case UT_PIGGYBACK8:                                                                            \
        return prefix##put_piggyback8((c)->vcq, (c)->rmt, piggyback8_value(c), (c)->rmt_stadd,     \
                                      (c)->length, (c)->edata, (c)->flags, __VA_ARGS__);           \
    case UT_GET:                                                                                   \
        return prefix##get((c)->vcq, (c)->rmt, (c)->lcl_stadd, (c)->rmt_stadd, (c)->length,        \
                           (c)->edata, (c)->flags, __VA_ARGS__);                                   \
    case UT_GET_GAP:                                                                               \
        return prefix##get_gap((c)->vcq, (c)->rmt, (c)->lcl_stadd, (c)->rmt_stadd, (c)->length,    \
                               (c)->edata, (c)->flags, (c)->mtu, (c)->gap, __VA_ARGS__);           \
    case UT_GET_STRIDE:                                                                            \
        return prefix##get_stride((c)->vcq, (c)->rmt, (c)->lcl_stadd, (c)->rmt_stadd, (c)->length, \
                                  (c)->stride, (c)->blocks, (c)->edata, (c)->flags, __VA_ARGS__);  \
    case UT_GET_STRIDE_GAP:                                                                        \
        return prefix##get_stride_gap((c)->vcq, (c)->rmt, (c)->lcl_stadd, (c)->rmt_stadd,          \
                                      (c)->length, (c)->stride, (c)->blocks, (c)->edata,           \
                                      (c)->flags, (c)->mtu, (c)->gap, __VA_ARGS__);                \
    case UT_NOP:                                                                                   \
        return prefix##nop((c)->vcq, (c)->flags, __VA_ARGS__);                                     \
    default:                                                                                       \
        CHECK(false, "kind %d", (int)(c)->kind);                                                   \
        return UTOFU_ERR_FATAL;                                                                    \
    }

static int start_now(const struct ut_comm *comm)
{
    CALL(utofu_, comm, comm->cbdata)
}

int ut_prepare(const struct ut_comm *comm, void *desc, size_t *desc_size)
{
    CALL(utofu_prepare_, comm, desc, desc_size)
}

int ut_start(const struct ut_comm *comm)
{
    enum { MAX_BLOCKS = 2048 };
    static uint64_t desc[UT_DESC / 8 * MAX_BLOCKS]; /* processes that use it have one thread */
    size_t size = 0, room = ut_num_blocks(comm);

    if (!comm->prepared)
        return start_now(comm);
    CHECK(room <= MAX_BLOCKS);
    int rc = ut_prepare(comm, desc, &size);
    if (rc != UTOFU_SUCCESS)
        return rc;
    CHECK(size <= room * UT_DESC, "%s: %zu blocks in %zu bytes", ut_kind_name(comm->kind), room,
          size);
    return utofu_post_toq(comm->vcq, desc, size, comm->cbdata);
}

void ut_submit(const struct ut_comm *comm)
{
    int rc;

    while ((rc = ut_start(comm)) == UTOFU_ERR_BUSY)
        ut_relax();
    CHECK(rc == UTOFU_SUCCESS, "%s%s of %zu bytes gave %s", comm->prepared ? "prepared " : "",
          ut_kind_name(comm->kind), comm->length, ut_rc_name(rc));
}

size_t ut_start_busy(const struct ut_comm *comm)
{
    size_t entries = 0;
    void *cbdata;
    int rc;

    while ((rc = ut_start(comm)) == UTOFU_ERR_BUSY) {
        rc = utofu_poll_tcq(comm->vcq, 0, &cbdata);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND, "poll_tcq gave %s", ut_rc_name(rc));
        entries += rc == UTOFU_SUCCESS;
        if (rc == UTOFU_ERR_NOT_FOUND)
            ut_relax();
    }
    CHECK(rc == UTOFU_SUCCESS, "%s gave %s", ut_kind_name(comm->kind), ut_rc_name(rc));
    return entries;
}

/* Waiting */

int ut_await_tcq(utofu_vcq_hdl_t vcq, void **cbdata)
{
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, cbdata)) == UTOFU_ERR_NOT_FOUND)
        ut_relax();
    return rc;
}

int ut_await_mrq(utofu_vcq_hdl_t vcq, struct utofu_mrq_notice *notice)
{
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, notice)) == UTOFU_ERR_NOT_FOUND)
        ut_relax();
    return rc;
}

void ut_await_byte(const uint8_t *at, uint8_t value)
{
    while (__atomic_load_n(at, __ATOMIC_ACQUIRE) != value)
        ut_relax();
}

void ut_await_word(const uint64_t *at, uint64_t value)
{
    while (__atomic_load_n(at, __ATOMIC_ACQUIRE) != value)
        ut_relax();
}

void ut_expect_tcq(utofu_vcq_hdl_t vcq, int rc, const void *cbdata)
{
    void *got = NULL;

    CHECK_RC(ut_await_tcq(vcq, &got), rc);
    CHECK(got == cbdata, "callback data %p, not %p", got, cbdata);
}

static bool has_lcl_stadd(uint8_t type)
{
    return type == UTOFU_MRQ_TYPE_LCL_GET || type == UTOFU_MRQ_TYPE_RMT_GET;
}

void ut_check_notice(const struct utofu_mrq_notice *got, const struct utofu_mrq_notice *want)
{
    CHECK_EQ(got->notice_type, want->notice_type);
    CHECK_EQ(got->edata, want->edata);
    CHECK_EQ(got->vcq_id, want->vcq_id);
    if (has_lcl_stadd(want->notice_type))
        CHECK_EQ(got->lcl_stadd, want->lcl_stadd);
    if (want->notice_type != UTOFU_MRQ_TYPE_LCL_GET)
        CHECK_EQ(got->rmt_stadd, want->rmt_stadd);
    if (want->notice_type == UTOFU_MRQ_TYPE_RMT_PUT) /* client behaviour 7 */
        CHECK_EQ(got->rmt_value, want->rmt_stadd);
}

void ut_expect_notice(utofu_vcq_hdl_t vcq, const struct utofu_mrq_notice *want)
{
    struct utofu_mrq_notice got;

    memset(&got, 0xee, sizeof(got));
    CHECK_OK(ut_await_mrq(vcq, &got));
    ut_check_notice(&got, want);
}

void ut_expect_error(utofu_vcq_hdl_t vcq, int rc, uint8_t type, utofu_vcq_id_t peer, uint64_t edata)
{
    struct utofu_mrq_notice got;

    memset(&got, 0xee, sizeof(got));
    CHECK_RC(ut_await_mrq(vcq, &got), rc);
    CHECK_EQ(got.notice_type, type);
    CHECK_EQ(got.vcq_id, peer);
    CHECK_EQ(got.edata, edata);
}

/* The id without the path that the call may have set. */
static utofu_vcq_id_t home_path(utofu_vcq_id_t id)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    CHECK_OK(utofu_query_vcq_info(id, coords, &tni, &cq, &extra));
    CHECK_OK(utofu_set_vcq_id_path(&id, coords + 3));
    return id;
}

static struct utofu_mrq_notice one_past_end(const struct ut_comm *comm, size_t block)
{
    uint64_t end = block * comm->stride + comm->length;

    return (struct utofu_mrq_notice){
        .edata = comm->edata,
        .lcl_stadd = comm->lcl_stadd + end,
        .rmt_stadd = comm->rmt_stadd + end,
    };
}

struct utofu_mrq_notice ut_lcl_notice(const struct ut_comm *comm, size_t block)
{
    struct utofu_mrq_notice notice = one_past_end(comm, block);

    notice.notice_type = ut_is_get(comm->kind) ? UTOFU_MRQ_TYPE_LCL_GET : UTOFU_MRQ_TYPE_LCL_PUT;
    notice.vcq_id = home_path(comm->rmt);
    return notice;
}

struct utofu_mrq_notice ut_rmt_notice(const struct ut_comm *comm, size_t block,
                                      utofu_vcq_id_t origin)
{
    struct utofu_mrq_notice notice = one_past_end(comm, block);

    notice.notice_type = ut_is_get(comm->kind) ? UTOFU_MRQ_TYPE_RMT_GET : UTOFU_MRQ_TYPE_RMT_PUT;
    notice.vcq_id = origin;
    return notice;
}

void ut_expect_nothing(utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;
    void *cbdata;

    CHECK_RC(utofu_poll_tcq(vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
    CHECK_RC(utofu_poll_mrq(vcq, 0, &notice), UTOFU_ERR_NOT_FOUND);
}

void ut_flush(const struct ut_end *end, const struct ut_peer *peer)
{
    struct ut_comm comm = {.kind = UT_PIGGYBACK8,
                           .vcq = end->vcq,
                           .rmt = peer->id,
                           .data = &comm,
                           .rmt_stadd = peer->scratch,
                           .length = SCRATCH,
                           .edata = 0xfe,
                           .flags = UT_TCQ | UT_LCL | UT_STRONG,
                           .cbdata = &comm};
    struct utofu_mrq_notice want = ut_lcl_notice(&comm, 0);

    ut_submit(&comm);
    ut_expect_tcq(end->vcq, UTOFU_SUCCESS, &comm);
    ut_expect_notice(end->vcq, &want);
    ut_expect_nothing(end->vcq);
}

void ut_pair_gates(utofu_vbg_id_t gates[2])
{
    for (int i = 0; i < 2; i++)
        CHECK_OK(utofu_alloc_vbg(0, 1, 0, &gates[i]));
    for (int i = 0; i < 2; i++) {
        struct utofu_vbg_setting s = {.vbg_id = gates[i],
                                      .src_lcl_vbg_id = UTOFU_VBG_ID_NULL,
                                      .src_rmt_vbg_id = gates[!i],
                                      .dst_lcl_vbg_id = UTOFU_VBG_ID_NULL,
                                      .dst_rmt_vbg_id = gates[!i],
                                      .dst_path_coords = {UTOFU_PATH_COORD_NULL, 0, 0}};
        CHECK_OK(utofu_set_vbg(&s, 1));
    }
}
