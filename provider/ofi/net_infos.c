/* SPDX-License-Identifier: Apache-2.0 */
/* Frees memory that libfabric's `net` loses: see net_infos.h. */
#include "net_infos.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_endpoint.h>

#include "lib.h"

/* A fi_info that `net` may free. The device is in the fi_info's place for one. */
struct held_info {
    struct fi_info *info; /* NULL: none, or `net` has freed it */
    struct fid_nic nic;
};

/* Of a fabric. The last member is the fabric's table of operations, whose size libfabric knows. */
struct fp_net_infos {
    const struct fp_lib *lib;
    struct fi_ops_fabric *before;
    pthread_mutex_t lock; /* of `made`: held while an endpoint is opened */
    struct held_info made;
    struct fi_ops_fabric ops;
};

/* Of a domain. Its lock is that of its progress, under which `net` accepts connections. */
struct fp_net_domain {
    struct fp_net_infos *infos;
    struct fi_ops_domain *before;
    struct held_info accepted;
    struct fi_ops_domain ops;
};

/*
 * Held fi_infos
 */

/* Called by fi_freeinfo(), which frees the rest. */
static int close_nic(struct fid *fid)
{
    struct held_info *held = fp_container_of(fid, struct held_info, nic.fid);

    held->info = NULL;
    return 0;
}

static struct fi_ops nic_ops = {.size = sizeof(struct fi_ops), .close = close_nic};

static void hold_info(struct held_info *held, struct fi_info *info)
{
    if (info->nic)
        return;
    held->nic = (struct fid_nic){.fid = {.fclass = FI_CLASS_NIC, .ops = &nic_ops}};
    held->info = info;
    info->nic = &held->nic;
}

static void free_held(const struct fp_lib *lib, struct held_info *held)
{
    struct fi_info *info = held->info;

    held->info = NULL;
    if (!info)
        return;
    info->nic = NULL;
    lib->freeinfo(info);
}

/*
 * The replaced operations
 */

/* xnet_init_rdm() does not use its fi_info after this call. */
static int open_passive(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                        void *context)
{
    struct fp_net_infos *infos = fp_container_of(fabric->ops, struct fp_net_infos, ops);
    int rc = infos->before->passive_ep(fabric, info, pep, context);

    if (rc == 0)
        hold_info(&infos->made, info);
    return rc;
}

static int open_rdm(struct fp_net_domain *own, struct fid_domain *domain, struct fi_info *info,
                    struct fid_ep **ep, void *context)
{
    pthread_mutex_lock(&own->infos->lock);
    int rc = own->before->endpoint(domain, info, ep, context);
    free_held(own->infos->lib, &own->infos->made);
    pthread_mutex_unlock(&own->infos->lock);
    return rc;
}

/* xnet_process_connreq() uses its fi_info until it returns. It is over when the next connection is
 * accepted, or when the endpoint is closed. */
static int open_connected(struct fp_net_domain *own, struct fid_domain *domain,
                          struct fi_info *info, struct fid_ep **ep, void *context)
{
    free_held(own->infos->lib, &own->accepted);
    int rc = own->before->endpoint(domain, info, ep, context);

    if (rc == 0 && info->handle && info->handle->fclass == FI_CLASS_CONNREQ)
        hold_info(&own->accepted, info);
    return rc;
}

static int open_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                         void *context)
{
    struct fp_net_domain *own = fp_container_of(domain->ops, struct fp_net_domain, ops);
    bool is_rdm = info->ep_attr && info->ep_attr->type == FI_EP_RDM;

    return is_rdm ? open_rdm(own, domain, info, ep, context)
                  : open_connected(own, domain, info, ep, context);
}

/*
 * Opening and closing
 */

int fp_net_infos_open(struct fp_prov *prov)
{
    struct fi_ops_fabric *ops = prov->fabric->ops;

    if (strcmp(prov->info->fabric_attr->prov_name, "net") != 0)
        return 0;
    struct fp_net_infos *infos = calloc(1, sizeof(*infos) + ops->size);
    if (!infos)
        return -ENOMEM;
    pthread_mutex_init(&infos->lock, NULL);
    infos->lib = prov->lib;
    infos->before = ops;
    memcpy(&infos->ops, ops, ops->size);
    infos->ops.passive_ep = open_passive;
    prov->fabric->ops = &infos->ops;
    prov->net_infos = infos;
    return 0;
}

void fp_net_infos_close(struct fp_prov *prov)
{
    struct fp_net_infos *infos = prov->net_infos;

    if (!infos)
        return;
    prov->fabric->ops = infos->before;
    prov->net_infos = NULL;
    pthread_mutex_destroy(&infos->lock);
    free(infos);
}

int fp_net_infos_watch(struct fp_prov *prov, struct fp_fids *fids)
{
    struct fi_ops_domain *ops = fids->domain->ops;

    if (!prov->net_infos)
        return 0;
    struct fp_net_domain *own = calloc(1, sizeof(*own) + ops->size);
    if (!own)
        return -ENOMEM;
    own->infos = prov->net_infos;
    own->before = ops;
    memcpy(&own->ops, ops, ops->size);
    own->ops.endpoint = open_endpoint;
    fids->domain->ops = &own->ops;
    fids->net_domain = own;
    return 0;
}

void fp_net_infos_unwatch(struct fp_prov *prov, struct fp_fids *fids)
{
    struct fp_net_domain *own = fids->net_domain;

    if (!own)
        return;
    free_held(prov->lib, &own->accepted);
    fids->domain->ops = own->before;
    fids->net_domain = NULL;
    free(own);
}
