/* SPDX-License-Identifier: Apache-2.0 */
/* LAPI_Putv(), LAPI_Getv(), LAPI_Amsendv(): pack the pieces into one message. */
#include "vector_calls.h"
#include "rcache.h"
#include "send.h"
#include "vector.h"

#include <stdlib.h>

/* Checks both vectors, and allocates room for the data between the lists of the two. */
static int start_request(struct la_req *r, const lapi_vec_t *tgt_vec, const lapi_vec_t *org_vec,
                         uint64_t *len, uint64_t *list)
{
    int rc = la_vec_check(org_vec, LA_ORG, len);

    if (rc == LAPI_SUCCESS)
        rc = la_vec_check(tgt_vec, LA_TGT, len);
    if (rc == LAPI_SUCCESS)
        rc = la_vec_compare(tgt_vec, org_vec);
    if (rc != LAPI_SUCCESS)
        return rc;
    *list = la_vec_list_size(tgt_vec);
    r->copy = malloc(*len + 2 * *list + 1);
    return r->copy != NULL ? LAPI_SUCCESS : LAPI_ERR_MEMORY_EXHAUSTED;
}

int la_putv(struct la_req *r, const lapi_vec_t *tgt_vec, const lapi_vec_t *org_vec)
{
    uint64_t len, list;
    int rc = start_request(r, tgt_vec, org_vec, &len, &list);

    if (rc != LAPI_SUCCESS)
        return rc;
    la_vec_list(org_vec, (char *)r->copy + list + len);
    la_vec_gather((char *)r->copy + list + len, list, (char *)r->copy + list, len);
    la_vec_list(tgt_vec, r->copy);
    r->kind = LA_PUTV;
    r->flags |= LA_WANTS_FIN;
    r->value = list;
    r->data = r->copy;
    r->len = list + len;
    return la_send_data(r);
}

int la_getv(struct la_req *r, const lapi_vec_t *tgt_vec, const lapi_vec_t *org_vec)
{
    uint64_t len, list;
    int rc = start_request(r, tgt_vec, org_vec, &len, &list);

    if (rc != LAPI_SUCCESS)
        return rc;
    la_vec_list(tgt_vec, r->copy);
    la_vec_list(org_vec, (char *)r->copy + list + len);
    r->kind = LA_GETV;
    r->flags |= LA_WANTS_FIN | (list > LA_PAYLOAD ? LA_RENDEZVOUS : 0);
    r->value = list;
    r->data = r->copy;
    r->len = list + len;
    r->reg = la_rcache_get(r->copy, r->len + 1, true, &r->stadd);
    if (r->reg != NULL)
        return la_send(r);
    free(r->copy);
    return LAPI_ERR_MEMORY_EXHAUSTED;
}

int la_amsendv(struct la_req *r, const lapi_vec_t *org_vec)
{
    uint64_t len, list;
    int rc = la_vec_check(org_vec, LA_ORG, &len);

    if (rc != LAPI_SUCCESS)
        return rc;
    list = la_vec_list_size(org_vec);
    r->copy = malloc(len + list + 1);
    if (r->copy == NULL)
        return LAPI_ERR_MEMORY_EXHAUSTED;
    la_vec_list(org_vec, (char *)r->copy + len);
    la_vec_gather((char *)r->copy + len, list, r->copy, len);
    r->flags |= LA_VECTOR | LA_WANTS_FIN;
    r->data = r->copy;
    r->len = len;
    return la_send_data(r);
}
