/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: posted operations are checked, delayed, issued, and completed. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric.h"

enum { MOST_DONE = 256 /* maximum number taken from the real queue before they are returned */ };

static struct fabric_counts counts;

EXPORT const struct fabric_counts *fabric_counts(void)
{
    return &counts;
}

static void count(unsigned long *what)
{
    __atomic_add_fetch(what, 1, __ATOMIC_RELAXED);
}

static const char *name_of(enum kind kind)
{
    static const char *const names[] = {"receive", "send", "RMA write", "RMA read"};

    return names[kind];
}

/*
 * Rules
 */

static uint64_t access_of(enum kind kind)
{
    static const uint64_t needed[] = {FI_RECV, FI_SEND, FI_WRITE, FI_READ};

    return needed[kind];
}

/* With the lock. The region of a descriptor; NULL: none is required. */
static struct mr *check_desc(const struct ep *ep, enum kind kind, const void *bytes, size_t size,
                             const void *desc)
{
    uintptr_t addr = (uintptr_t)bytes;
    struct mr *mr = ep->domain->mrs;

    if (!(fabric_profile()->mr_mode & FI_MR_LOCAL))
        return NULL;
    if (!desc)
        fabric_wrong("a %s of %zu bytes without a descriptor of its memory", name_of(kind), size);
    while (mr && mr != desc)
        mr = mr->next;
    if (!mr)
        fabric_wrong("a %s of %zu bytes with a descriptor of no region here", name_of(kind), size);
    if (addr < mr->addr || size > mr->size || addr - mr->addr > mr->size - size)
        fabric_wrong("a %s of %zu bytes that its region does not cover", name_of(kind), size);
    if (!(mr->access & access_of(kind)))
        fabric_wrong("a %s of %zu bytes in a region that is not registered for it", name_of(kind),
                     size);
    if (!mr->is_enabled || (mr->ep && mr->ep != ep))
        fabric_wrong("a %s of %zu bytes in a region that is not enabled for its endpoint",
                     name_of(kind), size);
    return mr;
}

static void check_size(enum kind kind, size_t size)
{
    if (size > fabric_profile()->message)
        fabric_wrong("a %s of %zu bytes, where %zu are the most", name_of(kind), size,
                     fabric_profile()->message);
}

static void check_key(uint64_t key)
{
    const struct profile *p = fabric_profile();

    if (key == FI_KEY_NOTAVAIL || ((p->mr_mode & FI_MR_PROV_KEY) && !fabric_key_is_own(key)))
        fabric_wrong("key 0x%llx is none of the fabric's", (unsigned long long)key);
}

/* Memory that the program must not touch during an operation. */
static const uint8_t scribble = 0xa5;

static void take_context(struct op *op)
{
    if (fabric_profile()->has_context && op->user)
        memset(op->user, scribble, sizeof(struct fi_context2));
}

static void give_context(const struct op *op)
{
    const uint8_t *bytes = op->user;

    if (!fabric_profile()->has_context || !op->user)
        return;
    for (size_t i = 0; i < sizeof(struct fi_context2); i++) {
        if (bytes[i] != scribble)
            fabric_wrong("the context of a %s was written to while it was under way",
                         name_of(op->kind));
    }
}

/*
 * Operations
 */

static struct op *op_new(struct ep *ep, enum kind kind, const void *bytes, size_t size, void *desc,
                         void *user)
{
    struct op *op = calloc(1, sizeof(*op));

    if (!op)
        fabric_wrong("no memory");
    op->mr = check_desc(ep, kind, bytes, size, desc);
    op->ep = ep;
    op->kind = kind;
    op->user = user;
    op->bytes = (uint8_t *)(uintptr_t)bytes;
    op->size = size;
    op->number = ep->posted++;
    take_context(op);
    return op;
}

static void enlist(struct op *op)
{
    op->next = op->ep->ops;
    op->ep->ops = op;
    op->ep->receives += op->kind == OP_RECV;
}

void fabric_op_free(struct op *op)
{
    struct op **at = &op->ep->ops;

    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    op->ep->receives -= op->kind == OP_RECV;
    free(op->copy);
    free(op);
}

/* The number of polls for which an operation is delayed: one in four. */
static unsigned int some_looks(struct domain *domain)
{
    unsigned int late = fabric_profile()->late;

    return late > 0 && fabric_below(domain, 4) == 0 ? 1 + fabric_below(domain, late) : 0;
}

/* Ready to be returned, after a while. */
static void complete(struct op *op)
{
    struct cq *cq = op->ep->cq;

    if (!op->user && !op->error) {
        fabric_op_free(op); /* injected, or its completion has been returned */
        return;
    }
    op->is_done = true;
    op->entry.op_context = op->user;
    op->looks = some_looks(op->ep->domain);
    op->next_done = NULL;
    *cq->last = op;
    cq->last = &op->next_done;
}

static void fail(struct op *op, int error)
{
    op->error = error;
    complete(op);
}

/* The place for libfabric's TCP: an offset, and the key that the program requested. */
static struct fi_rma_iov real_place(const struct op *op)
{
    uint64_t mode = fabric_profile()->mr_mode;
    struct fi_rma_iov rma = {.addr = op->addr, .len = op->size, .key = op->key};

    if (mode & FI_MR_VIRT_ADDR)
        rma.addr -= fabric_key_addr(op->key);
    if (mode & FI_MR_PROV_KEY)
        rma.key &= REAL_KEY;
    return rma;
}

static ssize_t issue(struct op *op)
{
    struct fid_ep *real = op->ep->real;
    struct iovec iov = {.iov_base = op->copy ? op->copy : op->bytes, .iov_len = op->size};
    struct fi_rma_iov rma = real_place(op);
    struct fi_msg_rma m = {.msg_iov = &iov,
                           .iov_count = 1,
                           .addr = op->to,
                           .rma_iov = &rma,
                           .rma_iov_count = 1,
                           .context = op};

    switch (op->kind) {
    case OP_RECV:
        return fi_recv(real, op->bytes, op->size, NULL, op->to, op);
    case OP_SEND:
        return fi_send(real, iov.iov_base, op->size, NULL, op->to, op);
    case OP_WRITE:
        return fi_writemsg(real, &m, op->flags);
    case OP_READ:
        return fi_readmsg(real, &m, op->flags);
    }
    return -FI_EINVAL;
}

/* False: not possible now. */
static bool issued(struct op *op)
{
    ssize_t rc = issue(op);

    if (rc == -FI_EAGAIN)
        return false;
    op->is_issued = true;
    if (rc != 0)
        fail(op, (int)-rc);
    return true;
}

/* Does it wait for another one to the same endpoint? */
static bool is_behind(const struct op *op)
{
    for (const struct op *other = op->ep->first; other != op; other = other->next_done) {
        if (other->to == op->to)
            return true;
    }
    return false;
}

static void issue_in_order(struct ep *ep)
{
    struct op **at = &ep->first;

    while (*at) {
        struct op *op = *at, *next = op->next_done;
        bool is_first = !is_behind(op);
        if (is_first && op->looks > 0) {
            op->looks--;
        } else if (is_first && issued(op)) {
            *at = next;
            continue;
        }
        at = &op->next_done;
    }
    ep->last = at;
}

static void issue_in_any_order(struct ep *ep)
{
    struct op **at = &ep->bag;

    while (*at) {
        struct op *op = *at, *next = op->next_done;
        if (op->looks > 0) {
            op->looks--;
        } else if (issued(op)) {
            *at = next;
            continue;
        }
        at = &op->next_done;
    }
}

static void hold(struct op *op, bool in_order)
{
    struct ep *ep = op->ep;

    op->looks = some_looks(ep->domain);
    if (op->looks > 0)
        count(&counts.held);
    op->next_done = NULL;
    if (in_order) {
        *ep->last = op;
        ep->last = &op->next_done;
        issue_in_order(ep);
        return;
    }
    struct op **at = &ep->bag; /* at a random place among the others */
    while (*at && fabric_below(ep->domain, 2))
        at = &(*at)->next_done;
    op->next_done = *at;
    *at = op;
}

/*
 * Completions
 */

static void take_real(struct cq *cq)
{
    struct fi_cq_msg_entry entry;

    for (int i = 0; i < MOST_DONE; i++) {
        ssize_t n = fi_cq_read(cq->real, &entry, 1);
        if (n == -FI_EAVAIL) {
            struct fi_cq_err_entry error = {0};
            if (fi_cq_readerr(cq->real, &error, 0) == 1 && error.op_context)
                fail(error.op_context, error.err);
            continue;
        }
        if (n != 1)
            return;
        struct op *op = entry.op_context;
        op->entry = entry;
        complete(op);
    }
}

void fabric_look(struct cq *cq)
{
    if (cq->ep) {
        issue_in_order(cq->ep);
        issue_in_any_order(cq->ep);
        take_real(cq);
    }
    for (struct op *op = cq->done; op; op = op->next_done) {
        if (op->looks > 0)
            op->looks--;
        if (!fabric_profile()->shuffles)
            break; /* the others wait behind it */
    }
}

bool fabric_holds(const struct cq *cq)
{
    return cq->done || cq->failed || (cq->ep && (cq->ep->first || cq->ep->bag));
}

/* Chooses one of the ready ones. */
static struct op **choose(struct cq *cq)
{
    struct op **chosen = NULL;
    uint32_t ready = 0;

    for (struct op **at = &cq->done; *at; at = &(*at)->next_done) {
        if ((*at)->looks == 0 && fabric_below(cq->domain, ++ready) == 0)
            chosen = at;
        if (!fabric_profile()->shuffles)
            break;
    }
    return chosen;
}

static void count_completion(const struct op *op)
{
    count(&counts.completions);
    for (const struct op *other = op->ep->ops; other; other = other->next) {
        if (other->is_done && other->number < op->number &&
            (other->kind == OP_RECV) == (op->kind == OP_RECV)) {
            count(&counts.overtakings);
            return;
        }
    }
}

struct op *fabric_take(struct cq *cq)
{
    struct op **at = choose(cq);

    if (!at)
        return NULL;
    struct op *op = *at;
    *at = op->next_done;
    if (!*at)
        cq->last = at;
    count_completion(op);
    give_context(op);
    return op;
}

/* A region that the program closes during an operation in it. */
static void forget(struct ep *ep, const struct mr *mr)
{
    for (struct op *op = ep->ops, *next; op; op = next) {
        next = op->next;
        if (op->mr != mr || op->is_done)
            continue;
        if (op->kind == OP_RECV || op->kind == OP_SEND)
            fabric_wrong("the region of a %s is closed while it is under way", name_of(op->kind));
        op->mr = NULL; /* it may fail or succeed */
    }
}

void fabric_forget(struct mr *mr)
{
    for (struct ep *ep = mr->domain->eps; ep; ep = ep->next)
        forget(ep, mr);
}

/*
 * Called by programs
 */

static struct ep *ep_of(struct fid_ep *fid)
{
    return container(fid, struct ep, fid);
}

/* With the lock. Operations to an endpoint that is gone do not block others. */
static size_t under_way_to(const struct ep *ep, fi_addr_t to)
{
    size_t n = 0;

    for (const struct op *op = ep->ops; op; op = op->next)
        n += op->kind != OP_RECV && op->to == to;
    return n;
}

/* With the lock. */
static bool is_busy(struct ep *ep, size_t under_way)
{
    unsigned int busy = fabric_profile()->busy;

    if (under_way >= ep->depth)
        return true;
    if (busy == 0 || fabric_below(ep->domain, busy) != 0)
        return false;
    count(&counts.busy);
    return true;
}

static ssize_t ep_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from,
                       void *context)
{
    struct ep *ep = ep_of(fid);
    ssize_t rc = -FI_EAGAIN;

    pthread_mutex_lock(&ep->domain->lock);
    if (!is_busy(ep, ep->receives)) {
        struct op *op = op_new(ep, OP_RECV, buf, len, desc, context);
        op->to = from;
        enlist(op);
        rc = issue(op);
        if (rc != 0)
            fabric_op_free(op);
    }
    pthread_mutex_unlock(&ep->domain->lock);
    return rc;
}

/* With the lock. False: dropped by a fault. */
static bool is_to_be_sent(struct op *op)
{
    unsigned long n = ++op->ep->messages;

    if (n == fabric_fault(FAULT_LOSE)) {
        count(&counts.lost);
        complete(op);
        return false;
    }
    if (n == fabric_fault(FAULT_FAIL)) {
        fail(op, FI_EIO);
        return false;
    }
    return true;
}

static ssize_t ep_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to,
                       void *context)
{
    struct ep *ep = ep_of(fid);
    ssize_t rc = -FI_EAGAIN;

    check_size(OP_SEND, len);
    pthread_mutex_lock(&ep->domain->lock);
    if (!is_busy(ep, under_way_to(ep, to))) {
        struct op *op = op_new(ep, OP_SEND, buf, len, desc, context);
        op->to = to;
        enlist(op);
        if (is_to_be_sent(op))
            hold(op, true);
        rc = 0;
    }
    pthread_mutex_unlock(&ep->domain->lock);
    return rc;
}

static void keep_copy(struct op *op)
{
    op->copy = malloc(op->size + 1);
    if (!op->copy)
        fabric_wrong("no memory");
    memcpy(op->copy, op->bytes, op->size);
}

static ssize_t ep_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to)
{
    struct ep *ep = ep_of(fid);
    ssize_t rc = -FI_EAGAIN;

    check_size(OP_SEND, len);
    if (len > ep->inject)
        fabric_wrong("%zu bytes are injected, where %zu are the most", len, ep->inject);
    pthread_mutex_lock(&ep->domain->lock);
    if (!is_busy(ep, under_way_to(ep, to))) {
        struct op *op = calloc(1, sizeof(*op)); /* its memory needs no registration */
        if (!op)
            fabric_wrong("no memory");
        *op = (struct op){.ep = ep, .kind = OP_SEND, .size = len, .to = to, .number = ep->posted++};
        op->bytes = (uint8_t *)(uintptr_t)buf;
        keep_copy(op);
        enlist(op);
        if (is_to_be_sent(op))
            hold(op, true);
        rc = 0;
    }
    pthread_mutex_unlock(&ep->domain->lock);
    return rc;
}

/* The program may learn that the write is complete, and change its source, too early. */
static void tell_early(struct op *op)
{
    struct op *told = calloc(1, sizeof(*told));

    if (!told)
        fabric_wrong("no memory");
    *told = (struct op){.ep = op->ep, .kind = OP_WRITE, .user = op->user, .number = op->number};
    told->entry.flags = FI_RMA | FI_WRITE;
    enlist(told);
    keep_copy(op);
    op->user = NULL;
    op->mr = NULL;
    complete(told);
}

static ssize_t ep_writemsg(struct fid_ep *fid, const struct fi_msg_rma *m, uint64_t flags)
{
    struct ep *ep = ep_of(fid);
    const struct profile *p = fabric_profile();
    ssize_t rc = -FI_EAGAIN;

    if (m->iov_count != 1 || m->rma_iov_count != 1 || m->msg_iov->iov_len != m->rma_iov->len)
        fabric_wrong("an RMA write of several pieces");
    if (p->never_delivers && (flags & FI_DELIVERY_COMPLETE))
        return -FI_EOPNOTSUPP;
    check_size(OP_WRITE, m->rma_iov->len);
    check_key(m->rma_iov->key);
    pthread_mutex_lock(&ep->domain->lock);
    if (!is_busy(ep, under_way_to(ep, m->addr))) {
        struct op *op = op_new(ep, OP_WRITE, m->msg_iov->iov_base, m->rma_iov->len,
                               m->desc ? *m->desc : NULL, m->context);
        op->to = m->addr;
        op->addr = m->rma_iov->addr;
        op->key = m->rma_iov->key;
        op->flags = flags;
        enlist(op);
        if (flags & FI_DELIVERY_COMPLETE)
            count(&counts.delivered);
        else if (p->unordered)
            tell_early(op);
        hold(op, !p->unordered);
        rc = 0;
    }
    pthread_mutex_unlock(&ep->domain->lock);
    return rc;
}

static ssize_t ep_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from,
                       uint64_t addr, uint64_t key, void *context)
{
    struct ep *ep = ep_of(fid);
    ssize_t rc = -FI_EAGAIN;

    check_size(OP_READ, len);
    check_key(key);
    pthread_mutex_lock(&ep->domain->lock);
    if (!is_busy(ep, under_way_to(ep, from))) {
        struct op *op = op_new(ep, OP_READ, buf, len, desc, context);
        op->to = from;
        op->addr = addr;
        op->key = key;
        op->flags = FI_COMPLETION;
        enlist(op);
        hold(op, false);
        rc = 0;
    }
    pthread_mutex_unlock(&ep->domain->lock);
    return rc;
}

/*
 * Opening and closing
 */

static bool owes_writes(const struct ep *ep)
{
    for (const struct op *op = ep->ops; op; op = op->next) {
        if (op->kind == OP_WRITE && op->copy)
            return true;
    }
    return false;
}

/* Writes that were reported as complete no longer need the endpoint; all other operations are
 * discarded with it. */
static void write_what_is_owed(struct ep *ep)
{
    enum { TRIES = 20000, PAUSE_US = 50 };

    for (int i = 0; i < TRIES && ep->cq && owes_writes(ep); i++) {
        fabric_look(ep->cq);
        usleep(PAUSE_US);
    }
}

static void discard(struct ep *ep)
{
    while (ep->ops) {
        struct op *op = ep->ops;
        give_context(op);
        fabric_op_free(op);
    }
    if (ep->cq) {
        ep->cq->ep = NULL;
        ep->cq->done = ep->cq->failed = NULL;
        ep->cq->last = &ep->cq->done;
    }
}

static void check_regions(const struct ep *ep)
{
    for (const struct mr *mr = ep->domain->mrs; mr; mr = mr->next) {
        if (mr->ep == ep && mr->real)
            fabric_wrong("an endpoint is closed to which a region for peers is bound");
    }
}

static int ep_close(struct fid *fid)
{
    struct ep *ep = container(fid, struct ep, fid.fid), **at;
    struct domain *domain = ep->domain;

    pthread_mutex_lock(&domain->lock);
    check_regions(ep);
    write_what_is_owed(ep);
    int rc = fi_close(&ep->real->fid);
    discard(ep);
    for (at = &domain->eps; *at != ep; at = &(*at)->next)
        ;
    *at = ep->next;
    domain->open--;
    for (struct mr *mr = domain->mrs; mr; mr = mr->next) {
        if (mr->ep == ep)
            mr->ep = NULL;
    }
    pthread_mutex_unlock(&domain->lock);
    free(ep);
    return rc;
}

static int ep_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
    struct ep *ep = container(fid, struct ep, fid.fid);

    if (to->fclass != FI_CLASS_CQ)
        return fi_ep_bind(ep->real, to, flags);
    struct cq *cq = container(to, struct cq, fid.fid);
    if (cq->ep || flags != (FI_TRANSMIT | FI_RECV))
        fabric_wrong("a completion queue of several endpoints, or of half of one");
    cq->ep = ep;
    ep->cq = cq;
    return fi_ep_bind(ep->real, &cq->real->fid, flags);
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    return fi_control(&container(fid, struct ep, fid.fid)->real->fid, command, arg);
}

static int ep_getname(struct fid *fid, void *name, size_t *size)
{
    return fi_getname(&container(fid, struct ep, fid.fid)->real->fid, name, size);
}

static struct fi_ops ep_fid_ops = {
    .size = sizeof(struct fi_ops), .close = ep_close, .bind = ep_bind, .control = ep_control};
static struct fi_ops_cm ep_cm = {.size = sizeof(struct fi_ops_cm), .getname = ep_getname};
static struct fi_ops_msg ep_msg = {
    .size = sizeof(struct fi_ops_msg), .recv = ep_recv, .send = ep_send, .inject = ep_inject};
static struct fi_ops_rma ep_rma = {
    .size = sizeof(struct fi_ops_rma), .read = ep_read, .writemsg = ep_writemsg};

int fabric_endpoint(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out,
                    void *context)
{
    struct domain *domain = container(fid, struct domain, fid);
    struct ep *ep = calloc(1, sizeof(*ep));
    struct fi_info *real = fabric_real_info(info);

    if (!ep)
        fabric_wrong("no memory");
    int rc = fi_endpoint(domain->real, real, &ep->real, NULL);
    fi_freeinfo(real);
    if (rc != 0) {
        free(ep);
        return rc;
    }
    ep->fid.fid = (struct fid){.fclass = FI_CLASS_EP, .context = context, .ops = &ep_fid_ops};
    ep->fid.cm = &ep_cm;
    ep->fid.msg = &ep_msg;
    ep->fid.rma = fabric_profile()->lacks & FI_RMA ? NULL : &ep_rma;
    ep->domain = domain;
    ep->last = &ep->first;
    ep->inject = info->tx_attr->inject_size;
    ep->depth = info->rx_attr->size;
    pthread_mutex_lock(&domain->lock);
    ep->next = domain->eps;
    domain->eps = ep;
    domain->open++;
    pthread_mutex_unlock(&domain->lock);
    *out = &ep->fid;
    return 0;
}
