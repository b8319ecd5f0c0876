/* SPDX-License-Identifier: Apache-2.0 */
/* Memory registration. The core counts the users of a region, so each call is one ibv_reg_mr(). */
#include "mr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/probe.h"
#include "verbs/ports/device.h"
#include "verbs/list.h"
#include "verbs/prov_types.h"
#include "util/log.h"
#include "util/fd_check.h"

struct vp_mr {
    struct prov_mr base;
    struct ibv_mr *mr;
};

static int access_flags(const struct vp_device *dev, unsigned int access)
{
    int flags = vp_mr_access_flags(dev);

    if (access & PROV_ACCESS_READ)
        flags |= IBV_ACCESS_REMOTE_READ;
    if (access & PROV_ACCESS_WRITE)
        flags |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    if ((access & PROV_ACCESS_ATOMIC) && dev->attr.atomic_cap != IBV_ATOMIC_NONE)
        flags |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    return flags;
}

int vp_reg_mr(struct prov *base, unsigned int device, void *addr, size_t size, unsigned int access,
              struct prov_mr **out)
{
    struct vp_prov *prov = vp_prov(base);
    struct vp_device *dev = &prov->devices[device];

    if (!ut_fd_check_still_ours(prov->epoll_fd))
        return -EBADF;
    /* An adapter may accept memory that the CPU cannot access, such as that of a GPU. The CPU
     * copies short data, so such memory is rejected before it is pinned. */
    if (!prov_memory_is_mapped(addr, size, access & PROV_ACCESS_WRITE))
        return -EFAULT;
    struct vp_mr *mr = malloc(sizeof(*mr));
    if (!mr)
        return -ENOMEM;
    mr->mr = ibv_reg_mr(dev->pd, addr, size, access_flags(dev, access));
    if (!mr->mr) {
        int err = errno;
        char what[80];
        snprintf(what, sizeof(what), "registering %zu bytes at %p", size, addr);
        if (err != EFAULT)
            vp_log_nomem(what, ibv_get_device_name(dev->context->device), err);
        free(mr);
        return -err;
    }
    mr->base.lkey = mr->mr->lkey;
    mr->base.rkey = mr->mr->rkey;
    *out = &mr->base;
    return 0;
}

void vp_dereg_mr(struct prov *base, struct prov_mr *base_mr)
{
    struct vp_mr *mr = vp_container_of(base_mr, struct vp_mr, base);

    int rc = ut_fd_check_still_ours(vp_prov(base)->epoll_fd) ? ibv_dereg_mr(mr->mr) : 0;
    if (rc)
        ut_warn(VP_CAT, "deregistering memory failed: %s", strerror(rc));
    free(mr);
}
