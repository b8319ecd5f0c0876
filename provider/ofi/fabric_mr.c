/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric_mr.h"

#include "lib.h"
#include "auth.h"
#include "util/log.h"

/* The fabric may accept only short keys, and each key only once. Long keys are random, so that
 * nobody can guess them. */
static uint64_t next_key(struct fp_prov *prov)
{
    uint64_t key;

    if (prov->key_mask > UINT32_MAX && fp_random(&key, sizeof(key)))
        return key & prov->key_mask;
    return __atomic_add_fetch(&prov->last_key, 1, __ATOMIC_RELAXED) & prov->key_mask;
}

static int enable_mr(struct fp_prov *prov, const struct fp_fids *fids, struct fid_mr *mr)
{
    int rc = 0;

    if (prov->mr_mode & FI_MR_ENDPOINT) {
        rc = fi_mr_bind(mr, &fids->ep->fid, 0);
        if (rc == 0)
            rc = fi_mr_enable(mr);
    }
    return rc;
}

int fp_fabric_mr_reg(struct fp_prov *prov, const struct fp_fids *fids, const void *addr,
                     size_t size, uint64_t access, struct fid_mr **mr)
{
    enum { TRIES = 65536 };
    int rc = -FI_ENOKEY;

    for (int i = 0; i < TRIES && rc == -FI_ENOKEY; i++)
        rc = fi_mr_reg(fids->domain, addr, size, access, 0, next_key(prov), 0, mr, NULL);
    if (rc != 0)
        return rc;
    rc = enable_mr(prov, fids, *mr);
    if (rc != 0)
        fp_fabric_mr_close(*mr);
    return rc;
}

void fp_fabric_mr_close(struct fid_mr *mr)
{
    int rc = fi_close(&mr->fid);

    if (rc != 0)
        ut_warn(FP_CAT, "the fabric cannot close a memory region: %s", fp_strerror(rc));
}
