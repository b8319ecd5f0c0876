/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of LAPI that start transfers. Each function checks its arguments and fills in a
 * request. */
#include "lock.h"
#include "peers.h"
#include "rcache.h"
#include "requests.h"
#include "send.h"
#include "vector.h"

#include <stdlib.h>

/* Checks the handle and the target, and takes the lock unless it returns an error. */
static int begin_call(lapi_handle_t hndl, uint tgt)
{
    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (tgt < la.job.procs)
        return LAPI_SUCCESS;
    la_unlock();
    return LAPI_ERR_TGT;
}

/* Releases the lock. Returns rc. */
static int end_call(int rc)
{
    la_unlock();
    return rc;
}

/* noinline: an inline record needs no struct la_req, so the path of inline records has no such
 * struct on its stack. */
static __attribute__((noinline)) int send_data(struct la_req r)
{
    return la_send_data(&r);
}

/* Increments the origin counter, if there is one. Returns LAPI_SUCCESS. */
static int raise_org_cntr(lapi_cntr_t *org_cntr)
{
    if (org_cntr != NULL)
        la_cntr_increment(org_cntr);
    return LAPI_SUCCESS;
}

static int check_am(const void *hdr_hdl, const void *uhdr, uint uhdr_len, const void *udata,
                    ulong udata_len)
{
    if (hdr_hdl == NULL)
        return LAPI_ERR_HDR_HNDLR_NULL;
    if (uhdr_len > LA_MAX_UHDR_SIZE || uhdr_len % 4 != 0)
        return LAPI_ERR_UHDR_LEN;
    if (uhdr == NULL && uhdr_len > 0)
        return LAPI_ERR_UHDR_NULL;
    if (udata_len > LAPI_MAX_MSG_SZ)
        return LAPI_ERR_DATA_LEN;
    return udata == NULL && udata_len > 0 ? LAPI_ERR_ORG_ADDR_NULL : LAPI_SUCCESS;
}

int LAPI_Amsend(lapi_handle_t hndl, uint tgt, void *hdr_hdl, void *uhdr, uint uhdr_len, void *udata,
                ulong udata_len, lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr,
                lapi_cntr_t *cmpl_cntr)
{
    int rc = begin_call(hndl, tgt);

    if (rc != LAPI_SUCCESS)
        return rc;
    rc = check_am(hdr_hdl, uhdr, uhdr_len, udata, udata_len);
    if (rc != LAPI_SUCCESS)
        return end_call(rc);
    if (cmpl_cntr == NULL && la_send_inline(LA_AM, tgt, (uintptr_t)hdr_hdl, uhdr, uhdr_len, udata,
                                            udata_len, (uintptr_t)tgt_cntr))
        return end_call(raise_org_cntr(org_cntr));
    const struct la_req r = {.kind = LA_AM,
                             .rank = tgt,
                             .tgt_addr = (uintptr_t)hdr_hdl,
                             .uhdr = uhdr,
                             .uhdr_len = (uint16_t)uhdr_len,
                             .data = udata,
                             .total_len = udata_len,
                             .tgt_cntr = (uintptr_t)tgt_cntr,
                             .org_cntr = org_cntr,
                             .cmpl_cntr = cmpl_cntr};
    return end_call(send_data(r));
}

static int check_addresses(const void *tgt_addr, const void *org_addr, ulong len)
{
    if (len > LAPI_MAX_MSG_SZ)
        return LAPI_ERR_DATA_LEN;
    if (org_addr == NULL && len > 0)
        return LAPI_ERR_ORG_ADDR_NULL;
    return tgt_addr == NULL && len > 0 ? LAPI_ERR_TGT_ADDR_NULL : LAPI_SUCCESS;
}

int LAPI_Put(lapi_handle_t hndl, uint tgt, ulong len, void *tgt_addr, void *org_addr,
             lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr, lapi_cntr_t *cmpl_cntr)
{
    int rc = begin_call(hndl, tgt);

    if (rc != LAPI_SUCCESS)
        return rc;
    rc = check_addresses(tgt_addr, org_addr, len);
    if (rc != LAPI_SUCCESS)
        return end_call(rc);
    if (cmpl_cntr == NULL && la_send_inline(LA_PUT, tgt, (uintptr_t)tgt_addr, NULL, 0, org_addr,
                                            len, (uintptr_t)tgt_cntr))
        return end_call(raise_org_cntr(org_cntr));
    const struct la_req r = {.kind = LA_PUT,
                             .rank = tgt,
                             .tgt_addr = (uintptr_t)tgt_addr,
                             .data = org_addr,
                             .total_len = len,
                             .tgt_cntr = (uintptr_t)tgt_cntr,
                             .org_cntr = org_cntr,
                             .cmpl_cntr = cmpl_cntr};
    return end_call(send_data(r));
}

/* If the reply cannot carry the data, the target puts them into the memory that is registered here.
 * */
static int send_get(struct la_req *r)
{
    if (r->total_len > LA_SHORT_GET_SIZE) {
        r->region = la_rcache_get(r->result, r->total_len, true, &r->stadd);
        if (r->region == NULL)
            return LAPI_ERR_MEMORY_EXHAUSTED;
    }
    return la_send(r);
}

int LAPI_Get(lapi_handle_t hndl, uint tgt, ulong len, void *tgt_addr, void *org_addr,
             lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr)
{
    struct la_req r = {.kind = LA_GET,
                       .flags = LA_WANTS_FIN,
                       .rank = tgt,
                       .tgt_addr = (uintptr_t)tgt_addr,
                       .result = org_addr,
                       .total_len = len,
                       .tgt_cntr = (uintptr_t)tgt_cntr,
                       .org_cntr = org_cntr};
    int rc = begin_call(hndl, tgt);

    if (rc != LAPI_SUCCESS)
        return rc;
    rc = check_addresses(tgt_addr, org_addr, len);
    return end_call(rc == LAPI_SUCCESS ? send_get(&r) : rc);
}

static int check_rmw(RMW_ops_t op, const void *tgt_var, const void *in_val, size_t size)
{
    if ((unsigned int)op >= LAPI_RMW_END)
        return LAPI_ERR_RMW_OP;
    if (tgt_var == NULL)
        return LAPI_ERR_TGT_VAR_NULL;
    if ((uintptr_t)tgt_var % size != 0)
        return LAPI_ERR_TGT_VAR_ALIGN;
    return in_val == NULL ? LAPI_ERR_IN_VAL_NULL : LAPI_SUCCESS;
}

static void set_operands(struct la_req *r, const void *in_val)
{
    const int operand =
        r->rmw_op == COMPARE_AND_SWAP ? 1 : 0; /* in_val[0] is the value to compare */

    if (r->kind == LA_RMW) {
        r->operand = ((const uint32_t *)in_val)[operand];
        r->compare = ((const uint32_t *)in_val)[0];
    } else {
        r->operand = ((const uint64_t *)in_val)[operand];
        r->compare = ((const uint64_t *)in_val)[0];
    }
}

static int start_rmw(lapi_handle_t hndl, RMW_ops_t op, const void *in_val, struct la_req *r)
{
    const size_t size = r->kind == LA_RMW ? sizeof(int) : sizeof(long long);
    int rc = begin_call(hndl, r->rank);

    if (rc != LAPI_SUCCESS)
        return rc;
    rc = check_rmw(op, (void *)(uintptr_t)r->tgt_addr, in_val, size);
    if (rc != LAPI_SUCCESS)
        return end_call(rc);
    r->rmw_op = (uint16_t)op;
    set_operands(r, in_val);
    return end_call(la_send(r));
}

int LAPI_Rmw(lapi_handle_t hndl, RMW_ops_t op, uint tgt, int *tgt_var, int *in_val,
             int *prev_tgt_val, lapi_cntr_t *org_cntr)
{
    struct la_req r = {.kind = LA_RMW,
                       .flags = LA_WANTS_FIN,
                       .rank = tgt,
                       .tgt_addr = (uintptr_t)tgt_var,
                       .result = prev_tgt_val,
                       .org_cntr = org_cntr};

    return start_rmw(hndl, op, in_val, &r);
}

int LAPI_Rmw64(lapi_handle_t hndl, RMW_ops_t op, uint tgt, long long *tgt_var, long long *in_val,
               long long *prev_tgt_val, lapi_cntr_t *org_cntr)
{
    struct la_req r = {.kind = LA_RMW64,
                       .flags = LA_WANTS_FIN,
                       .rank = tgt,
                       .tgt_addr = (uintptr_t)tgt_var,
                       .result = prev_tgt_val,
                       .org_cntr = org_cntr};

    return start_rmw(hndl, op, in_val, &r);
}

/* on: LAPI_Purge_totask(); off: LAPI_Resume_totask(). */
static int purge_task(uint dest, bool on)
{
    int rc = LAPI_SUCCESS;
    struct la_peer *peer = la_peer_connect(dest, &rc);

    if (peer == NULL || peer->gone)
        return on ? LAPI_SUCCESS : LAPI_ERR_TGT_PURGED;
    peer->purged = on;
    if (on)
        la_req_cancel_queued(dest);
    return LAPI_SUCCESS;
}

int LAPI_Purge_totask(lapi_handle_t hndl, uint dest)
{
    int rc = begin_call(hndl, dest);

    return rc == LAPI_SUCCESS ? end_call(purge_task(dest, true)) : rc;
}

int LAPI_Resume_totask(lapi_handle_t hndl, uint dest)
{
    int rc = begin_call(hndl, dest);

    return rc == LAPI_SUCCESS ? end_call(purge_task(dest, false)) : rc;
}

/*
 * Vectors
 */

/* Checks both vectors, and allocates r->copy: the list of the target, the data, the list of this
 * task. *len: bytes of the data. *list_size: bytes of each list. */
static int check_vectors_alloc_copy(struct la_req *r, const lapi_vec_t *tgt_vec,
                                    const lapi_vec_t *org_vec, uint64_t *len, uint64_t *list_size)
{
    int rc = la_vec_check(org_vec, LA_ORG, len);

    if (rc == LAPI_SUCCESS)
        rc = la_vec_check(tgt_vec, LA_TGT, len);
    if (rc == LAPI_SUCCESS)
        rc = la_vec_compare(tgt_vec, org_vec);
    if (rc != LAPI_SUCCESS)
        return rc;
    *list_size = la_vec_list_size(tgt_vec);
    r->copy = malloc(*len + 2 * *list_size + 1);
    return r->copy != NULL ? LAPI_SUCCESS : LAPI_ERR_MEMORY_EXHAUSTED;
}

static int send_putv(struct la_req *r, const lapi_vec_t *tgt_vec, const lapi_vec_t *org_vec)
{
    uint64_t len, list_size;
    int rc = check_vectors_alloc_copy(r, tgt_vec, org_vec, &len, &list_size);

    if (rc != LAPI_SUCCESS)
        return rc;
    la_vec_encode(org_vec, (char *)r->copy + list_size + len);
    la_list_gather((char *)r->copy + list_size + len, list_size, (char *)r->copy + list_size, len);
    la_vec_encode(tgt_vec, r->copy);
    r->kind = LA_PUTV;
    r->flags |= LA_WANTS_FIN;
    r->list_size = list_size;
    r->data = r->copy;
    r->total_len = list_size + len;
    return la_send_data(r);
}

static int send_getv(struct la_req *r, const lapi_vec_t *tgt_vec, const lapi_vec_t *org_vec)
{
    uint64_t len, list_size;
    int rc = check_vectors_alloc_copy(r, tgt_vec, org_vec, &len, &list_size);

    if (rc != LAPI_SUCCESS)
        return rc;
    la_vec_encode(tgt_vec, r->copy);
    la_vec_encode(org_vec, (char *)r->copy + list_size + len);
    r->kind = LA_GETV;
    r->flags |= LA_WANTS_FIN | (list_size > LA_LONG_HEADER_CAPACITY ? LA_RENDEZVOUS : 0);
    r->list_size = list_size;
    r->data = r->copy;
    r->total_len = list_size + len;
    r->region = la_rcache_get(r->copy, r->total_len + 1, true, &r->stadd);
    if (r->region != NULL)
        return la_send(r);
    free(r->copy);
    return LAPI_ERR_MEMORY_EXHAUSTED;
}

static int send_amsendv(struct la_req *r, const lapi_vec_t *org_vec)
{
    uint64_t len, list_size;
    int rc = la_vec_check(org_vec, LA_ORG, &len);

    if (rc != LAPI_SUCCESS)
        return rc;
    list_size = la_vec_list_size(org_vec);
    r->copy = malloc(len + list_size + 1);
    if (r->copy == NULL)
        return LAPI_ERR_MEMORY_EXHAUSTED;
    la_vec_encode(org_vec, (char *)r->copy + len);
    la_list_gather((char *)r->copy + len, list_size, r->copy, len);
    r->flags |= LA_VECTOR | LA_WANTS_FIN;
    r->data = r->copy;
    r->total_len = len;
    return la_send_data(r);
}

int LAPI_Putv(lapi_handle_t hndl, uint tgt, lapi_vec_t *tgt_vec, lapi_vec_t *org_vec,
              lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr, lapi_cntr_t *cmpl_cntr)
{
    struct la_req r = {
        .rank = tgt, .tgt_cntr = (uintptr_t)tgt_cntr, .org_cntr = org_cntr, .cmpl_cntr = cmpl_cntr};
    int rc = begin_call(hndl, tgt);

    return rc == LAPI_SUCCESS ? end_call(send_putv(&r, tgt_vec, org_vec)) : rc;
}

int LAPI_Getv(lapi_handle_t hndl, uint tgt, lapi_vec_t *tgt_vec, lapi_vec_t *org_vec,
              lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr)
{
    struct la_req r = {.rank = tgt, .tgt_cntr = (uintptr_t)tgt_cntr, .org_cntr = org_cntr};
    int rc = begin_call(hndl, tgt);

    return rc == LAPI_SUCCESS ? end_call(send_getv(&r, tgt_vec, org_vec)) : rc;
}

int LAPI_Amsendv(lapi_handle_t hndl, uint tgt, void *hdr_hdl, void *uhdr, uint uhdr_len,
                 lapi_vec_t *org_vec, lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr,
                 lapi_cntr_t *cmpl_cntr)
{
    struct la_req r = {.kind = LA_AM,
                       .rank = tgt,
                       .tgt_addr = (uintptr_t)hdr_hdl,
                       .uhdr = uhdr,
                       .uhdr_len = (uint16_t)uhdr_len,
                       .tgt_cntr = (uintptr_t)tgt_cntr,
                       .org_cntr = org_cntr,
                       .cmpl_cntr = cmpl_cntr};
    int rc = begin_call(hndl, tgt);

    if (rc != LAPI_SUCCESS)
        return rc;
    rc = check_am(hdr_hdl, uhdr, uhdr_len, NULL, 0);
    return end_call(rc == LAPI_SUCCESS ? send_amsendv(&r, org_vec) : rc);
}

/*
 * LAPI_Xfer(): any transfer, with a handler at the origin.
 */

static int xfer_am(const lapi_am_t *x)
{
    struct la_req r = {.kind = LA_AM,
                       .rank = x->tgt,
                       .tgt_addr = x->hdr_hdl,
                       .uhdr = x->uhdr,
                       .uhdr_len = (uint16_t)x->uhdr_len,
                       .data = x->udata,
                       .total_len = x->udata_len,
                       .shdlr = x->shdlr,
                       .handler_arg = x->sinfo,
                       .tgt_cntr = x->tgt_cntr,
                       .org_cntr = x->org_cntr,
                       .cmpl_cntr = x->cmpl_cntr};
    int rc = check_am((void *)(uintptr_t)x->hdr_hdl, x->uhdr, x->uhdr_len, x->udata, x->udata_len);

    return rc == LAPI_SUCCESS ? la_send_data(&r) : rc;
}

/* Reads no member behind udata_len: programs do not set those. */
static int xfer_light_am(const lapi_am_t *x)
{
    const struct la_req r = {.kind = LA_AM,
                             .lightweight = true,
                             .rank = x->tgt,
                             .tgt_addr = x->hdr_hdl,
                             .uhdr = x->uhdr,
                             .uhdr_len = (uint16_t)x->uhdr_len,
                             .data = x->udata,
                             .total_len = x->udata_len};
    int rc = check_am((void *)(uintptr_t)x->hdr_hdl, x->uhdr, x->uhdr_len, x->udata, x->udata_len);

    if (rc != LAPI_SUCCESS)
        return rc;
    if (x->udata_len > LA_LONG_HEADER_CAPACITY - la_padded_len(x->uhdr_len))
        return LAPI_ERR_DATA_LEN;
    if (la_send_inline(LA_AM, x->tgt, x->hdr_hdl, x->uhdr, x->uhdr_len, x->udata, x->udata_len, 0))
        return LAPI_SUCCESS;
    return send_data(r);
}

static int xfer_put(const lapi_put_t *x)
{
    struct la_req r = {.kind = LA_PUT,
                       .rank = x->tgt,
                       .tgt_addr = x->tgt_addr,
                       .data = x->org_addr,
                       .total_len = x->len,
                       .shdlr = x->shdlr,
                       .handler_arg = x->sinfo,
                       .tgt_cntr = x->tgt_cntr,
                       .org_cntr = x->org_cntr,
                       .cmpl_cntr = x->cmpl_cntr};
    int rc = check_addresses((void *)(uintptr_t)x->tgt_addr, x->org_addr, x->len);

    return rc == LAPI_SUCCESS ? la_send_data(&r) : rc;
}

static int xfer_get(const lapi_get_t *x)
{
    struct la_req r = {.kind = LA_GET,
                       .flags = LA_WANTS_FIN,
                       .rank = x->tgt,
                       .tgt_addr = x->tgt_addr,
                       .result = x->org_addr,
                       .total_len = x->len,
                       .chndlr = x->chndlr,
                       .handler_arg = x->cinfo,
                       .tgt_cntr = x->tgt_cntr,
                       .org_cntr = x->org_cntr};
    int rc = check_addresses((void *)(uintptr_t)x->tgt_addr, x->org_addr, x->len);

    return rc == LAPI_SUCCESS ? send_get(&r) : rc;
}

static int xfer_rmw(const lapi_rmw_t *x)
{
    struct la_req r = {.kind = x->size == 32 ? LA_RMW : LA_RMW64,
                       .flags = LA_WANTS_FIN,
                       .rmw_op = (uint16_t)x->op,
                       .rank = x->tgt,
                       .tgt_addr = x->tgt_var,
                       .result = x->prev_tgt_val,
                       .shdlr = x->shdlr,
                       .handler_arg = x->sinfo,
                       .org_cntr = x->org_cntr};
    int rc;

    if (x->size != 32 && x->size != 64)
        return LAPI_ERR_OP_SZ;
    rc = check_rmw(x->op, (void *)(uintptr_t)x->tgt_var, x->in_val, x->size / 8);
    if (rc != LAPI_SUCCESS)
        return rc;
    set_operands(&r, x->in_val);
    return la_send(&r);
}

/* A PVO, the number of memory that LAPI_Util() gives, is an address (util.c). */
static int xfer_rdma(const lapi_hwxfer_t *x)
{
    void *lcl_addr = (void *)(uintptr_t)(x->src_pvo + x->src_offset);
    struct la_req r = {.rank = x->tgt,
                       .tgt_addr = x->tgt_pvo + x->tgt_offset,
                       .total_len = x->len,
                       .shdlr = x->shdlr,
                       .handler_arg = x->sinfo,
                       .org_cntr = x->org_cntr};
    int rc = check_addresses((void *)(uintptr_t)r.tgt_addr, lcl_addr, r.total_len);

    if (x->op != LAPI_RDMA_PUT && x->op != LAPI_RDMA_GET)
        return LAPI_ERR_XFER_CMD;
    if (rc != LAPI_SUCCESS)
        return rc;
    if (x->op == LAPI_RDMA_PUT) {
        r.kind = LA_PUT;
        r.data = lcl_addr;
        return la_send_data(&r);
    }
    r.kind = LA_GET;
    r.flags = LA_WANTS_FIN;
    r.result = lcl_addr;
    return send_get(&r);
}

static int xfer_vectors(const lapi_xfer_t *x)
{
    struct la_req put = {.rank = x->Putv.tgt,
                         .shdlr = x->Putv.shdlr,
                         .handler_arg = x->Putv.sinfo,
                         .tgt_cntr = x->Putv.tgt_cntr,
                         .org_cntr = x->Putv.org_cntr,
                         .cmpl_cntr = x->Putv.cmpl_cntr};
    struct la_req get = {.rank = x->Getv.tgt,
                         .chndlr = x->Getv.chndlr,
                         .handler_arg = x->Getv.cinfo,
                         .tgt_cntr = x->Getv.tgt_cntr,
                         .org_cntr = x->Getv.org_cntr};

    if (x->Xfer_type == LAPI_PUTV_XFER)
        return send_putv(&put, x->Putv.tgt_vec, x->Putv.org_vec);
    return send_getv(&get, x->Getv.tgt_vec, x->Getv.org_vec);
}

static int xfer_amv(const lapi_amv_t *x)
{
    struct la_req r = {.kind = LA_AM,
                       .rank = x->tgt,
                       .tgt_addr = x->hdr_hdl,
                       .uhdr = x->uhdr,
                       .uhdr_len = (uint16_t)x->uhdr_len,
                       .shdlr = x->shdlr,
                       .handler_arg = x->sinfo,
                       .tgt_cntr = x->tgt_cntr,
                       .org_cntr = x->org_cntr,
                       .cmpl_cntr = x->cmpl_cntr};
    int rc = check_am((void *)(uintptr_t)x->hdr_hdl, x->uhdr, x->uhdr_len, NULL, 0);

    return rc == LAPI_SUCCESS ? send_amsendv(&r, x->org_vec) : rc;
}

static int start_xfer(const lapi_xfer_t *x)
{
    switch (x->Xfer_type) {
    case LAPI_AM_XFER:
        return xfer_am(&x->Am);
    case LAPI_PUT_XFER:
        return xfer_put(&x->Put);
    case LAPI_GET_XFER:
        return xfer_get(&x->Get);
    case LAPI_RMW_XFER:
        return xfer_rmw(&x->Rmw);
    case LAPI_AMV_XFER:
        return xfer_amv(&x->Amv);
    case LAPI_AM_LW_XFER:
        return xfer_light_am(&x->Am);
    case LAPI_RDMA_XFER:
        return xfer_rdma(&x->HwXfer);
    default:
        return xfer_vectors(x);
    }
}

int LAPI_Xfer(lapi_handle_t hndl, lapi_xfer_t *xfer_struct)
{
    int rc;

    if (xfer_struct == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    if ((unsigned int)xfer_struct->Xfer_type >= LAPI_LAST_XFER)
        return LAPI_ERR_XFER_CMD;
    rc = begin_call(
        hndl, xfer_struct->Am.tgt); /* all members of the union have `tgt` at the same offset */
    return rc == LAPI_SUCCESS ? end_call(start_xfer(xfer_struct)) : rc;
}
