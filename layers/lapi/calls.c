/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that start transfers: they check their arguments, and make a request of them. */
#include "layer.h"

/* With the lock, unless it returns an error. */
static int begin(lapi_handle_t hndl, uint tgt)
{
    if (!la_enter(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (tgt < la.procs)
        return LAPI_SUCCESS;
    la_leave();
    return LAPI_ERR_TGT;
}

static int end(int rc)
{
    la_leave();
    return rc;
}

/* Data that does not fit is fetched by the target, until which it stays registered. */
static int send_data(struct la_req *r)
{
    int rc;

    if (r->len > LA_PAYLOAD - (r->uhdr_len + 7u) / 8 * 8) {
        r->flags |= LA_RENDEZVOUS | LA_WANTS_FIN;
        r->reg = la_reg(r->data, r->len, false, &r->stadd);
        if (r->reg == NULL)
            return LAPI_ERR_MEMORY_EXHAUSTED;
    }
    if (r->cmpl_cntr != NULL)
        r->flags |= LA_WANTS_CMPL;
    rc = la_send(r);
    if (rc != LAPI_SUCCESS && r->reg != NULL)
        la_unreg(r->reg);
    return rc;
}

static int check_am(const void *hdr_hdl, const void *uhdr, uint uhdr_len, const void *udata,
                    ulong udata_len)
{
    if (hdr_hdl == NULL)
        return LAPI_ERR_HDR_HNDLR_NULL;
    if (uhdr_len > LA_MAX_UHDR || uhdr_len % 4 != 0)
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
    struct la_req r = {.kind = LA_AM,
                       .rank = tgt,
                       .at = (uintptr_t)hdr_hdl,
                       .uhdr = uhdr,
                       .uhdr_len = (uint16_t)uhdr_len,
                       .data = udata,
                       .len = udata_len,
                       .tgt_cntr = (uintptr_t)tgt_cntr,
                       .org_cntr = org_cntr,
                       .cmpl_cntr = cmpl_cntr};
    int rc = begin(hndl, tgt);

    if (rc != LAPI_SUCCESS)
        return rc;
    rc = check_am(hdr_hdl, uhdr, uhdr_len, udata, udata_len);
    return end(rc == LAPI_SUCCESS ? send_data(&r) : rc);
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
    struct la_req r = {.kind = LA_PUT,
                       .rank = tgt,
                       .at = (uintptr_t)tgt_addr,
                       .data = org_addr,
                       .len = len,
                       .tgt_cntr = (uintptr_t)tgt_cntr,
                       .org_cntr = org_cntr,
                       .cmpl_cntr = cmpl_cntr};
    int rc = begin(hndl, tgt);

    if (rc != LAPI_SUCCESS)
        return rc;
    rc = check_addresses(tgt_addr, org_addr, len);
    return end(rc == LAPI_SUCCESS ? send_data(&r) : rc);
}

/* Where the answer does not carry the data the target puts them here. */
static int send_get(struct la_req *r)
{
    int rc;

    if (r->len > LA_SMALL_GET) {
        r->reg = la_reg(r->result, r->len, true, &r->stadd);
        if (r->reg == NULL)
            return LAPI_ERR_MEMORY_EXHAUSTED;
    }
    rc = la_send(r);
    if (rc != LAPI_SUCCESS && r->reg != NULL)
        la_unreg(r->reg);
    return rc;
}

int LAPI_Get(lapi_handle_t hndl, uint tgt, ulong len, void *tgt_addr, void *org_addr,
             lapi_cntr_t *tgt_cntr, lapi_cntr_t *org_cntr)
{
    struct la_req r = {.kind = LA_GET,
                       .flags = LA_WANTS_FIN,
                       .rank = tgt,
                       .at = (uintptr_t)tgt_addr,
                       .result = org_addr,
                       .len = len,
                       .tgt_cntr = (uintptr_t)tgt_cntr,
                       .org_cntr = org_cntr};
    int rc = begin(hndl, tgt);

    if (rc != LAPI_SUCCESS)
        return rc;
    rc = check_addresses(tgt_addr, org_addr, len);
    return end(rc == LAPI_SUCCESS ? send_get(&r) : rc);
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

int LAPI_Rmw(lapi_handle_t hndl, RMW_ops_t op, uint tgt, int *tgt_var, int *in_val,
             int *prev_tgt_val, lapi_cntr_t *org_cntr)
{
    struct la_req r = {.kind = LA_RMW,
                       .flags = LA_WANTS_FIN,
                       .op = (uint16_t)op,
                       .rank = tgt,
                       .at = (uintptr_t)tgt_var,
                       .result = prev_tgt_val,
                       .org_cntr = org_cntr};
    int rc = begin(hndl, tgt);

    if (rc != LAPI_SUCCESS)
        return rc;
    rc = check_rmw(op, tgt_var, in_val, sizeof(*tgt_var));
    if (rc != LAPI_SUCCESS)
        return end(rc);
    r.value = (uint32_t)in_val[op == COMPARE_AND_SWAP ? 1 : 0];
    r.len = (uint32_t)in_val[0];
    return end(la_send(&r));
}

int LAPI_Rmw64(lapi_handle_t hndl, RMW_ops_t op, uint tgt, long long *tgt_var, long long *in_val,
               long long *prev_tgt_val, lapi_cntr_t *org_cntr)
{
    struct la_req r = {.kind = LA_RMW64,
                       .flags = LA_WANTS_FIN,
                       .op = (uint16_t)op,
                       .rank = tgt,
                       .at = (uintptr_t)tgt_var,
                       .result = prev_tgt_val,
                       .org_cntr = org_cntr};
    int rc = begin(hndl, tgt);

    if (rc != LAPI_SUCCESS)
        return rc;
    rc = check_rmw(op, tgt_var, in_val, sizeof(*tgt_var));
    if (rc != LAPI_SUCCESS)
        return end(rc);
    r.value = (uint64_t)in_val[op == COMPARE_AND_SWAP ? 1 : 0];
    r.len = (uint64_t)in_val[0];
    return end(la_send(&r));
}

static int purge(uint dest, bool on)
{
    int rc = LAPI_SUCCESS;
    struct la_peer *peer = la_peer_use(dest, &rc);

    if (peer == NULL || peer->gone)
        return on ? LAPI_SUCCESS : LAPI_ERR_TGT_PURGED;
    peer->purged = on;
    if (on)
        la_send_lost(dest, false);
    return LAPI_SUCCESS;
}

int LAPI_Purge_totask(lapi_handle_t hndl, uint dest)
{
    int rc = begin(hndl, dest);

    return rc == LAPI_SUCCESS ? end(purge(dest, true)) : rc;
}

int LAPI_Resume_totask(lapi_handle_t hndl, uint dest)
{
    int rc = begin(hndl, dest);

    return rc == LAPI_SUCCESS ? end(purge(dest, false)) : rc;
}
