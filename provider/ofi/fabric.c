/* SPDX-License-Identifier: Apache-2.0 */
/* Selects a fabric, opens its endpoints, and registers memory with it: see fabric.h. */
#include "fabric.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "auth.h"
#include "lib.h"
#include "net_infos.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"

/* Only features of this version of the interface are used. */
#define API_VERSION FI_VERSION(1, 9)

enum { DEPTH = 256 }; /* maximum number of operations in flight on an endpoint */

static char *copy_string(const char *text)
{
    return *text ? strdup(text) : NULL; /* freed by libfabric */
}

/* Requested features: ordered messages, RMA reads, RMA writes, messages ordered after RMA writes.
 * Each level includes the previous one. */
enum feature_level { LEVEL_MESSAGES, LEVEL_READS, LEVEL_WRITES, LEVEL_WRITES_IN_ORDER };

static struct fi_info *make_hints(const struct fp_lib *lib, enum feature_level feature_level)
{
    struct fi_info *hints = lib->dupinfo(NULL);

    if (!hints)
        return NULL;
    hints->caps = FI_MSG;
    if (feature_level >= LEVEL_READS)
        hints->caps |= FI_RMA | FI_READ | FI_REMOTE_READ;
    if (feature_level >= LEVEL_WRITES)
        hints->caps |= FI_WRITE | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->msg_order =
        FI_ORDER_SAS | (feature_level == LEVEL_WRITES_IN_ORDER ? FI_ORDER_SAW : 0);
    hints->rx_attr->msg_order = hints->tx_attr->msg_order;
    hints->fabric_attr->prov_name = copy_string(ut_env_str(UT_ENV_OFI_PROVIDER));
    hints->domain_attr->name = copy_string(ut_env_str(UT_ENV_OFI_DOMAIN));
    return hints;
}

static struct fi_info *get_infos(const struct fp_lib *lib, enum feature_level feature_level,
                                 char why[FP_WHY])
{
    struct fi_info *hints = make_hints(lib, feature_level), *all = NULL;
    int rc = hints ? lib->getinfo(API_VERSION, NULL, NULL, 0, hints, &all) : -FI_ENOMEM;

    if (rc != 0) {
        snprintf(why, FP_WHY, "libfabric has no fabric with reliable datagrams in order%s%.40s: %s",
                 *ut_env_str(UT_ENV_OFI_PROVIDER) ? " of UTOFU_OFI_PROVIDER=" : "",
                 ut_env_str(UT_ENV_OFI_PROVIDER), lib->strerror(-rc));
        all = NULL;
    }
    if (hints)
        lib->freeinfo(hints);
    return all;
}

static bool starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_link_local(const struct fi_info *info)
{
    struct sockaddr_in6 in6;

    if (info->addr_format != FI_SOCKADDR_IN6 || !info->src_addr || info->src_addrlen < sizeof(in6))
        return false;
    memcpy(&in6, info->src_addr, sizeof(in6));
    return IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr);
}

static bool is_loopback(const struct fi_info *info)
{
    struct sockaddr_in in;

    if (info->addr_format == FI_SOCKADDR_IN && info->src_addr && info->src_addrlen >= sizeof(in)) {
        memcpy(&in, info->src_addr, sizeof(in));
        if (ntohl(in.sin_addr.s_addr) >> 24 == 127)
            return true;
    }
    return info->domain_attr->name && strcmp(info->domain_attr->name, "lo") == 0;
}

size_t fp_fabric_ordered_size(const struct fp_lib *lib, const struct fi_info *info)
{
    size_t size = info->ep_attr->max_msg_size;

    if (strstr(info->fabric_attr->prov_name, "ofi_rxm") && lib->rxm_buffer < size)
        size = lib->rxm_buffer;
    return size;
}

/* Returns why a fabric cannot be used, even if it is the only one. NULL: the fabric can be used. */
static const char *reason_unusable(const struct fp_lib *lib, const struct fi_info *info)
{
    const char *name = info->fabric_attr->prov_name;
    const char *domain = ut_env_str(UT_ENV_OFI_DOMAIN);

    if (info->ep_attr->max_msg_size < FP_MIN_MESSAGE)
        return "its messages are too short";
    if (fp_fabric_ordered_size(lib, info) < FP_MIN_MESSAGE)
        return "FI_OFI_RXM_BUFFER_SIZE has to be 2048 or more";
    if (*domain && (!info->domain_attr->name || strcmp(info->domain_attr->name, domain) != 0))
        return "UTOFU_OFI_DOMAIN names another domain"; /* not every provider respects the hint */
    if (starts_with(name, "shm"))
        return "it reaches this host only";
    if (starts_with(name, "sockets"))
        return "it loses unsent messages when an endpoint is closed: use tcp";
    if (is_link_local(info))
        return "its address is valid on one link only";
    if (*ut_env_str(UT_ENV_OFI_PROVIDER) == '\0' && starts_with(name, "udp"))
        return "libfabric has better ones (UTOFU_OFI_PROVIDER selects it)";
    return NULL;
}

/* A loopback address is useful only in a job on one host, so the user has to select it. */
static bool may_be_loopback(void)
{
    return *ut_env_str(UT_ENV_OFI_DOMAIN) != '\0' ||
           ut_env_num(UT_ENV_PROVIDER) == UT_PROVIDER_FIRST + PROV_INDEX_ofi;
}

/* Over TCP libfabric has connected endpoints below ofi_rxm, and, from 1.17 on, reliable datagrams:
 * FI_PROTO_XNET, first named `net` and later `tcp`. The latter need less time and memory. */
static const struct fi_info *prefer_xnet(const struct fp_lib *lib, const struct fi_info *one,
                                         const struct fi_info *all)
{
    if (!starts_with(one->fabric_attr->prov_name, "tcp;"))
        return one;
    for (const struct fi_info *at = all; at; at = at->next) {
        if (at->ep_attr->protocol == FI_PROTO_XNET && !reason_unusable(lib, at) &&
            at->addr_format == one->addr_format && is_loopback(at) == is_loopback(one) &&
            strcmp(at->domain_attr->name, one->domain_attr->name) == 0)
            return at;
    }
    return one;
}

static const struct fi_info *choose_best(const struct fp_lib *lib, const struct fi_info *all)
{
    const struct fi_info *loopback = NULL;

    for (const struct fi_info *at = all; at; at = at->next) {
        if (reason_unusable(lib, at))
            continue;
        if (!is_loopback(at))
            return prefer_xnet(lib, at, all);
        if (!loopback)
            loopback = at;
    }
    return loopback && may_be_loopback() ? prefer_xnet(lib, loopback, all) : NULL;
}

/* Returns why none of the fabrics can be used. */
static const char *reason_none_usable(const struct fp_lib *lib, const struct fi_info *all)
{
    for (const struct fi_info *at = all; at; at = at->next) {
        if (!reason_unusable(lib, at))
            return "no network is up but the loopback device, which other hosts do not reach";
    }
    return reason_unusable(lib, all);
}

/* Limits the queue depth, whose default may be thousands. */
static void limit_depth(size_t *depth)
{
    if (*depth > DEPTH)
        *depth = DEPTH;
}

static struct fi_info *choose_info(const struct fp_lib *lib, enum feature_level feature_level,
                                   char why[FP_WHY])
{
    struct fi_info *all = get_infos(lib, feature_level, why);
    const struct fi_info *best = choose_best(lib, all);
    struct fi_info *chosen = best ? lib->dupinfo(best) : NULL;

    if (chosen) {
        limit_depth(&chosen->tx_attr->size);
        limit_depth(&chosen->rx_attr->size);
    }
    if (all && !best)
        snprintf(why, FP_WHY, "%s: %s", all->fabric_attr->prov_name, reason_none_usable(lib, all));
    else if (all && !chosen)
        snprintf(why, FP_WHY, "no memory");
    if (all)
        lib->freeinfo(all);
    return chosen;
}

struct fi_info *fp_fabric_choose(const struct fp_lib *lib, char why[FP_WHY])
{
    enum feature_level feature_level =
        ut_env_num(UT_ENV_OFI_RMA) > 0 ? LEVEL_WRITES_IN_ORDER : LEVEL_MESSAGES;
    struct fi_info *info = choose_info(lib, feature_level, why);

    while (!info && feature_level > LEVEL_MESSAGES)
        info = choose_info(lib, --feature_level, why);
    return info;
}

uint32_t fp_fabric_hash(const struct fp_lib *lib, const struct fi_info *info)
{
    const char *name = info->fabric_attr->prov_name;
    uint64_t hash = ut_hash(UT_HASH_FIRST, name, strlen(name));
    size_t in_order = fp_fabric_ordered_size(lib, info);

    hash = ut_hash(hash, &in_order, sizeof(in_order));

    return (uint32_t)ut_hash(hash, &info->addr_format, sizeof(info->addr_format));
}

bool fp_fabric_probe(char text[FP_WHY])
{
    const struct fp_lib *lib = fp_lib(text);
    struct fi_info *info = lib ? fp_fabric_choose(lib, text) : NULL;

    if (!info)
        return false;
    snprintf(text, FP_WHY, "%s on %s", info->fabric_attr->prov_name, info->domain_attr->name);
    lib->freeinfo(info);
    return true;
}

/*
 * Endpoints
 */

/* The queue of `net` in libfabric 1.17 signals its first completion, and its descriptor stays
 * readable from then on, as fi_trywait() does not reset the signal. A wait set
 * does not have this error, as fi_wait() resets the signal. */
static bool has_sticky_wait_fd(const struct fp_prov *prov)
{
    return strcmp(prov->info->fabric_attr->prov_name, "net") == 0;
}

/* libfabric 2 has no `net`, and its headers warn of wait sets. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int open_wait(struct fp_prov *prov, struct fp_fids *f)
{
    struct fi_wait_attr attr = {.wait_obj = FI_WAIT_FD};

    return fi_wait_open(prov->fabric, &attr, &f->wait);
}

static int open_queue(struct fp_prov *prov, struct fp_fids *f)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};

    if (has_sticky_wait_fd(prov) && open_wait(prov, f) == 0) {
        attr.wait_obj = FI_WAIT_SET;
        attr.wait_set = f->wait;
    }
    int rc = fi_cq_open(f->domain, &attr, &f->cq, NULL);
    if (rc == 0 && fi_control(f->wait ? &f->wait->fid : &f->cq->fid, FI_GETWAIT, &f->cq_fd) != 0)
        f->cq_fd = -1;
    if (rc == 0)
        return 0;
    attr = (struct fi_cq_attr){.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
    return fi_cq_open(f->domain, &attr, &f->cq, NULL);
}

bool fp_fids_trywait(struct fp_prov *prov, struct fp_fids *f)
{
    struct fid *fid = &f->cq->fid;

    if (f->wait)
        fi_wait(f->wait, 0);
    return fi_trywait(prov->fabric, &fid, 1) == 0;
}

/* Polling one queue of an FI_PROTO_XNET domain reads all sockets of the domain, and a thread that
 * sleeps on another queue of it is not woken. */
static int open_domain(struct fp_prov *prov, struct fp_fids *f)
{
    int rc;

    if (!prov->own_domains) {
        f->domain = prov->domain;
        return 0;
    }
    rc = fi_domain(prov->fabric, prov->info, &f->domain, NULL);
    return rc != 0 ? rc : fp_net_infos_watch(prov, f);
}

int fp_fids_open(struct fp_prov *prov, struct fp_fids *f)
{
    struct fi_av_attr av_attr = {.type = prov->info->domain_attr->av_type};
    const char *what = "a domain";

    int rc = open_domain(prov, f);
    if (rc == 0) {
        what = "a completion queue";
        rc = open_queue(prov, f);
    }
    if (rc == 0) {
        what = "an address vector";
        rc = fi_av_open(f->domain, &av_attr, &f->av, NULL);
    }
    if (rc == 0) {
        what = "an endpoint";
        rc = fi_endpoint(f->domain, prov->info, &f->ep, NULL);
    }
    if (rc == 0)
        rc = fi_ep_bind(f->ep, &f->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0)
        rc = fi_ep_bind(f->ep, &f->av->fid, 0);
    if (rc == 0)
        rc = fi_enable(f->ep);
    if (rc == 0)
        return 0;
    ut_error(FP_CAT, "%s: cannot make %s: %s%s", prov->info->fabric_attr->prov_name, what,
             fp_strerror(rc), ut_fd_limit_remedy(-rc));
    fp_fids_close(prov, f);
    return rc == -FI_EMFILE || rc == -FI_ENOMEM ? rc : -EIO;
}

void fp_fids_close_ep(struct fp_fids *f)
{
    if (f->ep)
        fi_close(&f->ep->fid);
    f->ep = NULL;
}

void fp_fids_close(struct fp_prov *prov, struct fp_fids *f)
{
    fp_fids_close_ep(f);
    if (f->cq)
        fi_close(&f->cq->fid);
    if (f->av)
        fi_close(&f->av->fid);
    if (f->wait)
        fi_close(&f->wait->fid);
    if (f->domain && f->domain != prov->domain) {
        fp_net_infos_unwatch(prov, f);
        fi_close(&f->domain->fid);
    }
    *f = (struct fp_fids){.cq_fd = -1};
}

int fp_ep_name(struct fid_ep *ep, uint8_t name[FP_NAME_MAX], uint8_t *size)
{
    size_t length = FP_NAME_MAX;
    int rc = fi_getname(&ep->fid, name, &length);

    if (rc != 0 || length > FP_NAME_MAX) {
        ut_error(FP_CAT, "an endpoint's name of %zu bytes: %s", length,
                 rc ? fp_strerror(rc) : "too long");
        return -EIO;
    }
    *size = (uint8_t)length;
    return 0;
}

/*
 * Registration of memory
 */

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
