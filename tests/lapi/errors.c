/* SPDX-License-Identifier: Apache-2.0 */
/* Each code for a wrong argument or a call at a wrong time. */
#include "check.h"

#include <limits.h>

enum { MANY = 1200 /* more than there are requests, and more errors than most programs have */ };

static int heard_code, heard_src, heard;
static lapi_cntr_t cntr;
static int number;
static long long wide;
static char data[64];

static void hear(lapi_handle_t *h, int *code, lapi_err_t *type, int *task, int *src)
{
    CHECK(*h == hndl && *task == me && (*type == INT_ERR || *type == EXT_ERR));
    heard_code = *code;
    heard_src = *src;
    __atomic_fetch_add(&heard, 1, __ATOMIC_RELAXED); /* perhaps in the thread for interrupts */
}

static void *header(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **info)
{
    (void)uhdr;
    (void)uhdr_len;
    (void)msg_len;
    (void)handler;
    (void)info;
    CHECK(LAPI_Waitcntr(*h, &cntr, 1, NULL) == LAPI_ERR_IN_HNDLR);
    CHECK(LAPI_Nopoll_wait(*h, &cntr, 1, NULL) == LAPI_ERR_IN_HNDLR);
    CHECK(LAPI_Fence(*h) == LAPI_ERR_IN_HNDLR);
    CHECK(LAPI_Gfence(*h) == LAPI_ERR_IN_HNDLR);
    CHECK(LAPI_Term(*h) == LAPI_ERR_IN_HNDLR);
    CHECK(LAPI_Senv(*h, INTERRUPT_SET, 0) == LAPI_ERR_IN_HNDLR);
    CHECK(LAPI_Address_init(*h, NULL, (void **)data) == LAPI_ERR_IN_HNDLR);
    CHECK(LAPI_Address_init64(*h, 0, (lapi_long_t *)data) == LAPI_ERR_IN_HNDLR);
    return NULL;
}

/* Every function with a handle that is not valid. */
static void handles(lapi_handle_t h)
{
    lapi_vec_t none = {.vec_type = LAPI_GEN_IOVECTOR};
    lapi_util_t util = {.Util_type = LAPI_GET_THREAD_FUNC};
    void *address;

    CHECK(LAPI_Qenv(h, TASK_ID, &number) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Senv(h, INTERRUPT_SET, 1) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Address_init(h, data, &address) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Address_init64(h, 1, (lapi_long_t *)&wide) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Addr_set(h, data, 1) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Addr_get(h, &address, 1) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Fence(h) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Gfence(h) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Setcntr(h, &cntr, 0) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Getcntr(h, &cntr, &number) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Waitcntr(h, &cntr, 0, NULL) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Nopoll_wait(h, &cntr, 0, NULL) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Probe(h) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Msgpoll(h, 1, &(lapi_msg_info_t){0}) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Amsend(h, 0, (void *)1, NULL, 0, NULL, 0, NULL, NULL, NULL) ==
          LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Put(h, 0, 0, NULL, NULL, NULL, NULL, NULL) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Get(h, 0, 0, NULL, NULL, NULL, NULL) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Rmw(h, SWAP, 0, &number, &number, NULL, NULL) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Rmw64(h, SWAP, 0, &wide, &wide, NULL, NULL) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Putv(h, 0, &none, &none, NULL, NULL, NULL) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Getv(h, 0, &none, &none, NULL, NULL) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Amsendv(h, 0, (void *)1, NULL, 0, &none, NULL, NULL, NULL) == LAPI_ERR_HNDL_INVALID);
    for (int type = 0; type < LAPI_LAST_XFER; type++)
        CHECK(LAPI_Xfer(h, &(lapi_xfer_t){.Xfer_type = (lapi_xfer_type_t)type}) ==
              LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Util(h, &util) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Purge_totask(h, 0) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Resume_totask(h, 0) == LAPI_ERR_HNDL_INVALID);
    CHECK(LAPI_Term(h) == LAPI_ERR_HNDL_INVALID);
}

static void life(void)
{
    lapi_info_t info = {0};
    lapi_handle_t other;

    CHECK(LAPI_Init(NULL, &info) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Init(&other, NULL) == LAPI_ERR_INFO_NULL);
    info.reserved[3] = data;
    CHECK(LAPI_Init(&other, &info) == LAPI_ERR_INFO_NONZERO);
    info.reserved[3] = NULL;
    CHECK(LAPI_Init(&other, &info) == LAPI_ERR_ALL_HNDL_IN_USE);
}

static void environment(void)
{
    for (int q = 0; q < LAST_QUERY; q++)
        OK(LAPI_Qenv(hndl, (lapi_query_t)q, &number));
    CHECK(LAPI_Qenv(hndl, LAST_QUERY, &number) == LAPI_ERR_QUERY_TYPE);
    CHECK(LAPI_Qenv(hndl, (lapi_query_t)-1, &number) == LAPI_ERR_QUERY_TYPE);
    CHECK(LAPI_Qenv(hndl, TASK_ID, NULL) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Senv(hndl, TASK_ID, 1) == LAPI_ERR_QUERY_TYPE);
    CHECK(LAPI_Senv(hndl, INTERRUPT_SET, 2) == LAPI_ERR_SET_VAL);
    CHECK(LAPI_Senv(hndl, ERROR_CHK, -1) == LAPI_ERR_SET_VAL);
    for (int on = 0; on < 2; on++) {
        OK(LAPI_Senv(hndl, ERROR_CHK, on));
        OK(LAPI_Qenv(hndl, ERROR_CHK, &number));
        CHECK(number == on &&
              LAPI_Put(hndl, (uint)n, 0, NULL, NULL, NULL, NULL, NULL) == LAPI_ERR_TGT);
    }
}

static void texts(void)
{
    char text[LAPI_MSG_STRING];

    for (int code = LAPI_ERR_HNDL_INVALID; code < LAPI_ERR_CODE_END; code++) {
        OK(LAPI_Msg_string(code, text));
        CHECK(strncmp(text, "LAPI_ERR_", 9) == 0 && strlen(text) > 20);
    }
    OK(LAPI_Msg_string(LAPI_SUCCESS, text));
    CHECK(LAPI_Msg_string(LAPI_ERR_CODE_END, text) == LAPI_ERR_MSG_STRING);
    CHECK(LAPI_Msg_string(LAPI_ERR_TGT, NULL) == LAPI_ERR_RET_PTR_NULL);
}

static void addresses(void)
{
    void *address;

    CHECK(LAPI_Address(data, NULL) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Address_init(hndl, data, NULL) == LAPI_ERR_ADDR_TBL_NULL);
    CHECK(LAPI_Address_init64(hndl, 1, NULL) == LAPI_ERR_ADDR_TBL_NULL);
    CHECK(LAPI_Addr_set(hndl, data, 0) == LAPI_ERR_ADDR_HNDL_RANGE);
    CHECK(LAPI_Addr_set(hndl, data, LAPI_ADDRTBL_SZ) == LAPI_ERR_ADDR_HNDL_RANGE);
    CHECK(LAPI_Addr_get(hndl, &address, -1) == LAPI_ERR_ADDR_HNDL_RANGE);
    CHECK(LAPI_Addr_get(hndl, NULL, 1) == LAPI_ERR_RET_PTR_NULL);
}

static void counters(void)
{
    CHECK(LAPI_Setcntr(hndl, NULL, 0) == LAPI_ERR_CNTR_NULL);
    CHECK(LAPI_Setcntr(hndl, &cntr, -1) == LAPI_ERR_CNTR_VAL);
    CHECK(LAPI_Getcntr(hndl, NULL, &number) == LAPI_ERR_CNTR_NULL);
    CHECK(LAPI_Getcntr(hndl, &cntr, NULL) == LAPI_ERR_RET_PTR_NULL);
    CHECK(LAPI_Waitcntr(hndl, NULL, 0, NULL) == LAPI_ERR_CNTR_NULL);
    CHECK(LAPI_Waitcntr(hndl, &cntr, -1, NULL) == LAPI_ERR_CNTR_VAL);
    CHECK(LAPI_Nopoll_wait(hndl, NULL, 0, NULL) == LAPI_ERR_CNTR_NULL);
    CHECK(LAPI_Nopoll_wait(hndl, &cntr, -1, NULL) == LAPI_ERR_CNTR_VAL);
    CHECK(LAPI_Msgpoll(hndl, 1, NULL) == LAPI_ERR_MSG_INFO_NULL);
    OK(LAPI_Setcntr(hndl, &cntr, 5));
    OK(LAPI_Waitcntr(hndl, &cntr, 3, &number));
    CHECK(number == 2);
    OK(LAPI_Nopoll_wait(hndl, &cntr, 2, &number));
    CHECK(number == 0);
}

/* The codes of the manual page, and limits that are just valid. */
static void amsend(void)
{
    void *h = address_of(header);
    int most;

    OK(LAPI_Qenv(hndl, MAX_UHDR_SZ, &most));
    CHECK(LAPI_Amsend(hndl, (uint)n, h, NULL, 0, NULL, 0, NULL, NULL, NULL) == LAPI_ERR_TGT);
    CHECK(LAPI_Amsend(hndl, UINT_MAX, h, NULL, 0, NULL, 0, NULL, NULL, NULL) == LAPI_ERR_TGT);
    CHECK(LAPI_Amsend(hndl, 0, NULL, NULL, 0, NULL, 0, NULL, NULL, NULL) ==
          LAPI_ERR_HDR_HNDLR_NULL);
    CHECK(LAPI_Amsend(hndl, 0, h, data, 3, NULL, 0, NULL, NULL, NULL) == LAPI_ERR_UHDR_LEN);
    CHECK(LAPI_Amsend(hndl, 0, h, data, (uint)most + 4, NULL, 0, NULL, NULL, NULL) ==
          LAPI_ERR_UHDR_LEN);
    CHECK(LAPI_Amsend(hndl, 0, h, data, 65536 + 4, NULL, 0, NULL, NULL, NULL) == LAPI_ERR_UHDR_LEN);
    CHECK(LAPI_Amsend(hndl, 0, h, NULL, 4, NULL, 0, NULL, NULL, NULL) == LAPI_ERR_UHDR_NULL);
    CHECK(LAPI_Amsend(hndl, 0, h, NULL, 0, NULL, 1, NULL, NULL, NULL) == LAPI_ERR_ORG_ADDR_NULL);
    CHECK(LAPI_Amsend(hndl, 0, h, NULL, 0, data, LAPI_MAX_MSG_SZ + 1, NULL, NULL, NULL) ==
          LAPI_ERR_DATA_LEN);
    OK(LAPI_Setcntr(hndl, &cntr, 0));
    OK(LAPI_Amsend(hndl, (uint)me, h, NULL, 0, data, 1, NULL, NULL, &cntr));
    OK(LAPI_Waitcntr(hndl, &cntr, 1, NULL));
}

static void transfers(void)
{
    CHECK(LAPI_Put(hndl, (uint)n, 0, NULL, NULL, NULL, NULL, NULL) == LAPI_ERR_TGT);
    CHECK(LAPI_Put(hndl, 0, 1, NULL, data, NULL, NULL, NULL) == LAPI_ERR_TGT_ADDR_NULL);
    CHECK(LAPI_Put(hndl, 0, 1, data, NULL, NULL, NULL, NULL) == LAPI_ERR_ORG_ADDR_NULL);
    CHECK(LAPI_Put(hndl, 0, LAPI_MAX_MSG_SZ + 1, data, data, NULL, NULL, NULL) ==
          LAPI_ERR_DATA_LEN);
    CHECK(LAPI_Get(hndl, (uint)n, 0, NULL, NULL, NULL, NULL) == LAPI_ERR_TGT);
    CHECK(LAPI_Get(hndl, 0, 1, NULL, data, NULL, NULL) == LAPI_ERR_TGT_ADDR_NULL);
    CHECK(LAPI_Get(hndl, 0, 1, data, NULL, NULL, NULL) == LAPI_ERR_ORG_ADDR_NULL);
    CHECK(LAPI_Get(hndl, 0, LAPI_MAX_MSG_SZ + 1, data, data, NULL, NULL) == LAPI_ERR_DATA_LEN);
    CHECK(LAPI_Rmw(hndl, LAPI_RMW_END, 0, &number, &number, NULL, NULL) == LAPI_ERR_RMW_OP);
    CHECK(LAPI_Rmw(hndl, SWAP, (uint)n, &number, &number, NULL, NULL) == LAPI_ERR_TGT);
    CHECK(LAPI_Rmw(hndl, SWAP, 0, NULL, &number, NULL, NULL) == LAPI_ERR_TGT_VAR_NULL);
    CHECK(LAPI_Rmw(hndl, SWAP, 0, (int *)(uintptr_t)6, &number, NULL, NULL) ==
          LAPI_ERR_TGT_VAR_ALIGN);
    CHECK(LAPI_Rmw(hndl, SWAP, 0, &number, NULL, NULL, NULL) == LAPI_ERR_IN_VAL_NULL);
    CHECK(LAPI_Rmw64(hndl, (RMW_ops_t)-1, 0, &wide, &wide, NULL, NULL) == LAPI_ERR_RMW_OP);
    CHECK(LAPI_Rmw64(hndl, SWAP, (uint)n, &wide, &wide, NULL, NULL) == LAPI_ERR_TGT);
    CHECK(LAPI_Rmw64(hndl, SWAP, 0, NULL, &wide, NULL, NULL) == LAPI_ERR_TGT_VAR_NULL);
    CHECK(LAPI_Rmw64(hndl, SWAP, 0, (long long *)(uintptr_t)4, &wide, NULL, NULL) ==
          LAPI_ERR_TGT_VAR_ALIGN);
    CHECK(LAPI_Rmw64(hndl, SWAP, 0, &wide, NULL, NULL, NULL) == LAPI_ERR_IN_VAL_NULL);
    /* memory that does not exist: only large transfers detect it */
    CHECK(LAPI_Put(hndl, 0, 1 << 20, data, (void *)(uintptr_t)4096, NULL, NULL, NULL) ==
          LAPI_ERR_MEMORY_EXHAUSTED);
    CHECK(LAPI_Get(hndl, 0, 1 << 20, data, (void *)(uintptr_t)4096, NULL, NULL) ==
          LAPI_ERR_MEMORY_EXHAUSTED);
}

/* LAPI_Xfer() checks what the functions check. */
static void by_xfer(void)
{
    const lapi_long_t h = (uintptr_t)address_of(header), at = (uintptr_t)data;
    const ulong more = LAPI_MAX_MSG_SZ + 1;
    lapi_vec_t vec = {.vec_type = LAPI_GEN_IOVECTOR}, bad = {.vec_type = LAPI_LAST_VECTYPE};
    lapi_xfer_t x;

#define XFER(member, code, ...)                                                                    \
    do {                                                                                           \
        x.member = (__typeof__(x.member)){__VA_ARGS__};                                            \
        CHECK(LAPI_Xfer(hndl, &x) == (code));                                                      \
    } while (0)
    for (int type = 0; type < LAPI_LAST_XFER; type++)
        XFER(Am, LAPI_ERR_TGT, .Xfer_type = (lapi_xfer_type_t)type, .tgt = (uint)n);
    XFER(Am, LAPI_ERR_HDR_HNDLR_NULL, .Xfer_type = LAPI_AM_XFER);
    XFER(Am, LAPI_ERR_UHDR_LEN, .Xfer_type = LAPI_AM_XFER, .hdr_hdl = h, .uhdr = data,
         .uhdr_len = 65536 + 8);
    XFER(Am, LAPI_ERR_UHDR_NULL, .Xfer_type = LAPI_AM_XFER, .hdr_hdl = h, .uhdr_len = 8);
    XFER(Am, LAPI_ERR_DATA_LEN, .Xfer_type = LAPI_AM_XFER, .hdr_hdl = h, .udata = data,
         .udata_len = more);
    XFER(Am, LAPI_ERR_ORG_ADDR_NULL, .Xfer_type = LAPI_AM_XFER, .hdr_hdl = h, .udata_len = 1);
    XFER(Put, LAPI_ERR_DATA_LEN, .Xfer_type = LAPI_PUT_XFER, .tgt_addr = at, .org_addr = data,
         .len = more);
    XFER(Put, LAPI_ERR_TGT_ADDR_NULL, .Xfer_type = LAPI_PUT_XFER, .org_addr = data, .len = 1);
    XFER(Put, LAPI_ERR_ORG_ADDR_NULL, .Xfer_type = LAPI_PUT_XFER, .tgt_addr = at, .len = 1);
    XFER(Get, LAPI_ERR_DATA_LEN, .Xfer_type = LAPI_GET_XFER, .tgt_addr = at, .org_addr = data,
         .len = more);
    XFER(Get, LAPI_ERR_TGT_ADDR_NULL, .Xfer_type = LAPI_GET_XFER, .org_addr = data, .len = 1);
    XFER(Get, LAPI_ERR_ORG_ADDR_NULL, .Xfer_type = LAPI_GET_XFER, .tgt_addr = at, .len = 1);
    XFER(Rmw, LAPI_ERR_OP_SZ, .Xfer_type = LAPI_RMW_XFER, .size = 0, .tgt_var = at, .in_val = data);
    XFER(Rmw, LAPI_ERR_RMW_OP, .Xfer_type = LAPI_RMW_XFER, .op = LAPI_RMW_END, .size = 32,
         .tgt_var = at, .in_val = data);
    XFER(Rmw, LAPI_ERR_TGT_VAR_NULL, .Xfer_type = LAPI_RMW_XFER, .size = 64, .in_val = data);
    XFER(Rmw, LAPI_ERR_TGT_VAR_ALIGN, .Xfer_type = LAPI_RMW_XFER, .size = 64, .tgt_var = 4,
         .in_val = data);
    XFER(Rmw, LAPI_ERR_IN_VAL_NULL, .Xfer_type = LAPI_RMW_XFER, .size = 32, .tgt_var = 4);
    XFER(Putv, LAPI_ERR_ORG_VEC_NULL, .Xfer_type = LAPI_PUTV_XFER, .tgt_vec = &vec);
    XFER(Putv, LAPI_ERR_TGT_VEC_TYPE, .Xfer_type = LAPI_PUTV_XFER, .tgt_vec = &bad,
         .org_vec = &vec);
    XFER(Getv, LAPI_ERR_TGT_VEC_NULL, .Xfer_type = LAPI_GETV_XFER, .org_vec = &vec);
    XFER(Getv, LAPI_ERR_ORG_VEC_TYPE, .Xfer_type = LAPI_GETV_XFER, .tgt_vec = &vec,
         .org_vec = &bad);
    XFER(Amv, LAPI_ERR_HDR_HNDLR_NULL, .Xfer_type = LAPI_AMV_XFER, .org_vec = &vec);
    XFER(Amv, LAPI_ERR_UHDR_NULL, .Xfer_type = LAPI_AMV_XFER, .hdr_hdl = h, .uhdr_len = 4,
         .org_vec = &vec);
    XFER(Amv, LAPI_ERR_ORG_VEC_NULL, .Xfer_type = LAPI_AMV_XFER, .hdr_hdl = h);
    XFER(Am, LAPI_ERR_HDR_HNDLR_NULL, .Xfer_type = LAPI_AM_LW_XFER);
    XFER(Am, LAPI_ERR_ORG_ADDR_NULL, .Xfer_type = LAPI_AM_LW_XFER, .hdr_hdl = h, .udata_len = 1);
    XFER(Am, LAPI_ERR_DATA_LEN, .Xfer_type = LAPI_AM_LW_XFER, .hdr_hdl = h, .udata = data,
         .udata_len = 2000);
    XFER(HwXfer, LAPI_ERR_XFER_CMD, .Xfer_type = LAPI_RDMA_XFER, .src_pvo = at, .tgt_pvo = at,
         .op = LAPI_RDMA_PUT | LAPI_RCALLBACK, .len = 1);
    XFER(HwXfer, LAPI_ERR_ORG_ADDR_NULL, .Xfer_type = LAPI_RDMA_XFER, .tgt_pvo = at,
         .op = LAPI_RDMA_PUT, .len = 1);
    XFER(HwXfer, LAPI_ERR_TGT_ADDR_NULL, .Xfer_type = LAPI_RDMA_XFER, .src_pvo = at,
         .op = LAPI_RDMA_GET, .len = 1);
}

static void by_util(void)
{
    lapi_util_t util = {.Pvo = {.Util_type = LAPI_XLATE_ADDRESS}};

    CHECK(LAPI_Util(hndl, &util) == LAPI_ERR_ORG_ADDR_NULL);
    util.Pvo.operation = (lapi_rdma_req_t)2;
    CHECK(LAPI_Util(hndl, &util) == LAPI_ERR_UTIL_CMD);
    util = (lapi_util_t){.Rcxt = {.Util_type = LAPI_REMOTE_RCXT, .dest = n}};
    CHECK(LAPI_Util(hndl, &util) == LAPI_ERR_TGT);
    util.Rcxt.dest = -1;
    CHECK(LAPI_Util(hndl, &util) == LAPI_ERR_TGT);
    util.Rcxt.operation = (lapi_rdma_req_t)2;
    CHECK(LAPI_Util(hndl, &util) == LAPI_ERR_UTIL_CMD);
}

/* Messages that wait for room are dropped, without counting; sent ones arrive. */
static void purged_while_messages_wait(void)
{
    enum { SENT = 200 };
    lapi_cntr_t left, came, last;
    int arrived, gone;

    OK(LAPI_Senv(hndl, INTERRUPT_SET, 0));
    OK(LAPI_Setcntr(hndl, &left, 0));
    OK(LAPI_Setcntr(hndl, &came, 0));
    OK(LAPI_Setcntr(hndl, &last, 0));
    OK(LAPI_Gfence(hndl));
    for (int i = 0; i < SENT; i++) /* to itself: no message is handled in these calls */
        OK(LAPI_Put(hndl, (uint)me, 0, NULL, NULL, &came, &left, NULL));
    OK(LAPI_Purge_totask(hndl, (uint)me));
    OK(LAPI_Fence(hndl));
    OK(LAPI_Getcntr(hndl, &came, &arrived));
    OK(LAPI_Getcntr(hndl, &left, &gone));
    CHECK(arrived == gone && arrived > 0 && arrived < SENT);
    OK(LAPI_Resume_totask(hndl, (uint)me));
    OK(LAPI_Put(hndl, (uint)me, 0, NULL, NULL, &came, &left, &last));
    OK(LAPI_Waitcntr(hndl, &last, 1, NULL));
    OK(LAPI_Waitcntr(hndl, &came, arrived + 1, &number));
    CHECK(number == 0);
    OK(LAPI_Gfence(hndl));
    OK(LAPI_Senv(hndl, INTERRUPT_SET, 1));
}

static void purged(void)
{
    uint to = (uint)((me + 1) % n);
    void *h = address_of(header);

    CHECK(LAPI_Purge_totask(hndl, (uint)n) == LAPI_ERR_TGT);
    CHECK(LAPI_Resume_totask(hndl, (uint)n) == LAPI_ERR_TGT);
    OK(LAPI_Purge_totask(hndl, to));
    CHECK(LAPI_Amsend(hndl, to, h, NULL, 0, NULL, 0, NULL, NULL, NULL) == LAPI_ERR_TGT_PURGED);
    CHECK(LAPI_Put(hndl, to, 0, NULL, NULL, NULL, NULL, NULL) == LAPI_ERR_TGT_PURGED);
    CHECK(LAPI_Get(hndl, to, 0, NULL, NULL, NULL, NULL) == LAPI_ERR_TGT_PURGED);
    CHECK(LAPI_Rmw(hndl, SWAP, to, &number, &number, NULL, NULL) == LAPI_ERR_TGT_PURGED);
    OK(LAPI_Resume_totask(hndl, to));
    OK(LAPI_Put(hndl, to, 0, NULL, NULL, NULL, NULL, NULL));
}

/* Errors that only the target detects: the error handlers of both, and the waiting call. */
static void found_at_the_target(void)
{
    static char large[100000];
    char text[LAPI_MSG_STRING];

    OK(LAPI_Gfence(hndl));
    heard_code = 0;
    OK(LAPI_Setcntr(hndl, &cntr, 0));
    OK(LAPI_Amsend(hndl, (uint)me, (void *)5, NULL, 0, data, 1, NULL, NULL, &cntr));
    CHECK(LAPI_Waitcntr(hndl, &cntr, 1, NULL) == LAPI_ERR_HDR_HNDLR_NULL);
    while (heard_code == 0)
        LAPI_Probe(hndl);
    CHECK(heard_code == LAPI_ERR_HDR_HNDLR_NULL && heard_src == me);
    heard_code = 0;
    OK(LAPI_Amsend(hndl, (uint)me, address_of(header), NULL, 0, large, sizeof(large), NULL, NULL,
                   &cntr));
    CHECK(LAPI_Waitcntr(hndl, &cntr, 1, NULL) == LAPI_ERR_TGT_ADDR_NULL);
    OK(LAPI_Put(hndl, (uint)me, sizeof(large), (void *)(uintptr_t)4096, large, NULL, NULL, &cntr));
    CHECK(LAPI_Waitcntr(hndl, &cntr, 1, NULL) == LAPI_ERR_TGT_ADDR);
    OK(LAPI_Msg_string(LAPI_ERR_TGT_ADDR, text));
    OK(LAPI_Setcntr(hndl, &cntr, 0));
}

static void *send_many(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                       compl_hndlr_t **handler, void **info)
{
    (void)uhdr;
    (void)uhdr_len;
    (void)msg_len;
    (void)handler;
    (void)info;
    for (int i = 0; i < MANY; i++)
        OK(LAPI_Amsend(*h, 1, (void *)5, NULL, 0, NULL, 0, NULL, NULL, &cntr));
    CHECK(__atomic_load_n(&heard, __ATOMIC_RELAXED) == 0);
    return NULL;
}

/* Errors that arrive while a handler runs are reported after it, for any number. */
static void found_in_a_handler(void)
{
    OK(LAPI_Gfence(hndl));
    __atomic_store_n(&heard, 0, __ATOMIC_RELAXED);
    OK(LAPI_Gfence(hndl));
    if (me == 0)
        OK(LAPI_Amsend(hndl, 0, address_of(send_many), NULL, 0, NULL, 0, NULL, NULL, NULL));
    while (me < 2 && __atomic_load_n(&heard, __ATOMIC_RELAXED) < MANY)
        OK(LAPI_Probe(hndl));
    if (me == 0)
        CHECK(LAPI_Waitcntr(hndl, &cntr, 1, NULL) == LAPI_ERR_HDR_HNDLR_NULL);
    OK(LAPI_Gfence(hndl));
    CHECK(__atomic_load_n(&heard, __ATOMIC_RELAXED) == (me < 2 ? MANY : 0));
}

int main(void)
{
    lapi_handle_t old;

    handles(0);
    handles(1);
    texts();
    for (int round = 0; round < 2; round++) {
        init(hear);
        handles(hndl + 1);
        life();
        environment();
        addresses();
        counters();
        amsend();
        transfers();
        by_xfer();
        by_util();
        purged();
        purged_while_messages_wait();
        found_at_the_target();
        if (n > 1)
            found_in_a_handler();
        OK(LAPI_Gfence(hndl));
        old = hndl;
        OK(LAPI_Term(hndl));
        handles(old);
    }
    return 0;
}
