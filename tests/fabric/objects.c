/* SPDX-License-Identifier: Apache-2.0 */
/* Fabrics, domains, completion queues and memory regions. */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "fabric.h"

struct fabric {
    struct fid_fabric fid;
    struct fid_fabric *real;
};

static void *must(void *memory)
{
    if (!memory)
        fabric_wrong("no memory");
    return memory;
}

uint32_t fabric_below(struct domain *domain, uint32_t n)
{
    uint64_t r = domain->random;

    r ^= r << 13;
    r ^= r >> 7;
    r ^= r << 17;
    domain->random = r;
    return (uint32_t)(r >> 32) % n;
}

/*
 * Memory regions
 */

static int register_really(struct mr *mr)
{
    const struct profile *p = fabric_profile();
    struct iovec iov = {.iov_base = (void *)mr->addr, .iov_len = mr->size}; /* NOLINT */
    struct fi_mr_attr attr = {
        .mr_iov = &iov, .iov_count = 1, .access = mr->access, .requested_key = mr->requested};
    int rc;

    if (!(mr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE)))
        return 0; /* libfabric's TCP needs no registration for local use */
    do {
        if (p->mr_mode & FI_MR_PROV_KEY)
            attr.requested_key = ++mr->domain->last_key & REAL_KEY;
        rc = fi_mr_regattr(mr->domain->real, &attr, 0, &mr->real);
    } while (rc == -FI_ENOKEY && (p->mr_mode & FI_MR_PROV_KEY));
    if (rc == 0)
        mr->fid.key =
            p->mr_mode & FI_MR_PROV_KEY ? fabric_key(attr.requested_key, mr->addr) : mr->requested;
    return rc;
}

static int mr_close(struct fid *fid)
{
    struct mr *mr = container(fid, struct mr, fid.fid), **at;
    struct domain *domain = mr->domain;

    pthread_mutex_lock(&domain->lock);
    fabric_forget(mr);
    for (at = &domain->mrs; *at != mr; at = &(*at)->next)
        ;
    *at = mr->next;
    domain->open--;
    pthread_mutex_unlock(&domain->lock);
    if (mr->real && fi_close(&mr->real->fid) != 0)
        fabric_wrong("a region of %zu bytes cannot be closed", mr->size);
    free(mr);
    return 0;
}

static int mr_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
    struct mr *mr = container(fid, struct mr, fid.fid);

    if (to->fclass != FI_CLASS_EP || flags != 0 || mr->is_enabled)
        fabric_wrong("a region is bound to something else than an endpoint, or too late");
    mr->ep = container(to, struct ep, fid.fid);
    if (mr->ep->domain != mr->domain)
        fabric_wrong("a region is bound to an endpoint of another domain");
    return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    struct mr *mr = container(fid, struct mr, fid.fid);

    (void)arg;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    if (!mr->ep || mr->is_enabled)
        fabric_wrong("a region is enabled that is bound to no endpoint, or twice");
    pthread_mutex_lock(&mr->domain->lock);
    int rc = register_really(mr);
    mr->is_enabled = rc == 0;
    pthread_mutex_unlock(&mr->domain->lock);
    return rc;
}

static struct fi_ops mr_ops = {
    .size = sizeof(struct fi_ops), .close = mr_close, .bind = mr_bind, .control = mr_control};

/* With the lock. 0, or the error. */
static int check_key(const struct domain *domain, uint64_t key)
{
    const struct profile *p = fabric_profile();

    if (p->mr_mode & FI_MR_PROV_KEY)
        return 0;
    if (p->key_size < 8 && key >> (8 * p->key_size) != 0)
        fabric_wrong("key 0x%llx has more than %zu bytes", (unsigned long long)key, p->key_size);
    for (const struct mr *mr = domain->mrs; mr; mr = mr->next) {
        if (mr->requested == key)
            return -FI_ENOKEY;
    }
    return 0;
}

static int take_region(struct domain *domain, uint64_t access, uint64_t key)
{
    unsigned long least = fabric_fault(FAULT_REFUSE_MR);
    int rc = check_key(domain, key);

    if (rc != 0 || !(access & (FI_REMOTE_READ | FI_REMOTE_WRITE)))
        return rc;
    return ++domain->remote_regions >= least && least > 0 ? -FI_ENOSPC : 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                  uint64_t requested_key, uint64_t flags, struct fid_mr **out, void *context)
{
    struct domain *domain = container(fid, struct domain, fid.fid);
    const struct profile *p = fabric_profile();
    struct mr *mr = must(calloc(1, sizeof(*mr)));

    if (offset != 0 || flags != 0)
        fabric_wrong("fi_mr_reg() with an offset or flags");
    mr->fid.fid = (struct fid){.fclass = FI_CLASS_MR, .context = context, .ops = &mr_ops};
    mr->fid.mem_desc = p->mr_mode & FI_MR_LOCAL ? mr : NULL;
    mr->fid.key = FI_KEY_NOTAVAIL;
    mr->domain = domain;
    mr->addr = (uintptr_t)buf;
    mr->size = len;
    mr->access = access;
    mr->requested = requested_key;
    pthread_mutex_lock(&domain->lock);
    int rc = take_region(domain, access, requested_key);
    if (rc == 0 && !(p->mr_mode & FI_MR_ENDPOINT)) {
        rc = register_really(mr);
        mr->is_enabled = true;
    }
    if (rc == 0) {
        mr->next = domain->mrs;
        domain->mrs = mr;
        domain->open++;
    }
    pthread_mutex_unlock(&domain->lock);
    if (rc != 0)
        free(mr);
    else
        *out = &mr->fid;
    return rc;
}

/*
 * Completion queues
 */

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct cq *cq = container(fid, struct cq, fid);
    struct fi_cq_msg_entry *entries = buf;
    ssize_t n = 0;

    pthread_mutex_lock(&cq->domain->lock);
    fabric_look(cq);
    while (!cq->failed && n < (ssize_t)count) {
        struct op *op = fabric_take(cq);
        if (!op)
            break;
        if (op->error) {
            cq->failed = op;
        } else {
            entries[n++] = op->entry;
            fabric_op_free(op);
        }
    }
    if (n == 0)
        n = cq->failed ? -FI_EAVAIL : -FI_EAGAIN;
    pthread_mutex_unlock(&cq->domain->lock);
    return n;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct cq *cq = container(fid, struct cq, fid);
    ssize_t n = -FI_EAGAIN;

    (void)flags;
    pthread_mutex_lock(&cq->domain->lock);
    if (cq->failed) {
        entry->op_context = cq->failed->user;
        entry->err = cq->failed->error;
        entry->len = 0;
        fabric_op_free(cq->failed);
        cq->failed = NULL;
        n = 1;
    }
    pthread_mutex_unlock(&cq->domain->lock);
    return n;
}

static int cq_close(struct fid *fid)
{
    struct cq *cq = container(fid, struct cq, fid.fid);

    if (cq->ep)
        fabric_wrong("a completion queue is closed before its endpoint");
    int rc = fi_close(&cq->real->fid);
    pthread_mutex_lock(&cq->domain->lock);
    cq->domain->open--;
    pthread_mutex_unlock(&cq->domain->lock);
    free(cq);
    return rc;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
    return fi_control(&container(fid, struct cq, fid.fid)->real->fid, command, arg);
}

static struct fi_ops cq_fid_ops = {
    .size = sizeof(struct fi_ops), .close = cq_close, .control = cq_control};
static struct fi_ops_cq cq_ops = {
    .size = sizeof(struct fi_ops_cq), .read = cq_read, .readerr = cq_readerr};

static int cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out,
                   void *context)
{
    struct domain *domain = container(fid, struct domain, fid);
    struct cq *cq;

    if (attr->format != FI_CQ_FORMAT_MSG)
        fabric_wrong("a completion queue of another format than FI_CQ_FORMAT_MSG");
    if (fabric_profile()->calls_itself && attr->wait_obj != FI_WAIT_NONE)
        return -FI_ENOSYS;
    cq = must(calloc(1, sizeof(*cq)));
    int rc = fi_cq_open(domain->real, attr, &cq->real, NULL);
    if (rc != 0) {
        free(cq);
        return rc;
    }
    cq->fid.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context, .ops = &cq_fid_ops};
    cq->fid.ops = &cq_ops;
    cq->domain = domain;
    cq->last = &cq->done;
    pthread_mutex_lock(&domain->lock);
    domain->open++;
    pthread_mutex_unlock(&domain->lock);
    *out = &cq->fid;
    return 0;
}

/*
 * Domains and fabrics
 */

static int domain_close(struct fid *fid)
{
    struct domain *domain = container(fid, struct domain, fid.fid);

    if (domain->open > 0)
        fabric_wrong("a domain is closed in which %u objects are open", domain->open);
    int rc = fi_close(&domain->real->fid);
    if (rc != 0)
        fabric_wrong("a domain is closed: %d", rc);
    pthread_mutex_destroy(&domain->lock);
    free(domain);
    return 0;
}

static int av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av,
                   void *context)
{
    return fi_av_open(container(fid, struct domain, fid)->real, attr, av, context);
}

static struct fi_ops domain_fid_ops = {.size = sizeof(struct fi_ops), .close = domain_close};
static struct fi_ops_domain domain_ops = {.size = sizeof(struct fi_ops_domain),
                                          .av_open = av_open,
                                          .cq_open = cq_open,
                                          .endpoint = fabric_endpoint};
static struct fi_ops_mr domain_mr_ops = {.size = sizeof(struct fi_ops_mr), .reg = mr_reg};

static int domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out,
                       void *context)
{
    static uint64_t domains;
    struct domain *domain = must(calloc(1, sizeof(*domain)));
    struct fi_info *real = fabric_real_info(info);

    int rc = fi_domain(container(fid, struct fabric, fid)->real, real, &domain->real, NULL);
    fi_freeinfo(real);
    if (rc != 0) {
        free(domain);
        return rc;
    }
    uint64_t number = __atomic_add_fetch(&domains, 1, __ATOMIC_RELAXED);
    domain->random = (fabric_seed() * 1000 + number) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    domain->fid.fid =
        (struct fid){.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fid_ops};
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &domain_mr_ops;
    pthread_mutex_init(&domain->lock, NULL);
    *out = &domain->fid;
    return 0;
}

static int fabric_close(struct fid *fid)
{
    struct fabric *fabric = container(fid, struct fabric, fid.fid);
    int rc = fi_close(&fabric->real->fid);

    free(fabric);
    return rc;
}

static int wait_open(struct fid_fabric *fid, struct fi_wait_attr *attr, struct fid_wait **wait)
{
    return fi_wait_open(container(fid, struct fabric, fid)->real, attr, wait);
}

/* A sleeping thread does not poll, so it must not sleep while an operation is delayed. */
static int trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
    for (int i = 0; i < count; i++) {
        if (fids[i]->fclass != FI_CLASS_CQ)
            fabric_wrong("fi_trywait() on something else than a completion queue");
        struct cq *cq = container(fids[i], struct cq, fid.fid);
        struct fid *real = &cq->real->fid;
        pthread_mutex_lock(&cq->domain->lock);
        bool holds = fabric_holds(cq);
        pthread_mutex_unlock(&cq->domain->lock);
        int rc =
            holds ? -FI_EAGAIN : fi_trywait(container(fid, struct fabric, fid)->real, &real, 1);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static struct fi_ops fabric_fid_ops = {.size = sizeof(struct fi_ops), .close = fabric_close};
static struct fi_ops_fabric fabric_ops = {.size = sizeof(struct fi_ops_fabric),
                                          .domain = domain_open,
                                          .wait_open = wait_open,
                                          .trywait = trywait};

int fabric_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
    typedef int (*fabric_function)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    fabric_function real_fabric;
    void *found = fabric_real("fi_fabric");
    struct fi_fabric_attr real = *attr;
    char name[32] = "";
    struct fabric *fabric = must(calloc(1, sizeof(*fabric)));

    memcpy(&real_fabric, &found, sizeof(found));
    strncpy(name, fabric_real_name(), sizeof(name) - 1);
    real.prov_name = name;
    int rc = real_fabric(&real, &fabric->real, NULL);
    if (rc != 0) {
        free(fabric);
        return rc;
    }
    fabric->fid.fid =
        (struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_fid_ops};
    fabric->fid.ops = &fabric_ops;
    *out = &fabric->fid;
    return 0;
}
