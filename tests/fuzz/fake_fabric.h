/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake fabric of libfabric: the libFuzzer target puts messages into the receives of an endpoint,
 * and ends posted operations. Tests also look at what was sent. One thread.
 */
#ifndef FAKE_FABRIC_H
#define FAKE_FABRIC_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../../provider/ofi/types.h"

#ifndef FAKE_ENDPOINTS
#    define FAKE_ENDPOINTS 4
#endif

enum {
    FAKE_EPS = FAKE_ENDPOINTS,
    FAKE_DEPTH = 256,
    FAKE_BUFFER = 2048, /* bytes of a message */
    FAKE_LOG = 64,      /* messages that an endpoint keeps */
    FAKE_KEPT = 512     /* bytes of each that it keeps */
};

/* A posted operation, in order. */
struct fake_posted {
    void *context, *bytes;
    size_t size;
    const void *source; /* of a message: the fabric may read it until the operation ends */
    uint64_t sum;
};

/* A message that was sent or injected, or a read or write of the fabric (is_rma). */
struct fake_sent {
    uint8_t bytes[FAKE_KEPT];
    size_t size;
    uint64_t addr, key, flags; /* of a read or write */
    const void *desc;          /* of a write */
    fi_addr_t to;
    bool is_rma, is_injected;
};

/* An endpoint, with its queue and address vector. */
struct fake_ep {
    struct fid_ep ep;
    struct fid_cq cq;
    struct fid_av av;
    struct fake_posted receives[FAKE_DEPTH], sends[FAKE_DEPTH];
    unsigned int num_receives, num_sends;
    struct fi_cq_msg_entry done[FAKE_DEPTH];
    unsigned int num_done;
    void *failed;
    bool is_open;
    int fd;                         /* of the queue, with fake_has_fds */
    struct fake_sent log[FAKE_LOG]; /* the last ones, in a ring */
    unsigned int num_sent;
};

static struct fake_ep fake_eps[FAKE_EPS];
static unsigned int fake_num_eps;
static int fake_busy;      /* the next operation is refused */
static ssize_t fake_error; /* not 0: the error of the next operation */
static bool fake_has_fds;  /* queues have descriptors to sleep on */
static unsigned int fake_names, fake_names_removed;
static int fake_refused_names;                /* the next name is refused */
static void (*fake_change)(struct fi_info *); /* changes each fi_info; NULL: none */
static bool fake_reorders;                    /* the operation that ended last is reported first */
static bool fake_has_names;                   /* a name and an address are the endpoint's number */
static unsigned int fake_max_receives;        /* that an endpoint takes; 0: FAKE_DEPTH */
static ssize_t (*fake_send_error)(void);      /* the result of the next send; NULL: fake_error's */
static struct fid_fabric fake_fabric;
static uint64_t fake_last_key;

static void (*fake_on_call)(void); /* called by most calls of the fabric; NULL: nobody */

static void fake_called(void)
{
    if (fake_on_call)
        fake_on_call();
}

/* What is open, and which call that opens something fails: all calls of this name but the first
 * ones. */
static unsigned int fake_num_open;
static const char *fake_failing; /* NULL: none */
static int fake_failure, fake_good_calls;

/* The result of a call that opens something. */
static int fake_open(const char *name)
{
    fake_called();
    if (fake_failing && strcmp(name, fake_failing) == 0 && fake_good_calls-- <= 0)
        return fake_failure;
    fake_num_open++;
    return 0;
}

/* The result of another call of this name. */
static int fake_call(const char *name)
{
    int rc = fake_open(name);

    if (rc == 0)
        fake_num_open--;
    return rc;
}

static int fake_close(struct fid *fid)
{
    (void)fid;
    fake_called();
    fake_num_open--;
    return 0;
}

static uint64_t fake_hash(const void *bytes, size_t size)
{
    uint64_t hash = 1;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const volatile uint8_t *)bytes)[i]) * 0x100000001b3;
    return hash;
}

/* A buffer belongs to the fabric from when it is posted until the operation ends. */
static void fake_check_posted(const struct fake_posted *p)
{
    if (p->source && fake_hash(p->source, p->size) != p->sum)
        abort();
}

enum { FAKE_CANARY = 0xa5 };

static unsigned int fake_num_mrs, fake_mrs_at_close; /* when the last endpoint was closed */

static int fake_ep_close(struct fid *fid)
{
    struct fake_ep *fake = fp_container_of(fid, struct fake_ep, ep.fid);

    for (unsigned int i = 0; i < fake->num_receives; i++)
        if (*(const volatile uint8_t *)fake->receives[i].bytes != FAKE_CANARY)
            abort();
    for (unsigned int i = 0; i < fake->num_sends; i++)
        fake_check_posted(&fake->sends[i]);
    fake->is_open = false;
    fake_mrs_at_close = fake_num_mrs;
    return fake_close(fid);
}

static int fake_av_close(struct fid *fid)
{
    if (fp_container_of(fid, struct fake_ep, av.fid)->is_open)
        abort();
    return fake_close(fid);
}

static int fake_cq_close(struct fid *fid)
{
    struct fake_ep *fake = fp_container_of(fid, struct fake_ep, cq.fid);

    if (fake->is_open)
        abort();
    if (fake->fd > 0)
        close(fake->fd);
    fake->fd = 0;
    return fake_close(fid);
}

static uint64_t fake_last_access; /* of a registration */

static int fake_mr_close(struct fid *fid)
{
    fake_called();
    fake_num_mrs--;
    free(fid);
    return 0;
}

static int fake_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
    (void)fid, (void)to, (void)flags;
    return fake_call("bind");
}

static int fake_control(struct fid *fid, int command, void *arg)
{
    (void)fid, (void)arg;
    return command == FI_GETWAIT ? -FI_ENOSYS : fake_call("enable");
}

static int fake_cq_control(struct fid *fid, int command, void *arg)
{
    const struct fake_ep *fake = fp_container_of(fid, struct fake_ep, cq.fid);

    if (command != FI_GETWAIT || fake->fd <= 0)
        return fake_control(fid, command, arg);
    *(int *)arg = fake->fd;
    return 0;
}

static struct fi_ops fake_cq_fid_ops = {.size = sizeof(struct fi_ops),
                                        .close = fake_cq_close,
                                        .bind = fake_bind,
                                        .control = fake_cq_control};
static struct fi_ops fake_fid_ops = {
    .size = sizeof(struct fi_ops), .close = fake_close, .bind = fake_bind, .control = fake_control};
static struct fi_ops fake_av_fid_ops = {.size = sizeof(struct fi_ops), .close = fake_av_close};
static struct fi_ops fake_ep_fid_ops = {.size = sizeof(struct fi_ops),
                                        .close = fake_ep_close,
                                        .bind = fake_bind,
                                        .control = fake_control};
static struct fi_ops_domain *fake_domain_ops;

static int fake_domain_close(struct fid *fid)
{
    if (fp_container_of(fid, struct fid_domain, fid)->ops != fake_domain_ops)
        abort();
    free(fid);
    fake_num_open--;
    return 0;
}

static struct fi_ops fake_domain_fid_ops = {.size = sizeof(struct fi_ops),
                                            .close = fake_domain_close};
static struct fi_ops fake_mr_ops = {.size = sizeof(struct fi_ops),
                                    .close = fake_mr_close,
                                    .bind = fake_bind,
                                    .control = fake_control};

/* The result of the next operation. */
static ssize_t fake_take_error(void)
{
    ssize_t rc = fake_error;

    fake_called();
    fake_error = 0;
    if (rc == 0 && fake_busy > 0) {
        fake_busy--;
        return -FI_EAGAIN;
    }
    return rc;
}

static struct fake_sent *fake_note(struct fake_ep *fake, const void *bytes, size_t size,
                                   fi_addr_t to)
{
    struct fake_sent *s = &fake->log[fake->num_sent++ % FAKE_LOG];

    *s = (struct fake_sent){.size = size, .to = to};
    memcpy(s->bytes, bytes, size < FAKE_KEPT ? size : FAKE_KEPT);
    return s;
}

static ssize_t post(struct fake_posted *list, unsigned int *num, void *bytes, size_t size,
                    void *context)
{
    ssize_t rc = fake_take_error();

    if (rc != 0)
        return rc;
    if (*num == FAKE_DEPTH)
        return -FI_EAGAIN;
    list[(*num)++] = (struct fake_posted){.context = context, .bytes = bytes, .size = size};
    return 0;
}

static struct fake_ep *fake_of(struct fid_ep *ep)
{
    return fp_container_of(ep, struct fake_ep, ep);
}

static ssize_t fake_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
                         void *context)
{
    (void)desc, (void)from;
    if (fake_max_receives > 0 && fake_of(ep)->num_receives == fake_max_receives)
        return -FI_EAGAIN;
    ssize_t rc = post(fake_of(ep)->receives, &fake_of(ep)->num_receives, buf, len, context);
    if (rc == 0)
        *(uint8_t *)buf = FAKE_CANARY;
    return rc;
}

/* Reads the data, so that the sanitizer checks sent messages. */
static uint8_t fake_sum(const void *bytes, size_t size)
{
    uint8_t sum = 0;

    for (size_t i = 0; i < size; i++)
        sum ^= ((const volatile uint8_t *)bytes)[i];
    return sum;
}

static ssize_t fake_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
                         void *context)
{
    (void)desc;
    fake_sum(buf, len);
    struct fake_ep *fake = fake_of(ep);
    ssize_t rc = fake_send_error ? fake_send_error() : 0;
    if (rc == 0)
        rc = post(fake->sends, &fake->num_sends, NULL, len, context);
    if (rc == 0) {
        fake->sends[fake->num_sends - 1].source = buf;
        fake->sends[fake->num_sends - 1].sum = fake_hash(buf, len);
        fake_note(fake, buf, len, to);
    }
    return rc;
}

static ssize_t fake_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
    fake_sum(buf, len);
    ssize_t rc = fake_send_error ? fake_send_error() : fake_take_error();
    if (rc == 0)
        fake_note(fake_of(ep), buf, len, to)->is_injected = true;
    return rc;
}

static ssize_t fake_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
                         uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    ssize_t rc = post(fake_of(ep)->sends, &fake_of(ep)->num_sends, buf, len, context);
    if (rc == 0) {
        struct fake_sent *s = fake_note(fake_of(ep), "", 0, from);
        s->is_rma = true;
        s->size = len;
        s->addr = addr;
        s->key = key;
    }
    return rc;
}

static ssize_t fake_writemsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
    fake_sum(m->msg_iov->iov_base, m->msg_iov->iov_len);
    ssize_t rc = post(fake_of(ep)->sends, &fake_of(ep)->num_sends, NULL, 0, m->context);
    if (rc == 0) {
        struct fake_sent *s =
            fake_note(fake_of(ep), m->msg_iov->iov_base, m->msg_iov->iov_len, m->addr);
        s->is_rma = true;
        s->addr = m->rma_iov->addr;
        s->key = m->rma_iov->key;
        s->flags = flags;
        s->desc = m->desc ? m->desc[0] : NULL;
    }
    return rc;
}

static int fake_getname(fid_t fid, void *name, size_t *size)
{
    const struct fake_ep *fake = fp_container_of(fid, struct fake_ep, ep.fid);
    int rc = fake_call("getname");
    if (rc != 0) {
        *size = (size_t)(rc == -FI_ETOOSMALL ? FP_NAME_MAX + 1 : 0);
        return rc == -FI_ETOOSMALL ? 0 : rc;
    }

    memset(name, 1, 16);
    if (fake_has_names)
        *(uint8_t *)name = (uint8_t)(fake - fake_eps);
    *size = 16;
    return 0;
}

static struct fi_ops_cm fake_cm = {.size = sizeof(struct fi_ops_cm), .getname = fake_getname};
static struct fi_ops_msg fake_msg = {
    .size = sizeof(struct fi_ops_msg), .recv = fake_recv, .send = fake_send, .inject = fake_inject};
static struct fi_ops_rma fake_rma = {
    .size = sizeof(struct fi_ops_rma), .read = fake_read, .writemsg = fake_writemsg};

static bool fake_reads_many; /* a read of a queue gets all entries that there are */

/* One at a time, so that effects of a callback precede the next one. */
static ssize_t fake_cq_read(struct fid_cq *cq, void *entries, size_t count)
{
    struct fake_ep *fake = fp_container_of(cq, struct fake_ep, cq);
    size_t n = fake_reads_many && fake->num_done < count ? fake->num_done
               : fake_reads_many                         ? count
                                                         : 1;

    fake_called();
    if (fake->failed)
        return -FI_EAVAIL;
    if (fake->num_done == 0 || count == 0)
        return -FI_EAGAIN;
    struct fi_cq_msg_entry *at = fake->done + (fake_reorders ? fake->num_done - 1 : 0);
    memcpy(entries, at, n * sizeof(*at));
    fake->num_done -= (unsigned int)n;
    memmove(at, at + n, (size_t)(fake->done + fake->num_done - at) * sizeof(*at));
    return (ssize_t)n;
}

static bool fake_lacks_context; /* errors name no operation */

static ssize_t fake_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct fake_ep *fake = fp_container_of(cq, struct fake_ep, cq);

    (void)flags;
    if (!fake->failed)
        return -FI_EAGAIN;
    *entry = (struct fi_cq_err_entry){.op_context = fake_lacks_context ? NULL : fake->failed,
                                      .err = FI_EIO};
    fake->failed = NULL;
    return 1;
}

static int fake_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *at,
                       uint64_t flags, void *context)
{
    (void)av, (void)flags, (void)context;
    if (fake_refused_names > 0) {
        fake_refused_names--;
        return 0;
    }
    *at = fake_has_names ? *(const uint8_t *)addr : fake_names;
    fake_names++;
    return (int)count;
}

static int fake_remove(struct fid_av *av, fi_addr_t *at, size_t count, uint64_t flags)
{
    (void)av, (void)at, (void)flags;
    fake_names_removed += (unsigned int)count;
    return 0;
}

static struct fi_ops_cq fake_cq_ops = {
    .size = sizeof(struct fi_ops_cq), .read = fake_cq_read, .readerr = fake_cq_readerr};
static struct fi_ops_av fake_av_ops = {
    .size = sizeof(struct fi_ops_av), .insert = fake_insert, .remove = fake_remove};

static int fake_wait_obj; /* of the last queue */

/* None of 0 to 2, also if one of them is closed. */
static int fake_make_fd(void)
{
    int made = eventfd(0, EFD_CLOEXEC), fd = fcntl(made, F_DUPFD_CLOEXEC, 3);

    close(made);
    return fd;
}

static int fake_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                        void *context)
{
    struct fake_ep *fake = &fake_eps[fake_num_eps % FAKE_EPS];

    (void)domain, (void)context;
    memset(fake, 0, sizeof(*fake));
    if (attr->wait_obj != FI_WAIT_NONE && !fake_has_fds)
        return -FI_ENOSYS;
    fake_wait_obj = attr->wait_obj;
    int rc = fake_open("cq");
    if (rc != 0)
        return rc;
    fake->fd = fake_has_fds ? fake_make_fd() : 0;
    fake->cq = (struct fid_cq){.fid.ops = &fake_cq_fid_ops, .ops = &fake_cq_ops};
    *cq = &fake->cq;
    return 0;
}

static int fake_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                        void *context)
{
    struct fake_ep *fake = &fake_eps[fake_num_eps % FAKE_EPS];

    (void)domain, (void)attr, (void)context;
    int rc = fake_open("av");
    if (rc != 0)
        return rc;
    fake->av = (struct fid_av){.fid.ops = &fake_av_fid_ops, .ops = &fake_av_ops};
    *av = &fake->av;
    return 0;
}

static int fake_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                         void *context)
{
    struct fake_ep *fake = &fake_eps[fake_num_eps % FAKE_EPS];

    (void)domain, (void)info, (void)context;
    int rc = fake_open("endpoint");
    if (rc != 0)
        return rc;
    fake_num_eps++;
    fake->is_open = true;
    fake->ep = (struct fid_ep){
        .fid.ops = &fake_ep_fid_ops, .cm = &fake_cm, .msg = &fake_msg, .rma = &fake_rma};
    *ep = &fake->ep;
    return 0;
}

static int fake_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                    uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
    (void)fid, (void)buf, (void)len, (void)offset, (void)key, (void)flags, (void)context;
    fake_last_access = access;
    int rc = fake_call("mr");
    if (rc != 0)
        return rc;
    if (!(*mr = calloc(1, sizeof(**mr))))
        return -FI_ENOMEM;
    (*mr)->fid.ops = &fake_mr_ops;
    (*mr)->key = ++fake_last_key;
    (*mr)->mem_desc = *mr;
    fake_num_mrs++;
    return 0;
}

static int fake_domain_open(struct fid_fabric *fabric, struct fi_info *info,
                            struct fid_domain **domain, void *context)
{
    static struct fi_ops_domain ops = {.size = sizeof(ops),
                                       .av_open = fake_av_open,
                                       .cq_open = fake_cq_open,
                                       .endpoint = fake_endpoint};
    static struct fi_ops_mr mr = {.size = sizeof(mr), .reg = fake_reg};

    (void)fabric, (void)info, (void)context;
    int rc = fake_open("domain");
    if (rc != 0)
        return rc;
    fake_domain_ops = &ops;
    *domain = calloc(1, sizeof(**domain));
    if (!*domain) {
        fake_num_open--;
        return -FI_ENOMEM;
    }
    **domain = (struct fid_domain){.fid.ops = &fake_domain_fid_ops, .ops = &ops, .mr = &mr};
    return 0;
}

/* -FI_EAGAIN: something has ended, so that nobody may sleep. */
static int fake_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    int rc = 0;

    (void)fabric;
    fake_called();
    for (int i = 0; i < count; i++) {
        const struct fake_ep *fake = fp_container_of(fids[i], struct fake_ep, cq.fid);
        if (fake->num_done > 0 || fake->failed)
            rc = -FI_EAGAIN;
    }
    return rc;
}

/* A wait set, as queues of `net` have them. */
static unsigned int fake_waits; /* calls of fi_wait() */
static int fake_wait_fd = -1;   /* of the last one */

struct fake_wait_set {
    struct fid_wait set;
    int fd;
};

static int fake_wait(struct fid_wait *set, int timeout)
{
    (void)set;
    fake_waits += timeout == 0;
    return -FI_ETIMEDOUT;
}

static int fake_wait_close(struct fid *fid)
{
    struct fake_wait_set *made = fp_container_of(fid, struct fake_wait_set, set.fid);

    close(made->fd);
    free(made);
    fake_num_open--;
    return 0;
}

static int fake_wait_control(struct fid *fid, int command, void *arg)
{
    *(int *)arg = fp_container_of(fid, struct fake_wait_set, set.fid)->fd;
    return command == FI_GETWAIT ? 0 : -FI_ENOSYS;
}

static int fake_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
                          struct fid_wait **set)
{
    static struct fi_ops_wait ops = {.size = sizeof(ops), .wait = fake_wait};
    static struct fi_ops fid_ops = {
        .size = sizeof(fid_ops), .close = fake_wait_close, .control = fake_wait_control};

    (void)fabric;
    int rc = attr->wait_obj == FI_WAIT_FD ? fake_open("wait") : -FI_EINVAL;
    struct fake_wait_set *made = rc == 0 ? calloc(1, sizeof(*made)) : NULL;
    if (!made)
        return rc ? rc : -FI_ENOMEM;
    made->set = (struct fid_wait){.fid.ops = &fid_ops, .ops = &ops};
    made->fd = fake_wait_fd = fake_make_fd();
    *set = &made->set;
    return 0;
}

static int fake_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    static struct fi_ops_fabric ops = {.size = sizeof(ops),
                                       .domain = fake_domain_open,
                                       .wait_open = fake_wait_open,
                                       .trywait = fake_trywait};

    (void)attr, (void)context;
    int rc = fake_open("fabric");
    if (rc != 0)
        return rc;
    fake_fabric = (struct fid_fabric){.fid.ops = &fake_fid_ops, .ops = &ops};
    *fabric = &fake_fabric;
    return 0;
}

struct fake_info {
    struct fi_info info;
    struct fi_tx_attr tx;
    struct fi_rx_attr rx;
    struct fi_ep_attr ep;
    struct fi_domain_attr domain;
    struct fi_fabric_attr fabric;
    char name[8];
};

static struct fi_info *fake_dupinfo(const struct fi_info *of)
{
    struct fake_info *i = calloc(1, sizeof(*i));

    (void)of;
    if (!i)
        return NULL;
    i->tx = (struct fi_tx_attr){.inject_size = 64, .msg_order = FI_ORDER_SAS | FI_ORDER_SAW};
    i->rx.msg_order = i->tx.msg_order;
    i->ep.max_msg_size = FAKE_BUFFER;
    strcpy(i->name, "fake");
    i->domain.name = i->fabric.prov_name = i->name;
    i->info = (struct fi_info){.caps = FI_MSG | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ |
                                       FI_REMOTE_WRITE,
                               .tx_attr = &i->tx,
                               .rx_attr = &i->rx,
                               .ep_attr = &i->ep,
                               .domain_attr = &i->domain,
                               .fabric_attr = &i->fabric};
    if (fake_change)
        fake_change(&i->info);
    return &i->info;
}

static int fake_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                        const struct fi_info *hints, struct fi_info **info)
{
    (void)version, (void)node, (void)service, (void)flags;
    *info = fake_dupinfo(hints);
    return *info ? 0 : -FI_ENOMEM;
}

static void fake_freeinfo(struct fi_info *info)
{
    free(info);
}

static const char *fake_strerror(int error)
{
    return strerror(error);
}

const struct fp_lib *fp_lib(char why[FP_WHY])
{
    static const struct fp_lib lib = {.getinfo = fake_getinfo,
                                      .freeinfo = fake_freeinfo,
                                      .dupinfo = fake_dupinfo,
                                      .fabric = fake_fabric_open,
                                      .strerror = fake_strerror};

    (void)why;
    return &lib;
}

const char *fp_strerror(long rc)
{
    return strerror((int)-rc);
}

/* Delivers a message. False: no receive is posted. */
static bool fake_arrive(struct fake_ep *fake, const void *bytes, size_t size)
{
    struct fake_posted *r = &fake->receives[0];

    if (fake->num_receives == 0 || fake->num_done == FAKE_DEPTH)
        return false;
    size = size < r->size ? size : r->size;
    memcpy(r->bytes, bytes, size);
    fake->done[fake->num_done++] = (struct fi_cq_msg_entry){.op_context = r->context, .len = size};
    memmove(r, r + 1, --fake->num_receives * sizeof(*r));
    return true;
}

/* Ends the operation that was posted first. */
static void fake_end(struct fake_ep *fake, bool well)
{
    struct fake_posted *s = &fake->sends[0];

    if (fake->num_sends == 0 || fake->failed || fake->num_done == FAKE_DEPTH)
        return;
    fake_check_posted(s);
    if (s->bytes)
        memset(s->bytes, 3, s->size);
    if (well)
        fake->done[fake->num_done++] = (struct fi_cq_msg_entry){.op_context = s->context};
    else
        fake->failed = s->context;
    memmove(s, s + 1, --fake->num_sends * sizeof(*s));
}

#endif
